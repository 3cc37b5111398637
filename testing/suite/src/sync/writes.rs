//! The program's writes on all clusters, in one order: from the log of the embedded server, or the audit log of the
//! real one, which has bodies only of deletions.

use std::{
    env, fs,
    path::PathBuf,
    sync::OnceLock,
    time::{Instant, SystemTime},
};

use dev_apiserver::{Request, Server};
use serde_json::Value;

use super::{KNOWN_CLUSTERS, Side, Stage};
use crate::{eventually, pause, stays, throughout};

/// A write that was answered.
#[derive(Clone, Debug)]
pub struct Wrote {
    /// `hub patch widgets/status one`
    pub words: String,
    pub code: u16,
    /// Null on a real server.
    pub body: Value,
    at: Instant,
}

/// A write in the server's log, including refused ones.
#[derive(Clone, Debug)]
pub struct LoggedWrite {
    pub verb: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    /// Also for a created object.
    pub name: String,
    pub code: u16,
    /// Null on a real server, except for deletions.
    pub body: Value,
    pub is_dry_run: bool,
    /// By one clock for all servers.
    pub at: Instant,
}

/// Returns the same instant by both clocks: audit logs have wall time.
fn origin() -> (Instant, SystemTime) {
    static ORIGIN: OnceLock<(Instant, SystemTime)> = OnceLock::new();
    *ORIGIN.get_or_init(|| (Instant::now(), SystemTime::now()))
}

/// Returns the words of all writes.
pub fn words(all: &[Wrote]) -> Vec<&str> {
    all.iter().map(|one| one.words.as_str()).collect()
}

/// Events are for people, Leases for leader election.
const ASIDE: [&str; 2] = ["events", "leases"];
const READS: [&str; 3] = ["get", "list", "watch"];
const DRY_RUN: &str = "dryRun=All";

impl Stage {
    /// Returns the program's writes so far, including refused ones, except for Events, Leases and the known clusters.
    pub fn writes(&self) -> Vec<Wrote> {
        let told = |write: &LoggedWrite| !ASIDE.contains(&write.resource.as_str());
        let of = |side| Side::writes(side).into_iter().filter(told).map(|write| tell(side, write));
        let mut all: Vec<_> = self.sides().flat_map(of).collect();
        all.retain(|one| !one.words.ends_with(KNOWN_CLUSTERS));
        all.sort_by_key(|one| one.at);
        all
    }

    /// Waits until the program wrote this, and checks that it writes no more.
    #[track_caller]
    pub fn wrote_only(&self, expected: &[&str]) {
        self.wrote_only_after(0, expected);
    }

    /// Does the same for what follows the first `before` writes.
    #[track_caller]
    pub fn wrote_only_after(&self, before: usize, expected: &[&str]) {
        let since = || self.writes().split_off(before);
        let what = format!("{} writes", expected.len());
        eventually(&what, || since().len() >= expected.len());
        throughout(700, "nothing more is written", || {
            let all = since();
            assert_eq!(words(&all), expected);
            true
        });
    }

    /// Waits until the program has been quiet for a while; returns the number of its writes so far.
    pub fn settled(&self) -> usize {
        loop {
            let before = self.writes().len();
            pause(500);
            if self.writes().len() == before {
                return before;
            }
        }
    }

    /// Checks that nothing is written for a while.
    #[track_caller]
    pub fn stays_quiet(&self) {
        self.writes_no_more_than(self.writes().len());
    }

    /// Checks for a while that nothing is written beyond the first `before` writes.
    #[track_caller]
    pub fn writes_no_more_than(&self, before: usize) {
        stays("nothing is written", || {
            assert_eq!(words(&self.writes()[before..]), [""; 0]);
            true
        });
    }

    /// Returns the number of the program's requests of this verb for this resource, on an embedded server.
    pub fn asked(&self, side: &Side, verb: &str, resource: &str) -> usize {
        let ours = side.cluster.requests_of(&side.user());
        ours.iter().filter(|it| it.verb == verb && it.resource == resource).count()
    }
}

impl Side {
    /// Returns the program's writes to this cluster so far.
    pub fn writes(&self) -> Vec<LoggedWrite> {
        match &self.cluster.embedded {
            Some(server) => logged(server, &self.user()),
            None => audited(&self.cluster.name, &self.user()),
        }
    }
}

fn tell(side: &Side, write: LoggedWrite) -> Wrote {
    // The local cluster has no name; upstream calls it local.
    let cluster = if side.name.is_empty() { "local" } else { &side.name };
    let LoggedWrite { verb, resource, subresource, name, code, body, at, .. } = write;
    let slash = if subresource.is_empty() { "" } else { "/" };
    let words = format!("{cluster} {verb} {resource}{slash}{subresource} {name}");
    Wrote { words, code, body, at }
}

fn logged(server: &Server, user: &str) -> Vec<LoggedWrite> {
    let ours = server
        .requests()
        .into_iter()
        .filter(|request| request.user == user && !READS.contains(&request.verb.as_str()));
    ours.map(|request| {
        let body = request.json();
        let given = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let Request { verb, resource, subresource, namespace, code, at, .. } = request;
        let name = if verb == "create" { given } else { request.name };
        let is_dry_run = request.query.contains(DRY_RUN);
        LoggedWrite { verb, resource, subresource, namespace, name, code, body, is_dry_run, at }
    })
    .collect()
}

fn audited(cluster: &str, user: &str) -> Vec<LoggedWrite> {
    let directory = env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
    let path = PathBuf::from(directory).join(cluster).join("audit.log");
    let log = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // Parses only lines that mention the program's user.
    let lines = log.lines().filter(|line| line.contains(user));
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let verb = |event: &Value| event["verb"].as_str().unwrap_or_default().to_owned();
    let writes = events.filter(|event| {
        event["user"]["username"] == user && !READS.contains(&verb(event).as_str())
    });
    writes
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let part = |name: &str| text(&event["objectRef"][name]);
            let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
            LoggedWrite {
                verb: verb(&event),
                resource: part("resource"),
                subresource: part("subresource"),
                namespace: part("namespace"),
                name: part("name"),
                code: u16::try_from(code).unwrap_or_default(),
                body: event["requestObject"].clone(),
                is_dry_run: text(&event["requestURI"]).contains(DRY_RUN),
                at: instant(&text(&event["requestReceivedTimestamp"])),
            }
        })
        .collect()
}

/// Converts a time from an audit log.
fn instant(time: &str) -> Instant {
    let time = apiclient::time::parse_micro_time(time).expect("a time with six digits");
    let (instant, wall) = origin();
    match time.duration_since(wall) {
        Ok(since) => instant + since,
        Err(before) => instant - before.duration(),
    }
}
