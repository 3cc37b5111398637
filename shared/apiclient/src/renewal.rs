//! Renewal of one Lease: state, answer and time give the next request. No I/O and no clock but in
//! [`attempt`] and [`Now::read`].

use std::time::{Duration, Instant, SystemTime};

use crate::{
    api::Lease,
    backoff::{Backoff, Retry},
    error::{Error, Result},
    lease,
};

/// Both clocks: one for waits, one for timestamps.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For waits.
    pub instant: Instant,
    /// For timestamps.
    pub wall: SystemTime,
}

impl Now {
    /// The present time.
    pub fn read() -> Self {
        Self { instant: Instant::now(), wall: SystemTime::now() }
    }
}

/// The next action.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Nothing before this instant, or before something changes.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Create this Lease.
    Create(Lease),
    /// Replace the Lease by this: the renewal.
    Replace(Lease),
}

/// The meaning of an answer.
#[derive(Debug, PartialEq)]
pub enum RenewalOutcome {
    /// The Lease is renewed, after this many failures.
    Renewed {
        /// In a row, before this success.
        failures: u32,
    },
    /// One more request is needed, now.
    Continue,
    /// Not renewed; the next attempt comes within the period.
    Failed(Retry),
}

/// The Lease after the last answer.
#[derive(Debug)]
enum Known {
    Nothing,
    Absent,
    Lease(Box<Lease>),
}

/// The renewal of one Lease.
#[derive(Debug)]
pub struct Renewal {
    /// Namespace and name of a Lease that is ours to create.
    own: Option<(String, String)>,
    period: Duration,
    known: Known,
    renewed: Option<Now>,
    not_before: Instant,
    conflicts: u32,
    backoff: Backoff,
}

/// After this many conflicts in a row the next attempt waits.
const MAX_CONFLICTS: u32 = 3;
/// The longest wait between two attempts, whatever the period.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl Renewal {
    /// Renews our own Lease: creates it if there is none, and sets its `leaseDurationSeconds` to `period`.
    pub fn of_own(namespace: &str, name: &str, period: Duration, now: Instant) -> Self {
        let own = Some((namespace.to_owned(), name.to_owned()));
        Self { own, ..Self::of_others(period, now) }
    }

    /// Renews a Lease that somebody else creates: only its `renewTime` is ours.
    pub fn of_others(period: Duration, now: Instant) -> Self {
        Self {
            own: None,
            period,
            known: Known::Nothing,
            renewed: None,
            not_before: now,
            conflicts: 0,
            backoff: Backoff::new(period.min(MAX_WAIT)).honoring(period),
        }
    }

    /// The action that is due now, while renewing is `allowed`.
    pub fn next(&self, allowed: bool, now: Now) -> Action {
        if !allowed {
            return Action::Wait(now.instant + self.period);
        }
        let due = self.due(now).max(self.not_before);
        if due > now.instant {
            return Action::Wait(due);
        }
        match (&self.known, &self.own) {
            (Known::Absent, Some((namespace, name))) => {
                let spec = lease::heartbeat(self.period, now.wall);
                Action::Create(lease::new(namespace, name, spec))
            }
            (Known::Nothing | Known::Absent, _) => Action::Read,
            (Known::Lease(lease), own) => {
                Action::Replace(lease::renewed(lease, self.period, now.wall, own.is_some()))
            }
        }
    }

    /// Records the answer to `action`, which went out at `sent`.
    pub fn answered(
        &mut self,
        action: &Action,
        answer: &Result<Lease>,
        (sent, now): (Now, Instant),
        random: f64,
    ) -> RenewalOutcome {
        match (action, answer) {
            (_, Ok(lease)) => {
                self.known = Known::Lease(Box::new(lease.clone()));
                match action {
                    Action::Create(_) | Action::Replace(_) => self.succeeded(sent),
                    Action::Read | Action::Wait(_) => RenewalOutcome::Continue,
                }
            }
            (_, Err(error @ Error::NotFound(_))) => {
                self.known = Known::Absent;
                match self.own {
                    Some(_) => RenewalOutcome::Continue,
                    None => self.failed(error, now, random),
                }
            }
            (_, Err(error @ (Error::Conflict(_) | Error::AlreadyExists(_)))) => {
                self.known = Known::Nothing;
                self.conflicts += 1;
                match self.conflicts % MAX_CONFLICTS {
                    0 => self.failed(error, now, random),
                    _ => RenewalOutcome::Continue,
                }
            }
            (_, Err(error)) => {
                match (action, error) {
                    // The Lease as read is no base for a write: read again.
                    (_, Error::Immutable(_) | Error::Invalid(_))
                    // We may not create it, but somebody else may have done so meanwhile.
                    | (Action::Create(_), Error::Forbidden(_)) => self.known = Known::Nothing,
                    _ => {}
                }
                self.failed(error, now, random)
            }
        }
    }

    /// Renews once per `period` from now on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period;
        self.backoff.set_limits(period.min(MAX_WAIT), period);
    }

    /// Ends the wait after a failure: new credentials may succeed.
    pub fn credentials_changed(&mut self, now: Instant) {
        self.not_before = now;
    }

    /// The time between two renewals.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The last success.
    pub fn renewed(&self) -> Option<Now> {
        self.renewed
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// One period after the last success by either clock: only the wall clock advances while a machine
    /// sleeps.
    fn due(&self, now: Now) -> Instant {
        let Some(renewed) = self.renewed else {
            return now.instant;
        };
        let slept = now.wall.duration_since(renewed.wall).is_ok_and(|past| past >= self.period);
        if slept { now.instant } else { renewed.instant + self.period }
    }

    fn succeeded(&mut self, at: Now) -> RenewalOutcome {
        self.renewed = Some(at);
        self.conflicts = 0;
        RenewalOutcome::Renewed { failures: self.backoff.succeeded() }
    }

    fn failed(&mut self, error: &Error, now: Instant, random: f64) -> RenewalOutcome {
        let retry = self.backoff.failed(error, now, random);
        self.not_before = now + retry.wait;
        RenewalOutcome::Failed(retry)
    }
}

#[cfg(test)]
mod tests;
