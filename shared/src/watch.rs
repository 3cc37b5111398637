//! Following one object or a collection: list, then watch, for ever, in bounded memory.

mod events;
mod follow;
mod list;

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    call::{Call, JSON, METADATA, METADATA_LIST},
    client::Client,
    error::{Error, Result},
    pace::Backoff,
    resource::Target,
    stop::Stop,
};

use self::{
    events::Events,
    list::{Page, encoded, read_page},
};

pub use self::follow::{Change, follow};

/// The server ends a watch after this many seconds; drawn from here up to twice as much, as
/// client-go does with 5 to 10 minutes (client-go `tools/cache/reflector.go:57-58`).
const WATCH_SECONDS: u64 = 240;
/// client-go's longest wait between lists (`tools/cache/reflector.go:62-67`).
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A watch that ends sooner than this without an event counts as failed (`reflector.go:1091`).
const TOO_SHORT: Duration = Duration::from_secs(1);

/// What is listed and watched.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// A collection, or one object of it if it has a name.
    pub target: Target<'a>,
    /// A label selector, or empty.
    pub labels: &'a str,
    /// Whether of each object nothing but its metadata is sent.
    pub metadata_only: bool,
    /// Objects in a page of a list; 0 asks for all at once, and first for what the server has in memory.
    pub page: u32,
}

impl<'a> Selection<'a> {
    /// Whole objects, whatever their labels are, in one answer.
    pub fn all(target: Target<'a>) -> Self {
        Self { target, labels: "", metadata_only: false, page: 0 }
    }

    fn list(&self, query: &str) -> Call<'a> {
        let accept = if self.metadata_only { METADATA_LIST } else { JSON };
        Call { accept, ..Call::list(self.target, &self.query(query)) }
    }

    fn watch(&self, version: &str) -> Call<'a> {
        let seconds = fastrand::u64(WATCH_SECONDS..2 * WATCH_SECONDS);
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
        );
        let accept = if self.metadata_only { METADATA } else { JSON };
        Call { accept, ..Call::watch(self.target, &self.query(&query)) }
    }

    fn query(&self, query: &str) -> String {
        match self.labels {
            "" => query.to_owned(),
            labels if query.is_empty() => format!("labelSelector={}", encoded(labels)),
            labels => format!("labelSelector={}&{query}", encoded(labels)),
        }
    }
}

/// What happened to the selection, in order.
#[derive(Debug)]
pub enum Step<'a> {
    /// A list begins; one that began before and was not completed is void.
    Began {
        /// The resourceVersions of this server may have gone back, as after a restore: what was known
        /// before may be newer than what is listed now.
        rewound: bool,
    },
    /// An object of the list that has begun.
    Item(Value),
    /// The list is complete: what is not in it is gone.
    Complete,
    /// A watch stands: from now on changes are told as they come.
    Watching,
    /// An object is new or changed.
    Put(Value),
    /// An object was deleted, or belongs to the selection no more; this is its last state.
    Removed(Value),
    /// A request failed and is tried again; what was known stays.
    Failed(&'a Error),
}

/// The place in an endless list-and-watch, which outlives the run and its client.
#[derive(Debug)]
pub struct Stream {
    place: Place,
    rewound: bool,
    backoff: Backoff,
}

/// What comes next. A version is empty where the server did not say one.
#[derive(Debug)]
enum Place {
    /// The first list.
    First,
    /// A list of the newest state.
    Newest,
    /// A list that is no older than this version.
    Since(String),
    /// A watch from this version on.
    At(String),
}

struct Source<'a> {
    client: &'a Client,
    selection: &'a Selection<'a>,
    stop: &'a Stop,
}

type On<'a> = dyn FnMut(Step<'_>) -> ControlFlow<()> + 'a;

impl Default for Stream {
    fn default() -> Self {
        Self { place: Place::First, rewound: false, backoff: Backoff::new(LONGEST_WAIT) }
    }
}

impl Stream {
    /// Forgets the place, as for another server behind the same name: the next run lists anew.
    pub fn reset(&mut self) {
        (self.place, self.rewound) = (Place::Newest, true);
    }

    /// Goes on with a list instead of a watch, as after a lost connection: a watch tells nothing of a
    /// server that went back meanwhile.
    pub fn relist(&mut self) {
        if let Place::At(version) = &mut self.place {
            self.place = Place::Since(std::mem::take(version));
        }
    }

    /// Goes on from the place until `on` breaks or `stop` is raised; to end a watch that is silent,
    /// close the client too. Failures are logged once and tried again, and a failure is never told as
    /// an absence.
    pub fn run(
        &mut self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        on: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) {
        let source = Source { client, selection, stop };
        while !stop.raised() {
            let went = match &self.place {
                Place::At(version) => self.watch(&source, version.clone(), on),
                _ => self.list(&source, on),
            };
            match went {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                // Whoever ended it may have closed the client too.
                Err(_) if stop.raised() => return,
                Err(error) => {
                    let wait = self.failed(&error);
                    if on(Step::Failed(&error)).is_break() {
                        return;
                    }
                    stop.wait(wait);
                }
            }
        }
    }

    fn list(&mut self, source: &Source<'_>, on: &mut On<'_>) -> Result<ControlFlow<()>> {
        let mut query = self.first_page(source.selection.page);
        let mut begun = false;
        loop {
            let call = source.selection.list(&query);
            let answer = source.client.send(&call)?;
            if !begun && on(Step::Began { rewound: self.rewound }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            begun = true;
            let limit = if source.selection.page == 0 { call.limit() } else { u64::MAX };
            let body = answer.into_body().into_with_config().limit(limit).reader();
            let page = read_page(source.client, &call, body, &mut |item| {
                source.is_asked_for(&item)?;
                Ok(on(Step::Item(item)))
            })?;
            let ControlFlow::Continue(Page { version, next }) = page else {
                return Ok(ControlFlow::Break(()));
            };
            source.client.hears();
            let Some(token) = next else {
                (self.place, self.rewound) = (Place::At(version), false);
                self.succeeded(source);
                return Ok(on(Step::Complete));
            };
            if source.stop.raised() {
                return Ok(ControlFlow::Break(()));
            }
            query = format!("limit={}&continue={token}", source.selection.page);
        }
    }

    fn first_page(&self, page: u32) -> String {
        let version = match &self.place {
            // "0": any state that the server has in memory; the watch brings it up to date. It heeds no
            // limit then (apiserver `pkg/storage/cacher/delegator`, ShouldDelegateList).
            Place::First if page == 0 => "resourceVersion=0".to_owned(),
            Place::Since(version) if !version.is_empty() => {
                format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan")
            }
            _ => String::new(),
        };
        match (page, &*version) {
            (0, _) => version,
            (_, "") => format!("limit={page}"),
            _ => format!("limit={page}&{version}"),
        }
    }

    fn watch(
        &mut self,
        source: &Source<'_>,
        version: String,
        on: &mut On<'_>,
    ) -> Result<ControlFlow<()>> {
        let started = Instant::now();
        let call = source.selection.watch(&version);
        let mut stream = Events::open(source.client, call)?;
        if on(Step::Watching).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut events = 0_u64;
        let ended = loop {
            let (kind, object) = match stream.next() {
                Ok(Some(event)) => event,
                Ok(None) => break stream.lost("the server ended it"),
                Err(error @ (Error::Gone(_) | Error::TooNew(_))) => return Err(error),
                Err(error) => break error,
            };
            events += 1;
            self.succeeded(source);
            if let Some(seen) = plain(&object["metadata"]["resourceVersion"]) {
                self.place = Place::At(seen.to_owned());
            }
            if kind != "BOOKMARK" {
                source.is_asked_for(&object)?;
            }
            let step = match kind.as_str() {
                "BOOKMARK" => continue,
                "DELETED" => Step::Removed(object),
                _ => Step::Put(object),
            };
            if on(step).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        };
        let short = started.elapsed() < TOO_SHORT;
        if events == 0 && short {
            return Err(ended);
        }
        // Streams end: by the server's clock, a balancer or a change of credentials. The next one goes
        // on from the same version. After one that brought not even a bookmark only a list can tell: a
        // server that was restored from a backup answers a version from its future with silence.
        log::debug!("{ended}");
        if events == 0 {
            self.place = Place::Since(version);
        }
        if short {
            source.stop.wait(TOO_SHORT);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn succeeded(&mut self, source: &Source<'_>) {
        let failures = self.backoff.succeeded();
        if failures > 0 {
            let (target, whose) = (source.selection.target, source.client.whose());
            log::info!("{target} on {whose} can be read again after {failures} failures");
        }
    }

    /// Takes note of a failure; returns how long to wait.
    fn failed(&mut self, error: &Error) -> Duration {
        match error {
            Error::Gone(_) => self.place = Place::Newest,
            Error::TooNew(_) => self.reset(),
            _ => {}
        }
        let retry = self.backoff.failed(error, Instant::now(), fastrand::f64());
        if retry.tell {
            log::warn!("{error}; what was known of it stays");
        } else {
            log::debug!("{error}; again in {:?}", retry.wait);
        }
        retry.wait
    }
}

impl Source<'_> {
    /// A server or proxy that does not heed the field selector must not pass another object off.
    fn is_asked_for(&self, object: &Value) -> Result<()> {
        let target = self.selection.target;
        if target.name.is_none_or(|name| object["metadata"]["name"] == name) {
            return Ok(());
        }
        let whose = self.client.whose();
        Err(Error::BadPeer(format!(
            "watch {target} on {whose}: the answer is about another object"
        )))
    }
}

/// A version, if it can go into a query as it is.
fn plain(version: &Value) -> Option<&str> {
    version.as_str().filter(|version| version.chars().all(|c| c.is_ascii_alphanumeric()))
}
