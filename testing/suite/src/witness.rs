//! What must hold of the requests of many sidecars, each with the Lease of its own namespace
//! (I1 to I4), checked a batch of requests at a time.
//!
//! Only a renewal that the server did and that no fault struck is a success, so a process that is refused
//! forever is as silent as one that has stopped.

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
/// So late the answers to all requests are known.
pub const SETTLED: Duration = Duration::from_secs(3);

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
}

/// What was seen of one Lease.
#[derive(Clone, Debug, Default)]
struct Trace {
    renewals: u64,
    /// The last success, and what faults have cost at most since then, each with its time.
    success: Option<Instant>,
    struck: Vec<(Instant, Duration)>,
    /// Of the last answer.
    code: u16,
    /// Of the last write, whether it was accepted or not.
    body: Vec<u8>,
    renew_time: String,
}

/// How long a Lease was not renewed, and how long that may be.
struct Silence {
    invariant: &'static str,
    gap: Duration,
    longest: Duration,
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
        }
    }

    /// The server as a whole was not well from `begin` to `end`.
    pub fn was_away(&mut self, begin: Instant, end: Instant) {
        self.away.push((begin, end));
    }

    /// Checks the requests since the last look, whose answers are known.
    pub fn look(&mut self, mut requests: Vec<Request>) {
        requests.sort_by_key(|request| request.id);
        requests.iter().for_each(|request| self.check(request));
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
        if write {
            self.i2(request);
        }
        self.i3_i4(request);
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
        // One that was given up may arrive after its successor, and is refused.
        let refused = !matches!(request.code, 0 | 200..300);
        if request.body == trace.body || refused {
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

    /// The next success comes in time, counted from the last one or from when the server was well again.
    fn i3_i4(&mut self, request: &Request) {
        let Some(trace) = self.leases.get_mut(&request.namespace) else { return };
        trace.code = request.code;
        if request.struck {
            trace.struck.push((request.at, cost(request.code)));
        }
        if request.struck || !is_renewal(request) {
            return;
        }
        let silence = trace.silence(request.at, &self.away, Duration::MAX);
        self.renewals += 1;
        trace.renewals += 1;
        trace.success = Some(request.at);
        trace.struck.clear();
        let Some(silence) = silence else { return };
        let gaps = if silence.invariant == "I4" { &mut self.recoveries } else { &mut self.gaps };
        gaps.push(silence.gap.as_secs_f64());
        self.violations.extend(silence.told(&request.namespace, "to the next renewal"));
    }

    /// To be called when all requests until `now` were looked at and no faults have struck for a while:
    /// whoever has stopped renewing shows here, and who renews less often than the others do.
    pub fn look_at_the_end(&mut self, now: Instant) {
        let least = self.typical() * 3 / 4;
        for (namespace, trace) in &self.leases {
            // However many struck one that tries again and again, the last of them is over.
            match trace.silence(now, &self.away, PERIOD + RETRY_AFTER) {
                Some(silence) => {
                    let last = format!("at the end, the last answer was {}", trace.code);
                    self.violations.extend(silence.told(namespace, &last));
                }
                None if trace.success.is_none() => {
                    self.violations.push(format!("I3: {namespace} was never renewed"));
                }
                None => {}
            }
            if trace.renewals < least {
                let few = trace.renewals;
                self.violations.push(format!("I3: {namespace} was renewed {few} times alone"));
            }
        }
    }

    /// Renewals of the Lease in the middle.
    fn typical(&self) -> u64 {
        median(self.leases.values().map(|trace| trace.renewals as f64).collect()) as u64
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
                "renewals follow each other after {:.2} s (median), {:.2} s at most",
                median(self.gaps.clone()),
                longest(&self.gaps)
            ),
            _ => format!(
                "after an outage the first renewal comes within {:.2} s (median), {:.2} s at most",
                median(self.recoveries.clone()),
                longest(&self.recoveries)
            ),
        }
    }

    /// Renewals of each Lease, from the fewest to the most.
    pub fn shares(&self) -> String {
        let all = || self.leases.values().map(|trace| trace.renewals);
        let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        format!("{least} to {most} of each Lease, {} in the middle", self.typical())
    }
}

impl Trace {
    /// How long nothing was renewed before `at`, where faults may have cost `most`; None where nothing can
    /// be said.
    fn silence(&self, at: Instant, away: &[(Instant, Instant)], most: Duration) -> Option<Silence> {
        let last = self.success?;
        if away.iter().any(|(begin, end)| *begin <= at && at <= *end) {
            return None;
        }
        let over = away.iter().filter(|(begin, end)| *begin <= at && last <= *end);
        let (invariant, from, least) = match over.map(|(_, end)| *end).max() {
            // A try that broke off with the server's recovery ends by its timeout, or with the last pause
            // that the server asked for, and is followed by a wait.
            Some(end) => ("I4", end, PERIOD + TIMEOUT.max(RETRY_AFTER)),
            None => ("I3", last, PERIOD * 5 / 4 + PERIOD),
        };
        let faults: Duration =
            self.struck.iter().filter(|(at, _)| *at >= from).map(|(_, cost)| *cost).sum();
        let gap = at.saturating_duration_since(from);
        Some(Silence { invariant, gap, longest: least + faults.min(most) + SLACK })
    }
}

impl Silence {
    /// The violation, if it is one.
    fn told(&self, namespace: &str, until: &str) -> Option<String> {
        let Self { invariant, gap, longest } = self;
        let text = format!("{invariant}: {namespace} not renewed for {gap:?} {until}");
        (gap > longest).then(|| format!("{text}, {longest:?} may be"))
    }
}

/// What a fault costs at most: no answer in time, the pause that it asks for, a wait.
fn cost(code: u16) -> Duration {
    let pause = if matches!(code, 429 | 503) { RETRY_AFTER } else { TIMEOUT };
    pause + PERIOD
}

#[cfg(test)]
mod tests;
