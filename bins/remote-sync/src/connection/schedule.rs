//! Schedule of attempts to connect and of probes, and the verdict that a connection is lost: pure.

use std::time::{Duration, Instant};

/// Intervals and timeout: with the flags' defaults, Cluster API's (v1.9.0
/// `controllers/clustercache/cluster_cache.go:655,701-705`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProbeTiming {
    /// Between attempts to connect, apart from jitter.
    pub(crate) retry: Duration,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

/// Consecutive failed probes that end a connection, as clustercache's.
const MAX_FAILURES: u32 = 5;
/// The wait after a 401: the next attempt follows at once with the current credentials (same file, :489).
const AT_ONCE: Duration = Duration::from_millis(1);
/// Jitter of the retry interval, to either side: not every client may reconnect to a recovered hub at the same
/// time.
const SPREAD: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Due {
    Connect,
    Probe,
    Wait(Duration),
}

/// The state of one connection's schedule. An attempt to connect is a probe, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProbeSchedule {
    timing: ProbeTiming,
    pub(super) connected: bool,
    /// The next attempt or probe; `None` before the first credentials.
    next: Option<Instant>,
    pub(super) last_probe: Option<Instant>,
    pub(super) failures: u32,
}

impl ProbeSchedule {
    pub(super) fn new(timing: ProbeTiming) -> Self {
        Self { timing, connected: false, next: None, last_probe: None, failures: 0 }
    }

    pub(super) fn due(&self, now: Instant) -> Due {
        match (self.wait(now), self.connected) {
            (Duration::ZERO, true) => Due::Probe,
            (Duration::ZERO, false) => Due::Connect,
            (wait, _) => Due::Wait(wait),
        }
    }

    /// The time until the next attempt or probe; zero if it is due.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next.map_or(self.timing.interval, |at| at.saturating_duration_since(now))
    }

    pub(super) fn answered(&mut self, now: Instant) {
        (self.connected, self.failures) = (true, 0);
        (self.last_probe, self.next) = (Some(now), Some(now + self.timing.interval));
    }

    /// A probe failed. Returns whether that ends the connection. `random` is uniform in [0, 1).
    pub(super) fn failed(&mut self, unauthorized: bool, now: Instant, random: f64) -> bool {
        let retry = self.timing.retry.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * random);
        self.failures = self.failures.saturating_add(1);
        let ends = self.connected && (unauthorized || self.failures >= MAX_FAILURES);
        let wait = match self.connected {
            true if ends && unauthorized => AT_ONCE,
            true if !ends => self.timing.interval,
            _ => retry,
        };
        self.connected &= !ends;
        (self.last_probe, self.next) = (Some(now), Some(now + wait));
        ends
    }

    /// Ends the connection; the next attempt is at `connect_at`.
    pub(super) fn disconnected(&mut self, connect_at: Instant) {
        (self.connected, self.next) = (false, Some(connect_at));
    }

    /// New credentials were offered, with which connecting is tried at once.
    pub(super) fn offered(&mut self, now: Instant) {
        if !self.connected {
            self.next = Some(now);
        }
    }

    /// The server responded at `at`, to a request or a watch: a failed probe before that does not count.
    pub(super) fn heard(&mut self, at: Instant) {
        if self.connected && self.last_probe < Some(at) {
            self.failures = 0;
        }
    }

    /// A request got no response. Returns whether the next probe is sooner for that: half an interval after the last
    /// one, however many requests get none.
    pub(super) fn doubt(&mut self) -> bool {
        let soon = self.last_probe.map(|last| last + self.timing.interval / 2);
        let is_sooner = self.connected && soon < self.next;
        if is_sooner {
            self.next = soon;
        }
        is_sooner
    }
}

#[cfg(test)]
impl Default for ProbeTiming {
    fn default() -> Self {
        let [retry, interval, timeout] = [30, 10, 5].map(Duration::from_secs);
        Self { retry, interval, timeout }
    }
}

#[cfg(test)]
impl ProbeSchedule {
    /// As if everything had happened earlier by `time`.
    pub(super) fn age(&mut self, time: Duration) {
        for at in [&mut self.next, &mut self.last_probe] {
            *at = at.map(|at| at - time);
        }
    }
}
