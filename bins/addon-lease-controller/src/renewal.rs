//! When and how one Lease is renewed: state, answer and time in, next request out. No I/O, no clock.

use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use shared::{
    error::{Error, Result},
    lease,
    pace::{Backoff, Retry},
};

/// Both clocks: one to wait by, one to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: SystemTime,
}

impl Now {
    pub(crate) fn read() -> Self {
        Self { instant: Instant::now(), wall: SystemTime::now() }
    }
}

/// The next thing to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Nothing before this instant, or before something changes.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Create this Lease.
    Create(Value),
    /// Replace the Lease by this: the renewal.
    Replace(Value),
}

/// What an answer meant.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The Lease is renewed, after so many failures.
    Renewed { failures: u32 },
    /// One more request is needed, now.
    Continue,
    /// Not renewed; tried again inside the period.
    Failed(Retry),
}

/// The Lease as the last answer left it.
#[derive(Debug)]
enum Known {
    Nothing,
    Absent,
    Lease(Value),
}

/// The renewal of one Lease.
#[derive(Debug)]
pub(crate) struct Renewal {
    namespace: String,
    name: String,
    period: Duration,
    known: Known,
    /// What was written last, whether it arrived or not.
    sent: Option<(String, Now)>,
    renewed: Option<Now>,
    not_before: Instant,
    conflicts: u32,
    backoff: Backoff,
}

/// Writers that keep getting in between are left to it until the next try (F32).
const CONFLICTS_AT_ONCE: u32 = 3;
/// The longest wait between two tries, whatever the period.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Renewal {
    pub(crate) fn new(namespace: &str, name: &str, period: Duration, now: Instant) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            period,
            known: Known::Nothing,
            sent: None,
            renewed: None,
            not_before: now,
            conflicts: 0,
            backoff: Backoff::new(period.min(LONGEST_WAIT)),
        }
    }

    /// What to do now, while renewing is `allowed`.
    pub(crate) fn next(&self, allowed: bool, now: Now) -> Action {
        if !allowed {
            return Action::Wait(now.instant + self.period);
        }
        let due = self.due(now).max(self.not_before);
        if due > now.instant {
            return Action::Wait(due);
        }
        match &self.known {
            Known::Nothing => Action::Read,
            Known::Absent => {
                let spec = lease::heartbeat(self.period, now.wall);
                Action::Create(lease::new(&self.namespace, &self.name, spec))
            }
            Known::Lease(lease) => Action::Replace(lease::renewed(lease, self.period, now.wall)),
        }
    }

    /// Takes note that `action` goes out at `now`.
    pub(crate) fn sending(&mut self, action: &Action, now: Now) {
        if let Action::Create(lease) | Action::Replace(lease) = action {
            self.sent = renew_time(lease).map(|time| (time.to_owned(), now));
        }
    }

    /// Takes note of the answer to `action`.
    pub(crate) fn answered(
        &mut self,
        action: &Action,
        answer: &Result<Value>,
        now: Now,
        random: f64,
    ) -> Outcome {
        match (action, answer) {
            (Action::Read, Ok(lease)) => {
                let arrived = self.sent.take_if(|(time, _)| renew_time(lease) == Some(&**time));
                self.known = Known::Lease(lease.clone());
                match arrived {
                    // The answer to the last write was lost, the write was not (F33).
                    Some((_, at)) => self.succeeded(at),
                    None => Outcome::Continue,
                }
            }
            (_, Ok(lease)) => {
                self.known = Known::Lease(lease.clone());
                let at = self.sent.take().map_or(now, |(_, at)| at);
                self.succeeded(at)
            }
            (_, Err(Error::NotFound(_))) => {
                self.known = Known::Absent;
                Outcome::Continue
            }
            (_, Err(error @ (Error::Conflict(_) | Error::AlreadyExists(_)))) => {
                self.known = Known::Nothing;
                self.conflicts += 1;
                match self.conflicts % CONFLICTS_AT_ONCE {
                    0 => self.failed(error, now, random),
                    _ => Outcome::Continue,
                }
            }
            (_, Err(error)) => self.failed(error, now, random),
        }
    }

    /// The last success.
    pub(crate) fn renewed(&self) -> Option<Now> {
        self.renewed
    }

    /// Failures since the last success.
    pub(crate) fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// A period after the last success by either clock: the wall clock alone goes on while a machine
    /// sleeps.
    fn due(&self, now: Now) -> Instant {
        let Some(renewed) = self.renewed else {
            return now.instant;
        };
        let slept = now.wall.duration_since(renewed.wall).is_ok_and(|past| past >= self.period);
        if slept { now.instant } else { renewed.instant + self.period }
    }

    fn succeeded(&mut self, at: Now) -> Outcome {
        self.renewed = Some(at);
        self.conflicts = 0;
        Outcome::Renewed { failures: self.backoff.succeeded() }
    }

    fn failed(&mut self, error: &Error, now: Now, random: f64) -> Outcome {
        let retry = self.backoff.failed(error, now.instant, random);
        self.not_before = now.instant + retry.wait;
        Outcome::Failed(retry)
    }
}

fn renew_time(lease: &Value) -> Option<&str> {
    lease["spec"]["renewTime"].as_str()
}
