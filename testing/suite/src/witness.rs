//! What must hold of the requests of many sidecars, each with the Lease of its own namespace
//! (I1 to I4), checked a batch of requests at a time.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use dev_apiserver::Request;

use crate::measure::{grouped, is_renewal, median};

/// The name of every Lease.
pub const LEASE: &str = "addon";
/// The period of every sidecar, and with it the longest wait after a failure.
const PERIOD: Duration = Duration::from_secs(1);
/// A request without an answer ends after this.
const TIMEOUT: Duration = Duration::from_secs(1);
/// What the faults with a Retry-After say.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// For a busy machine.
const SLACK: Duration = Duration::from_millis(500);

/// What was seen so far.
pub struct Witness {
    pub renewals: u64,
    /// One sentence each, beginning with the invariant.
    pub violations: Vec<String>,
    leases: BTreeMap<String, Trace>,
    /// When the server as a whole was not well.
    away: Vec<(Instant, Instant)>,
    answers: BTreeMap<u16, u64>,
    writes: u64,
    gaps: Vec<f64>,
    recoveries: Vec<f64>,
    /// The last request's number, to notice requests that came between reading and clearing the log.
    last: u64,
}

/// The last that was seen of one Lease.
#[derive(Clone, Debug, Default)]
struct Trace {
    at: Option<Instant>,
    code: u16,
    /// Of the last write, whether it was accepted or not.
    body: Vec<u8>,
    renew_time: String,
}

impl Witness {
    /// For the Leases of the namespaces `soak-0` to `soak-<count - 1>`, whose users are named alike.
    pub fn new(count: usize) -> Self {
        Self {
            renewals: 0,
            violations: Vec::new(),
            leases: (0..count).map(|index| (format!("soak-{index}"), Trace::default())).collect(),
            away: Vec::new(),
            answers: BTreeMap::new(),
            writes: 0,
            gaps: Vec::new(),
            recoveries: Vec::new(),
            last: 0,
        }
    }

    /// The server as a whole was not well from `begin` to `end`.
    pub fn was_away(&mut self, begin: Instant, end: Instant) {
        self.away.push((begin, end));
    }

    /// Checks the requests since the last look.
    pub fn look(&mut self, mut requests: Vec<Request>) {
        requests.sort_by_key(|request| request.id);
        if let (Some(first), Some(last)) = (requests.first(), requests.last()) {
            if last.id - self.last != requests.len() as u64 {
                // A few were cleared away unseen: what came before is no measure for what follows.
                for trace in self.leases.values_mut() {
                    trace.at = trace.at.map(|at| at.max(first.at));
                }
            }
            self.last = last.id;
        }
        for request in &requests {
            self.check(request);
        }
    }

    fn check(&mut self, request: &Request) {
        *self.answers.entry(request.code).or_default() += 1;
        let write = !matches!(request.verb.as_str(), "get" | "list" | "watch");
        self.writes += u64::from(write);
        let foreign = self.i1(request);
        if foreign {
            let Request { verb, path, user, .. } = request;
            self.violations.push(format!("I1: {user} {verb} {path}"));
            return;
        }
        self.i3_i4(request);
        if write {
            self.i2(request);
        }
        self.renewals += u64::from(is_renewal(request));
    }

    /// Whether this is a request for anything but the user's own Lease.
    fn i1(&self, request: &Request) -> bool {
        let name = match request.verb.as_str() {
            "create" => request.json()["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            _ => request.name.clone(),
        };
        request.resource != "leases"
            || name != LEASE
            || request.user != request.namespace
            || !self.leases.contains_key(&request.namespace)
    }

    /// What is written moves forward. The very same may be sent twice, where the first answer was lost:
    /// its resourceVersion keeps the server from doing it twice.
    fn i2(&mut self, request: &Request) {
        let Some(trace) = self.leases.get_mut(&request.namespace) else { return };
        if request.body == trace.body {
            return;
        }
        let time = request.json()["spec"]["renewTime"].as_str().unwrap_or_default().to_owned();
        if time <= trace.renew_time {
            let (namespace, before) = (&request.namespace, &trace.renew_time);
            self.violations.push(format!("I2: {namespace}: {time:?} after {before:?}"));
        }
        trace.renew_time = time;
        trace.body.clone_from(&request.body);
    }

    /// The next try comes in time, counted from the last one or from when the server was well again.
    fn i3_i4(&mut self, request: &Request) {
        let Some(trace) = self.leases.get_mut(&request.namespace) else { return };
        let before = trace.clone();
        (trace.at, trace.code) = (Some(request.at), request.code);
        if let Some((invariant, gap, longest)) = silence(&before, request.at, &self.away) {
            let gaps = if invariant == "I4" { &mut self.recoveries } else { &mut self.gaps };
            gaps.push(gap.as_secs_f64());
            if gap > longest {
                let text = format!(
                    "{invariant}: {} silent for {gap:?} after {}",
                    request.namespace, before.code
                );
                self.violations.push(text);
            }
        }
    }

    /// To be called when the last request has been looked at: whoever has stopped trying shows here.
    pub fn silent_at_the_end(&mut self) {
        let now = Instant::now();
        for (namespace, trace) in &self.leases {
            match silence(trace, now, &self.away) {
                Some((invariant, gap, longest)) if gap > longest => {
                    self.violations
                        .push(format!("{invariant}: {namespace} silent for {gap:?} at the end"));
                }
                None if trace.at.is_none() => {
                    self.violations.push(format!("I3: {namespace} was never written"));
                }
                _ => {}
            }
        }
    }

    // --- in words ---

    /// Requests by the code of their answer.
    pub fn requests(&self) -> String {
        let total: u64 = self.answers.values().sum();
        let failed: u64 = self
            .answers
            .iter()
            .filter(|(code, _)| !(200..300).contains(*code))
            .map(|(_, n)| n)
            .sum();
        format!(
            "{} ({} of them answered with a failure or not at all)",
            grouped(total),
            grouped(failed)
        )
    }

    /// What was seen of an invariant.
    pub fn seen(&self, invariant: &str) -> String {
        let longest = |gaps: &[f64]| gaps.iter().copied().fold(0.0, f64::max);
        match invariant {
            "I1" => format!("{} writes, each to the process's own Lease", grouped(self.writes)),
            "I2" => "renewTime of every Lease moves forward only".to_owned(),
            "I3" => format!(
                "tries follow each other after {:.2} s (median), {:.2} s at most",
                median(self.gaps.clone()),
                longest(&self.gaps)
            ),
            _ => format!(
                "after an outage the first try comes within {:.2} s (median), {:.2} s at most",
                median(self.recoveries.clone()),
                longest(&self.recoveries)
            ),
        }
    }
}

/// How long nothing came before `at`, and how long that may be; None where nothing can be said.
fn silence(
    before: &Trace,
    at: Instant,
    away: &[(Instant, Instant)],
) -> Option<(&'static str, Duration, Duration)> {
    let last = before.at?;
    if away.iter().any(|(begin, end)| *begin <= at && at <= *end) {
        return None;
    }
    // The next try after an answer that broke off comes after its timeout and a wait.
    let mut longest = PERIOD + TIMEOUT + SLACK;
    if matches!(before.code, 429 | 503) {
        longest += RETRY_AFTER;
    }
    let over = away.iter().rev().find(|(begin, end)| *begin <= at && last <= *end);
    Some(match over {
        Some((_, end)) => ("I4", at.saturating_duration_since(*end), longest),
        None => ("I3", at - last, longest + PERIOD / 4),
    })
}
