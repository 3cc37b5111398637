//! Following one object or a collection: list, then watch, for ever, in bounded memory.

use std::{
    io::{BufRead, BufReader, Read},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde_json::Value;
use ureq::{Body, BodyReader, http::Response};

use crate::{
    call::Call,
    client::{Client, OBJECT_LIMIT, SILENCE},
    error::{Error, Result},
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

/// Follows `target`: a collection, or one object of it if it has a name. Calls `on` for each change
/// until it breaks or `stop` is raised; failures are logged once and tried again, and a failure is
/// never reported as an absence.
pub fn follow(
    client: &Client,
    target: &Target<'_>,
    stop: &Stop,
    on: &mut dyn FnMut(Change) -> ControlFlow<()>,
) {
    let mut backoff = Backoff::new(LONGEST_WAIT);
    // "0": any state that the server has in memory; the watch brings it up to date.
    let mut version = Some("0".to_owned());
    let mut listed = false;
    while !stop.raised() {
        let step = if listed {
            watch(client, target, &mut version, on)
        } else {
            list(client, target, &mut version, on)
        };
        let error = match step {
            Ok(ControlFlow::Break(())) => return,
            Ok(ControlFlow::Continue(())) => {
                listed = true;
                let failures = backoff.succeeded();
                if failures > 0 {
                    let whose = client.whose();
                    log::info!("{target} on {whose} can be read again after {failures} failures");
                }
                continue;
            }
            Err(error) => error,
        };
        if let Error::Gone(_) = error {
            (listed, version) = (false, None);
        }
        let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
        if retry.tell {
            log::warn!("{error}; what was known of it stays");
        } else {
            log::debug!("{error}; again in {:?}", retry.wait);
        }
        stop.wait(retry.wait);
    }
}

type Step = Result<ControlFlow<()>>;

fn list(
    client: &Client,
    target: &Target<'_>,
    version: &mut Option<String>,
    on: &mut dyn FnMut(Change) -> ControlFlow<()>,
) -> Step {
    let mut query = selector(target);
    if let Some(version) = version {
        query += &format!("&resourceVersion={version}");
    }
    let mut list = client.list(&target.siblings(), query.trim_start_matches('&'))?;
    *version = resource_version(&list);
    let items = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    Ok(on(Change::Listed(items)))
}

fn watch(
    client: &Client,
    target: &Target<'_>,
    version: &mut Option<String>,
    on: &mut dyn FnMut(Change) -> ControlFlow<()>,
) -> Step {
    let started = Instant::now();
    let mut stream = Stream::open(client, target, version.as_deref())?;
    let mut events = 0;
    let ended = loop {
        let (kind, object) = match stream.next() {
            Ok(Some(event)) => event,
            Ok(None) => {
                break Error::NoAnswer(format!("{}: the server ended it", stream.what()));
            }
            Err(error @ Error::Gone(_)) => return Err(error),
            Err(error) => break error,
        };
        events += 1;
        if let Some(seen) = resource_version(&object) {
            *version = Some(seen);
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
    // Streams end: by the server's clock, a balancer or a change of credentials. The next one goes on
    // from the same version; only one that brought nothing is a failure.
    if events == 0 {
        let short = started.elapsed() < TOO_SHORT;
        // Not even a bookmark: a server that was restored from a backup answers a version from its
        // future with silence. Only a list helps then.
        return Err(if short { ended } else { Error::Gone(ended.to_string()) });
    }
    log::debug!("{ended}");
    Ok(ControlFlow::Continue(()))
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
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}{}",
            version.unwrap_or_default(),
            selector(target)
        );
        let collection = target.siblings();
        let call = Call::watch(&collection, &query);
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
        read.map_err(|e| Error::NoAnswer(format!("{}: {}", self.what(), silence(&e))))?;
        if line.is_empty() {
            return Ok(None);
        }
        let mut event: Value = serde_json::from_slice(&line)
            .map_err(|_| Error::BadPeer(format!("{}: an event is not JSON", self.what())))?;
        let object = event["object"].take();
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

/// One object is followed by a field selector, so that `resourceNames` in RBAC suffices.
fn selector(target: &Target<'_>) -> String {
    target.name.map(|name| format!("&fieldSelector=metadata.name%3D{name}")).unwrap_or_default()
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
        Some(ureq::Error::Timeout(_)) => format!("silent for {} s", SILENCE.as_secs()),
        _ => error.to_string(),
    }
}
