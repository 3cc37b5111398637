//! Schedule of connection attempts and probes, and the verdict that a connection is lost: pure.

use std::time::{Duration, Instant};

/// Intervals, timeout and failure threshold; the flags' defaults are those of Cluster API (v1.9.0
/// `controllers/clustercache/cluster_cache.go:655,701-705`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProbeTiming {
    /// Between attempts to connect, apart from jitter.
    pub(crate) retry: Duration,
    /// Between probes, or between the last response and a probe.
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

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProbeOutcome {
    Success,
    /// 401.
    Unauthorized,
    /// Anything else, including no response.
    Failure,
}

/// Reasons why a probe ends the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ProbeVerdict {
    pub(super) too_many: bool,
    pub(super) unauthorized: bool,
}

/// The state of one connection's schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProbeSchedule {
    timing: ProbeTiming,
    connected: bool,
    /// The next attempt; `None` means at once.
    connect_at: Option<Instant>,
    /// The last attempt failed for another reason than its credentials: new ones have to wait, too.
    limited: bool,
    last_connect_failure: Option<Instant>,
    last_probe: Option<Instant>,
    last_success: Option<Instant>,
    /// The last time that a worker got no response.
    doubted: Option<Instant>,
    failures: u32,
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
        if !self.connected {
            let wait = self.retry_in(now);
            return if wait.is_zero() { Due::Connect } else { Due::Wait(wait) };
        }
        let wait = if self.in_doubt() {
            // Many workers get no response at once: the cluster is probed twice as often, but not more.
            remaining(now, self.last_probe, self.timing.interval / 2)
        } else {
            remaining(now, self.last_probe.max(self.last_success), self.timing.interval)
        };
        wait.map_or(Due::Probe, Due::Wait)
    }

    pub(super) fn connected(&mut self, now: Instant) {
        self.connected = true;
        (self.connect_at, self.limited) = (None, false);
        (self.last_probe, self.last_success) = (Some(now), Some(now));
        self.failures = 0;
    }

    /// Counts as a failed probe too (`cluster_accessor.go` since v1.11). `random` is uniform in [0, 1).
    pub(super) fn connect_failed(&mut self, unauthorized: bool, now: Instant, random: f64) {
        self.last_connect_failure = Some(now);
        self.last_probe = Some(now);
        self.failures = self.failures.saturating_add(1);
        self.limited = !unauthorized;
        self.connect_at = Some(now + self.retry(random));
    }

    /// Records a probe, and ends the connection if the verdict says so.
    pub(super) fn probed(
        &mut self,
        outcome: ProbeOutcome,
        now: Instant,
        random: f64,
    ) -> ProbeVerdict {
        if !self.connected {
            return ProbeVerdict::default();
        }
        self.last_probe = Some(now);
        if outcome == ProbeOutcome::Success {
            self.last_success = Some(now);
            self.failures = 0;
            return ProbeVerdict::default();
        }
        self.failures = self.failures.saturating_add(1);
        let too_many = self.failures >= MAX_FAILURES;
        let unauthorized = outcome == ProbeOutcome::Unauthorized;
        if unauthorized {
            self.disconnected(now + AT_ONCE);
        } else if too_many {
            self.disconnected(now + self.retry(random));
        }
        ProbeVerdict { too_many, unauthorized }
    }

    /// Ends the connection; the next attempt is at `connect_at`.
    pub(super) fn disconnected(&mut self, connect_at: Instant) {
        self.connected = false;
        self.connect_at = Some(connect_at);
        self.limited = false;
    }

    /// New credentials were offered: after a 401 or a lost connection they are tried at once.
    pub(super) fn offered(&mut self) {
        if !self.limited {
            self.connect_at = None;
        }
    }

    /// The server responded at `at`, to a request or a watch: as good as a probe.
    pub(super) fn heard(&mut self, at: Instant) {
        if !self.connected {
            return;
        }
        self.last_success = self.last_success.max(Some(at));
        if self.last_probe < Some(at) {
            self.failures = 0;
        }
    }

    /// A request got no response. Returns whether that is news.
    pub(super) fn doubt(&mut self, at: Instant) -> bool {
        let news = self.connected && !self.in_doubt();
        self.doubted = Some(at);
        news
    }

    pub(super) fn last_success(&self) -> Option<Instant> {
        self.last_success
    }

    pub(super) fn last_probe(&self) -> Option<Instant> {
        self.last_probe
    }

    pub(super) fn last_connect_failure(&self) -> Option<Instant> {
        self.last_connect_failure
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The time until the next attempt to connect; zero if it is due.
    pub(super) fn retry_in(&self, now: Instant) -> Duration {
        self.connect_at.map(|at| at.saturating_duration_since(now)).unwrap_or_default()
    }

    /// There was no response since a worker got none.
    fn in_doubt(&self) -> bool {
        self.doubted > self.last_probe.max(self.last_success)
    }

    fn retry(&self, random: f64) -> Duration {
        self.timing.retry.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * random)
    }
}

/// The rest of `interval` since `last`; `None` if it is over or never started.
pub(super) fn remaining(
    now: Instant,
    last: Option<Instant>,
    interval: Duration,
) -> Option<Duration> {
    let left = (last? + interval).saturating_duration_since(now);
    (!left.is_zero()).then_some(left)
}

/// The shortest of `waits`, or `otherwise` without any.
pub(super) fn soonest(waits: impl IntoIterator<Item = Duration>, otherwise: Duration) -> Duration {
    waits.into_iter().min().unwrap_or(otherwise)
}

#[cfg(test)]
impl ProbeSchedule {
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

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
