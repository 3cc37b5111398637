//! Following one object or a collection: list, then watch, for ever, in bounded memory.

use std::{
    io::{BufRead, BufReader, Read},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde_json::Value;
use ureq::{Body, BodyReader, http::Response};

use crate::{
    call::{Call, OBJECT_LIMIT},
    client::Client,
    error::{Error, Result},
    json,
    pace::Backoff,
    resource::Target,
    status,
    stop::Stop,
};

/// The server ends a watch after this many seconds; drawn from here up to twice as much, as
/// client-go does with 5 to 10 minutes (client-go `tools/cache/reflector.go:57-58`).
const WATCH_SECONDS: u64 = 240;
/// client-go's longest wait between lists (`tools/cache/reflector.go:62-67`).
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A watch that ends sooner than this without an event counts as failed (`reflector.go:1091`).
const TOO_SHORT: Duration = Duration::from_secs(1);

/// What happened to the collection.
#[derive(Debug)]
pub enum Change {
    /// All there is now; what is not in it is gone.
    Listed(Vec<Value>),
    /// An object is new or changed.
    Put(Value),
    /// An object was deleted; this is its last state.
    Removed(Value),
}

impl Change {
    /// The object as it is now, where only one is followed; `None` if there is none.
    pub fn into_object(self) -> Option<Value> {
        match self {
            Self::Listed(objects) => objects.into_iter().next(),
            Self::Put(object) => Some(object),
            Self::Removed(_) => None,
        }
    }
}

/// Follows `target`: a collection, or one object of it if it has a name. Calls `on` for each change
/// until it breaks or `stop` is raised; failures are logged once and tried again, and a failure is
/// never reported as an absence.
pub fn follow(
    client: &Client,
    target: &Target<'_>,
    stop: &Stop,
    on: &mut dyn FnMut(Change) -> ControlFlow<()>,
) {
    // "0": any state that the server has in memory; the watch brings it up to date.
    let version = Some("0".to_owned());
    let backoff = Backoff::new(LONGEST_WAIT);
    let mut follower = Follower { client, target, stop, version, listed: false, backoff };
    while !stop.raised() {
        let step = if follower.listed { follower.watch(on) } else { follower.list(on) };
        match step {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return,
            // Whoever ended it may have closed the client too.
            Err(_) if stop.raised() => return,
            Err(error) => {
                let wait = follower.failed(&error);
                stop.wait(wait);
            }
        }
    }
}

struct Follower<'a> {
    client: &'a Client,
    target: &'a Target<'a>,
    stop: &'a Stop,
    /// Where the next list or watch begins; `None` asks for the newest state.
    version: Option<String>,
    listed: bool,
    backoff: Backoff,
}

impl Follower<'_> {
    fn list(&mut self, on: &mut dyn FnMut(Change) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        let version = self.version.as_ref().map(|version| format!("resourceVersion={version}"));
        let mut list = self.client.list(self.target, &version.unwrap_or_default())?;
        let items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        items.iter().try_for_each(|item| self.is_asked_for(item))?;
        self.version = resource_version(&list);
        self.listed = true;
        self.succeeded();
        Ok(on(Change::Listed(items)))
    }

    fn watch(&mut self, on: &mut dyn FnMut(Change) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        let started = Instant::now();
        let mut stream = Stream::open(self.client, self.target, self.version.as_deref())?;
        let mut events = 0_u64;
        let ended = loop {
            let (kind, object) = match stream.next() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    break Error::Unreachable(format!("{}: the server ended it", stream.what()));
                }
                Err(error @ Error::Gone(_)) => return Err(error),
                Err(error) => break error,
            };
            events += 1;
            self.succeeded();
            if let Some(seen) = resource_version(&object) {
                self.version = Some(seen);
            }
            if kind != "BOOKMARK" {
                self.is_asked_for(&object)?;
            }
            let change = match kind.as_str() {
                "BOOKMARK" => continue,
                "DELETED" => Change::Removed(object),
                _ => Change::Put(object),
            };
            if on(change).is_break() {
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
        self.listed = events > 0;
        if short {
            self.stop.wait(TOO_SHORT);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A server or proxy that does not heed the field selector must not pass another object off.
    fn is_asked_for(&self, object: &Value) -> Result<()> {
        let name = self.target.name;
        if name.is_none_or(|name| object["metadata"]["name"] == name) {
            return Ok(());
        }
        let (target, whose) = (self.target, self.client.whose());
        Err(Error::BadPeer(format!(
            "watch {target} on {whose}: the answer is about another object"
        )))
    }

    fn succeeded(&mut self) {
        let failures = self.backoff.succeeded();
        if failures > 0 {
            let (target, whose) = (self.target, self.client.whose());
            log::info!("{target} on {whose} can be read again after {failures} failures");
        }
    }

    /// Takes note of a failure; returns how long to wait.
    fn failed(&mut self, error: &Error) -> Duration {
        if let Error::Gone(_) = error {
            (self.listed, self.version) = (false, None);
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

/// The events of one watch request.
struct Stream<'a> {
    client: &'a Client,
    target: Target<'a>,
    lines: BufReader<BodyReader<'static>>,
}

impl<'a> Stream<'a> {
    fn open(client: &'a Client, target: &Target<'a>, version: Option<&str>) -> Result<Self> {
        let seconds = fastrand::u64(WATCH_SECONDS..2 * WATCH_SECONDS);
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            version.unwrap_or_default(),
        );
        let call = Call::watch(*target, &query);
        let answer: Response<Body> = client.send(&call)?;
        // Small: ureq has a buffer of its own beneath.
        let lines = BufReader::with_capacity(1 << 10, answer.into_body().into_reader());
        Ok(Self { client, target: *target, lines })
    }

    /// The next event; `None` when the server ended the watch between two.
    fn next(&mut self) -> Result<Option<(String, Value)>> {
        let mut line = Vec::new();
        // An event is an object and a few bytes around it.
        let limit = OBJECT_LIMIT + 1024;
        let read = self.lines.by_ref().take(limit).read_until(b'\n', &mut line);
        read.map_err(|e| Error::Unreachable(format!("{}: {}", self.what(), silence(&e))))?;
        if line.is_empty() {
            return Ok(None);
        }
        let mut event = json::parse(&line)
            .map_err(|what| Error::BadPeer(format!("{}: an event is {what}", self.what())))?;
        // Not by `event["object"]`, which panics where the event is no map.
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        match event["type"].as_str() {
            Some("ERROR") => Err(status::watch_error(&self.what(), &self.target, &object)),
            Some(kind @ ("ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK")) => {
                Ok(Some((kind.to_owned(), object)))
            }
            _ => Err(Error::BadPeer(format!("{}: an event is of no known type", self.what()))),
        }
    }

    fn what(&self) -> String {
        format!("watch {} on {}", self.target, self.client.whose())
    }
}

fn resource_version(object: &Value) -> Option<String> {
    let version = object["metadata"]["resourceVersion"].as_str()?;
    // It goes into a query as it is.
    version.chars().all(|c| c.is_ascii_alphanumeric()).then(|| version.to_owned())
}

fn silence(error: &std::io::Error) -> String {
    // ureq hides its time-out in an I/O error of kind Other.
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<ureq::Error>());
    match inner {
        Some(ureq::Error::Timeout(_)) => "silent for too long".to_owned(),
        _ => error.to_string(),
    }
}
