//! Schedule of attempts to connect and of probes, and the verdict that a connection is lost: pure.

use std::time::{Duration, Instant};

/// Intervals and timeout; the defaults are those of Cluster API (v1.9.0
/// `controllers/clustercache/cluster_cache.go:655,701-705`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProbeTiming {
    /// Between attempts to connect, apart from jitter.
    pub(crate) retry: Duration,
    /// Between probes.
    pub(crate) interval: Duration,
    /// Timeout of a probe.
    pub(crate) timeout: Duration,
}

impl Default for ProbeTiming {
    fn default() -> Self {
        let [retry, interval, timeout] = [30, 10, 5].map(Duration::from_secs);
        Self { retry, interval, timeout }
    }
}

/// Consecutive failed probes that end a connection, as clustercache's.
const MAX_FAILURES: u32 = 5;
/// The wait after a 401: the next attempt follows at once with the current credentials (same file, :489).
const AT_ONCE: Duration = Duration::from_millis(1);
/// Jitter of the retry interval, to either side: not every client may reconnect to a recovered hub at the same
/// time.
const SPREAD: f64 = 0.2;

/// The next thing to do.
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
    /// The next attempt; `None` means at once.
    connect_at: Option<Instant>,
    /// The last attempt failed for another reason than its credentials: new ones have to wait, too.
    limited: bool,
    pub(super) last_connect_failure: Option<Instant>,
    /// `None` if one is due at once.
    pub(super) last_probe: Option<Instant>,
    /// The last response, to whatever request.
    pub(super) last_success: Option<Instant>,
    /// The last time that a worker got no response.
    doubted: Option<Instant>,
    /// Failures in a row.
    pub(super) failures: u32,
}

impl ProbeSchedule {
    pub(super) fn new(timing: ProbeTiming) -> Self {
        Self {
            timing,
            connected: false,
            connect_at: None,
            limited: false,
            last_connect_failure: None,
            last_probe: None,
            last_success: None,
            doubted: None,
            failures: 0,
        }
    }

    pub(super) fn due(&self, now: Instant) -> Due {
        let (at, due) = match (self.connected, self.in_doubt()) {
            (false, _) => (self.connect_at, Due::Connect),
            (true, false) => (self.last_probe.map(|at| at + self.timing.interval), Due::Probe),
            // Many workers get no response at once: the cluster is probed twice as often, but not more.
            (true, true) => (self.last_probe.map(|at| at + self.timing.interval / 2), Due::Probe),
        };
        let wait = at.map(|at| at.saturating_duration_since(now)).unwrap_or_default();
        if wait.is_zero() { due } else { Due::Wait(wait) }
    }

    /// The cluster responded to a probe.
    pub(super) fn answered(&mut self, now: Instant) {
        (self.connected, self.connect_at, self.limited) = (true, None, false);
        (self.last_probe, self.last_success) = (Some(now), Some(now));
        self.failures = 0;
    }

    /// A probe failed. Returns whether that ends the connection. `random` is uniform in [0, 1).
    pub(super) fn failed(&mut self, unauthorized: bool, now: Instant, random: f64) -> bool {
        self.last_probe = Some(now);
        self.failures = self.failures.saturating_add(1);
        let retry = now + self.timing.retry.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * random);
        if !self.connected {
            self.last_connect_failure = Some(now);
            (self.connect_at, self.limited) = (Some(retry), !unauthorized);
            return false;
        }
        let ends = unauthorized || self.failures >= MAX_FAILURES;
        if ends {
            self.disconnected(if unauthorized { now + AT_ONCE } else { retry });
        }
        ends
    }

    /// Ends the connection; the next attempt is at `connect_at`.
    pub(super) fn disconnected(&mut self, connect_at: Instant) {
        (self.connected, self.connect_at, self.limited) = (false, Some(connect_at), false);
    }

    /// New credentials were offered: after a 401 or a lost connection they are tried at once.
    pub(super) fn offered(&mut self) {
        if !self.limited {
            self.connect_at = None;
        }
    }

    /// The server responded at `at`, to a request or a watch: a failed probe before that does not count.
    pub(super) fn heard(&mut self, at: Instant) {
        if self.connected {
            self.last_success = self.last_success.max(Some(at));
            if self.last_probe < Some(at) {
                self.failures = 0;
            }
        }
    }

    /// A request got no response. Returns whether that is news.
    pub(super) fn doubt(&mut self, at: Instant) -> bool {
        let news = self.connected && !self.in_doubt();
        self.doubted = Some(at);
        news
    }

    /// The time until the next attempt to connect; zero if it is due.
    pub(super) fn retry_in(&self, now: Instant) -> Duration {
        self.connect_at.map(|at| at.saturating_duration_since(now)).unwrap_or_default()
    }

    /// There was no response since a worker got none.
    fn in_doubt(&self) -> bool {
        self.doubted > self.last_probe.max(self.last_success)
    }
}

#[cfg(test)]
impl ProbeSchedule {
    /// As if everything had happened earlier by `time`.
    pub(super) fn age(&mut self, time: Duration) {
        for at in [
            &mut self.connect_at,
            &mut self.last_connect_failure,
            &mut self.last_probe,
            &mut self.last_success,
            &mut self.doubted,
        ] {
            *at = at.map(|at| at - time);
        }
    }
}
