//! The program's writes, on all clusters in one order: from the log of the embedded server, or from the audit
//! log of the real one, which has no bodies.

use std::{env, fs, path::PathBuf, sync::OnceLock, time::Instant};

use serde_json::Value;

use super::{Side, Stage};
use crate::{eventually, pause, stays, throughout};

/// One write that was answered.
#[derive(Clone, Debug)]
pub struct Wrote {
    /// `hub patch widgets/status one`
    pub words: String,
    pub code: u16,
    /// Empty on a real server.
    pub content_type: String,
    /// Null on a real server.
    pub body: Value,
    /// In microseconds, by the one clock of all servers.
    at: u128,
}

/// Embedded servers are in this process; their times count from when it made its first stage.
pub(super) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// The words of all.
pub fn words(all: &[Wrote]) -> Vec<&str> {
    all.iter().map(|one| one.words.as_str()).collect()
}

/// Events tell people; a Lease is the election's.
const ASIDE: [&str; 2] = ["events", "leases"];
/// The end of the name of the ConfigMap that deletions are counted in.
const LEDGER: &str = "-deletions";
const READS: [&str; 3] = ["get", "list", "watch"];

impl Stage {
    /// All writes of the program's so far, refused ones too, but for Events, Leases and the count of deletions.
    pub fn writes(&self) -> Vec<Wrote> {
        let mut all: Vec<_> = self
            .sides()
            .flat_map(|side| match &side.cluster.embedded {
                Some(_) => logged(side),
                None => audited(side),
            })
            .collect();
        all.retain(|one| !one.words.ends_with(LEDGER));
        all.sort_by_key(|one| one.at);
        all
    }

    /// Waits until the program wrote this and checks that it leaves it at that.
    #[track_caller]
    pub fn wrote_only(&self, expected: &[&str]) {
        self.wrote_only_after(0, expected);
    }

    /// The same for what came after the first `before` writes.
    #[track_caller]
    pub fn wrote_only_after(&self, before: usize, expected: &[&str]) {
        let since = || self.writes().split_off(before);
        let what = format!("{} writes", expected.len());
        eventually(&what, || (since().len() >= expected.len()).then_some(()));
        throughout(700, "nothing more is written", || {
            let all = since();
            assert_eq!(words(&all), expected);
            true
        });
    }

    /// Waits until the program has been quiet for a while; how much it wrote so far.
    pub fn settled(&self) -> usize {
        loop {
            let before = self.writes().len();
            pause(500);
            if self.writes().len() == before {
                return before;
            }
        }
    }

    /// Checks that for a second nothing is written.
    #[track_caller]
    pub fn stays_quiet(&self) {
        self.writes_no_more_than(self.writes().len());
    }

    /// The same of all that was written but for the first ones.
    #[track_caller]
    pub fn writes_no_more_than(&self, before: usize) {
        stays("nothing is written", || {
            assert_eq!(words(&self.writes()[before..]), [""; 0]);
            true
        });
    }

    /// How many requests of this verb the program sent for this resource, on an embedded server.
    pub fn asked(&self, side: &Side, verb: &str, resource: &str) -> usize {
        let ours = side.cluster.requests_of(&side.user());
        ours.iter().filter(|it| it.verb == verb && it.resource == resource).count()
    }
}

/// The local cluster has no name of its own; upstream's word for it is local.
fn name(side: &Side) -> &str {
    if side.name.is_empty() { "local" } else { &side.name }
}

fn line(side: &Side, verb: &str, resource: &str, subresource: &str, object: &str) -> String {
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{} {verb} {resource}{slash}{subresource} {object}", name(side))
}

fn logged(side: &Side) -> Vec<Wrote> {
    let user = side.user();
    let requests = side.cluster.server().requests().into_iter();
    let ours = requests.filter(|request| {
        request.user == user
            && !READS.contains(&request.verb.as_str())
            && !ASIDE.contains(&request.resource.as_str())
    });
    ours.map(|request| {
        let body = request.json();
        let given = body["metadata"]["name"].as_str().unwrap_or_default();
        let object = if request.verb == "create" { given } else { &request.name };
        let words = line(side, &request.verb, &request.resource, &request.subresource, object);
        let at = request.at.saturating_duration_since(origin()).as_micros();
        Wrote { words, code: request.code, content_type: request.content_type, body, at }
    })
    .collect()
}

fn audited(side: &Side) -> Vec<Wrote> {
    let directory = env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
    let path = PathBuf::from(directory).join(&side.cluster.name).join("audit.log");
    let log = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let user = side.user();
    // Whole lines of the program's only; the rest is not worth reading.
    let lines = log.lines().filter(|line| line.contains(&user));
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |event: &Value, pointer: &str| {
        event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let writes = events.filter(|event| {
        event["user"]["username"] == user.as_str()
            && !READS.contains(&text(event, "/verb").as_str())
            && !ASIDE.contains(&text(event, "/objectRef/resource").as_str())
    });
    writes
        .map(|event| {
            let part = |name: &str| text(&event, &format!("/objectRef/{name}"));
            let verb = text(&event, "/verb");
            let words = line(side, &verb, &part("resource"), &part("subresource"), &part("name"));
            let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
            let at = micros(&text(&event, "/requestReceivedTimestamp"));
            let code = u16::try_from(code).unwrap_or_default();
            Wrote { words, code, content_type: String::new(), body: Value::Null, at }
        })
        .collect()
}

/// A time as audit logs write it, in microseconds.
fn micros(time: &str) -> u128 {
    let parsed = shared::time::parse_micro_time(time).expect("a time with six digits");
    parsed.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_micros())
}
