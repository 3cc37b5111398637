//! Watcher of one object or a collection: list, then watch, forever, in bounded memory.

mod events;
mod list;
mod list_watch;

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use log::Level;

use crate::{
    backoff::Backoff,
    client::{Client, request::joined},
    error::{Error, Result},
    json::Document,
    log_line::seconds,
    log_object,
    stop::Stop,
};

use self::{
    events::{EventType, Events},
    list_watch::ListWatch,
};

pub(crate) use self::list::encoded;
pub use self::list_watch::{Selection, list};

/// The margin for a server that does not end a watch in time.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// client-go's longest wait between lists (`tools/cache/reflector.go:62-67`).
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The longest wait that a server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Fewer failed watches in a row mean a network that comes and goes. After so many, lists stand in, as behind a gateway
/// that holds answers back.
const MAX_FAILED_WATCHES: u32 = 3;
/// Between two looks for another identity after a 401.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(1);
/// A watch that ends sooner without an event counts as failed (`reflector.go:1091`).
const MIN_WATCH_TIME: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub enum Event<'a> {
    /// A list begins; an earlier list without its end is void.
    Init {
        /// The resourceVersions of this server may have gone back, as after a restore: the known state may
        /// be newer than the list.
        rewound: bool,
    },
    /// An object of the list that has begun.
    InitApply(Document),
    /// The list is complete: what is not in it is gone.
    InitDone,
    /// A watch is established: from now on changes are reported as they come.
    Watching,
    /// An object is new or changed.
    Apply(Document),
    /// An object was deleted, or belongs to the selection no more; this is its last state.
    Delete(Document),
    /// A request failed and will be tried again; the known state stays.
    Failed(&'a Error),
}

/// The state of an endless list-and-watch, which outlives the run and its client.
#[derive(Debug)]
pub struct Watcher {
    state: State,
    rewound: bool,
    backoff: Backoff,
    /// Watches in a row that brought nothing but a failure. Until one succeeds, a list does not end the backoff.
    failed_watches: u32,
    /// Host and port of the server that gave the version.
    server: String,
}

#[derive(Debug, PartialEq)]
enum State {
    Newest,
    /// The same in one answer: the pages of the last list expired before they were read.
    Whole,
    Since(String),
    /// A watch from this version on, or from now on if it is empty: the server gave no usable one.
    At(String),
}

type On<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

impl Default for Watcher {
    fn default() -> Self {
        let backoff = Backoff::new(MAX_BACKOFF).honoring(MAX_RETRY_AFTER);
        Self {
            state: State::Newest,
            rewound: false,
            backoff,
            failed_watches: 0,
            server: String::new(),
        }
    }
}

impl Watcher {
    /// Forgets the state, as for another server with the same name: the next run lists anew.
    pub fn reset(&mut self) {
        (self.state, self.rewound) = (State::Newest, true);
    }

    /// Continues with a list instead of a watch, as after a lost connection: a watch does not report that a
    /// server went back meanwhile.
    pub fn relist(&mut self) {
        if let State::At(version) = &mut self.state {
            self.state = State::Since(std::mem::take(version));
        }
    }

    /// Continues until `on` breaks or `stop` is raised; to end a silent watch, close the client too.
    /// Failures are logged once and tried again, and are never reported as an absence.
    pub fn run(
        &mut self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        on: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) {
        let list_watch = ListWatch { client, selection, stop };
        while !stop.raised() {
            let identity = client.generation();
            let went = match &self.state {
                State::At(version) => self.watch(&list_watch, &version.clone(), on),
                _ => self.list(&list_watch, on),
            };
            match went {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                // The client may have been closed with `stop`.
                Err(_) if stop.raised() => return,
                Err(error) => {
                    self.move_on(&error);
                    if selection.list_after_loss {
                        self.relist();
                    }
                    let wait = self.failed(&list_watch, &error);
                    if on(Event::Failed(&error)).is_break() {
                        return;
                    }
                    match error {
                        Error::Unauthorized(_) => wait_for_identity(client, identity, stop, wait),
                        _ => drop(stop.wait(wait)),
                    }
                }
            }
        }
    }

    fn list(&mut self, list_watch: &ListWatch<'_>, on: &mut On<'_>) -> Result<ControlFlow<()>> {
        // The version of another server means nothing here.
        let _ = self.follow_server(list_watch.client);
        let listed = list_watch.list(&self.state, self.rewound, on)?;
        let ControlFlow::Continue(version) = listed else {
            return Ok(ControlFlow::Break(()));
        };
        (self.state, self.rewound) = (State::At(version), false);
        if self.failed_watches == 0 {
            self.succeeded(list_watch);
        }
        Ok(on(Event::InitDone))
    }

    fn watch(
        &mut self,
        list_watch: &ListWatch<'_>,
        version: &str,
        on: &mut On<'_>,
    ) -> Result<ControlFlow<()>> {
        let asked = list_watch.client.timeouts().watch.as_secs();
        let (started, seconds) = (Instant::now(), fastrand::u64(asked..2 * asked));
        let request = list_watch.selection.watch(version, seconds);
        let client = list_watch.client;
        let budget = client.budget(&request);
        let longest = Duration::from_secs(seconds) + WATCH_GRACE;
        let mut stream = Events::open(client, &request, &budget, list_watch.stop, longest)?;
        if self.follow_server(list_watch.client) {
            return Ok(ControlFlow::Continue(()));
        }
        // Whoever raises `stop` closes the client next, which ends connections that are open by then.
        if list_watch.stop.raised() || on(Event::Watching).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut events = 0_u64;
        let ended = loop {
            match stream.next() {
                Ok(Some(event)) => {
                    if self.handle(list_watch, event, on)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    events += 1;
                }
                Ok(None) => break stream.lost("the server ended it"),
                Err(error @ (Error::Unreachable(_) | Error::BadPeer(_))) => break error,
                // An error that the server sends as an event.
                Err(error) => return Err(error),
            }
        };
        let lasted = started.elapsed();
        if events == 0 && lasted < MIN_WATCH_TIME {
            return Err(ended);
        }
        // Streams end: by the server's clock, a balancer or a change of credentials. The next one continues
        // from the same version. After one without even a bookmark only a list can tell: a server that was
        // restored from a backup answers a version from its future with silence.
        let (target, server) = (list_watch.selection.target, list_watch.client.name());
        log_object!(Level::Debug, target, server = server, error:% = ended; "watch ended");
        if events == 0 {
            self.failed_watches = 0;
            self.state = State::Since(version.to_owned());
        } else if list_watch.selection.list_after_loss && lasted.as_secs() < seconds {
            self.relist();
        }
        if lasted < MIN_WATCH_TIME {
            list_watch.stop.wait(MIN_WATCH_TIME);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Hands over an event, and continues from its version.
    fn handle(
        &mut self,
        list_watch: &ListWatch<'_>,
        (kind, document): (EventType, Document),
        on: &mut On<'_>,
    ) -> Result<ControlFlow<()>> {
        if !matches!(kind, EventType::Bookmark) {
            list_watch.is_asked_for(&document)?;
        }
        self.failed_watches = 0;
        self.succeeded(list_watch);
        if let Some(version) = usable(document.version()) {
            self.state = State::At(version.to_owned());
        }
        Ok(match kind {
            EventType::Apply => on(Event::Apply(document)),
            EventType::Delete => on(Event::Delete(document)),
            EventType::Bookmark => ControlFlow::Continue(()),
        })
    }

    /// Notes the client's server; returns whether it has changed, as its files may lead elsewhere. The version of one
    /// server means nothing to another, which may still accept it: the next request lists the newest state.
    fn follow_server(&mut self, client: &Client) -> bool {
        let before = std::mem::replace(&mut self.server, client.host());
        let elsewhere = before != self.server && !before.is_empty();
        if elsewhere {
            self.reset();
        }
        elsewhere
    }

    /// Chooses the next request after a failure.
    fn move_on(&mut self, error: &Error) {
        if matches!(self.state, State::At(_)) {
            self.failed_watches = self.failed_watches.saturating_add(1);
        }
        match error {
            Error::Gone(_) => {
                self.state = match self.state {
                    State::At(_) => State::Newest,
                    // As client-go does (`tools/pager/pager.go`, FullListIfExpired).
                    _ => State::Whole,
                };
            }
            Error::TooNew(_) => self.reset(),
            // The server may object to the version.
            Error::Invalid(_) | Error::BadConfig(_) => self.state = State::Newest,
            Error::Unreachable(_) | Error::BadPeer(_) | Error::Unavailable { .. }
                if self.failed_watches < MAX_FAILED_WATCHES => {}
            _ => self.relist(),
        }
    }

    fn succeeded(&mut self, list_watch: &ListWatch<'_>) {
        let failures = self.backoff.succeeded();
        if failures > 0 {
            let (target, server) = (list_watch.selection.target, list_watch.client.name());
            log_object!(
                Level::Info, target, server = server, failures = failures;
                "readable again"
            );
        }
    }

    /// Records a failure and logs it; returns how long to wait.
    fn failed(&mut self, list_watch: &ListWatch<'_>, error: &Error) -> Duration {
        let (target, server) = (list_watch.selection.target, list_watch.client.name());
        let retry = self.backoff.failed(error, Instant::now(), fastrand::f64());
        let level = retry.level();
        let retry_in = seconds(retry.wait);
        log_object!(
            level, target, server = server, error:% = error, retry_in = retry_in;
            "list or watch failed, keeping the last known state"
        );
        retry.wait
    }
}

/// Waits, but not beyond a change of the identity that was `refused`.
fn wait_for_identity(client: &Client, refused: u64, stop: &Stop, wait: Duration) {
    let end = Instant::now() + wait;
    while client.generation() == refused {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.wait(left.min(IDENTITY_INTERVAL)) {
            return;
        }
    }
}

impl State {
    /// The query of the first of a list's pages, which have at most `page` objects.
    fn first_page(&self, page: Option<u32>) -> String {
        let limit = match page {
            Some(page) if *self != Self::Whole => format!("limit={page}"),
            _ => String::new(),
        };
        match self {
            Self::Since(version) if !version.is_empty() => {
                let since = format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan");
                joined(&[&limit, &since])
            }
            _ => limit,
        }
    }
}

/// A resourceVersion of the form that API servers use: a number of at most 64 bits (KEP-5504). With any
/// other a request might never succeed again.
fn usable(version: &str) -> Option<&str> {
    let digits = version.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (1..=20).contains(&version.len())).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client::tests::client, resource::SECRETS};
    use kubeconfig::config::{Auth, ClusterConfig};

    fn at(version: &str) -> Watcher {
        Watcher { state: State::At(version.to_owned()), ..Watcher::default() }
    }

    #[test]
    fn versions_are_numbers() {
        for good in ["0", "7", "18446744073709551615"] {
            assert_eq!(usable(good), Some(good));
        }
        for bad in ["", "zzz", "-1", "7&watch", "1.5", "٣", &"9".repeat(21), &"9".repeat(66_000)] {
            assert_eq!(usable(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_server_objects_to_is_not_asked_again() {
        let sentence = || "no".to_owned();
        for (error, state, rewound) in [
            (Error::Gone(sentence()), State::Newest, false),
            (Error::TooNew(sentence()), State::Newest, true),
            (Error::Invalid(sentence()), State::Newest, false),
            (Error::bad_config(sentence()), State::Newest, false),
            (Error::Forbidden(sentence()), State::Since("7".into()), false),
            (Error::Unreachable(sentence()), State::At("7".into()), false),
        ] {
            let mut watcher = at("7");
            watcher.move_on(&error);
            assert_eq!((&watcher.state, watcher.rewound), (&state, rewound), "{error:?}");
        }
    }

    #[test]
    fn a_list_stands_in_for_a_watch_that_keeps_failing() {
        let (mut watcher, lost) = (at("7"), Error::Unreachable("gone".into()));
        let states = [(); 4].map(|()| {
            watcher.move_on(&lost);
            matches!(watcher.state, State::Since(_))
        });
        // The failure of a list does not change that.
        assert_eq!(states, [false, false, true, true]);
    }

    #[test]
    fn an_expired_list_is_asked_for_as_a_whole() {
        let gone = Error::Gone("expired".into());
        let mut watcher = at("7");
        watcher.move_on(&gone);
        assert_eq!(watcher.state, State::Newest, "a version that is too old is not a page");
        watcher.move_on(&gone);
        assert_eq!(
            (watcher.state.first_page(Some(500)), &watcher.state),
            (String::new(), &State::Whole)
        );
    }

    #[test]
    fn first_page_asks_for_the_newest_state_or_no_older_one() {
        assert_eq!(State::Newest.first_page(None), "");
        assert_eq!(State::Newest.first_page(Some(500)), "limit=500");
        let since = State::Since("7".into());
        let not_older = "resourceVersion=7&resourceVersionMatch=NotOlderThan";
        assert_eq!(since.first_page(None), not_older);
        assert_eq!(since.first_page(Some(500)), format!("limit=500&{not_older}"));
        assert_eq!(State::Since(String::new()).first_page(None), "");
    }

    #[test]
    fn only_a_name_in_a_namespace_is_listed_without_pages() {
        assert!(Selection::all(SECRETS.object("ns", "token")).is_one());
        assert!(!Selection::all(SECRETS.named_everywhere("token")).is_one());
        assert!(!Selection::all(SECRETS.collection("ns")).is_one());
    }

    #[test]
    fn wait_after_a_401_ends_with_another_identity() {
        let client = client();
        let (refused, started) = (client.generation(), Instant::now());
        let auth = Auth::Token("new".to_owned().into());
        client.swap(ClusterConfig { auth, ..client.config() }).unwrap();
        wait_for_identity(&client, refused, &Stop::default(), MAX_BACKOFF);
        assert!(started.elapsed() < MAX_BACKOFF);
    }
}
