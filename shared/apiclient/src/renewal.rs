//! Renewal of one Lease: state, answer and time give the next request. No I/O, and no clock but in
//! [`Now::read`].

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
    pub instant: Instant,
    pub wall: SystemTime,
}

impl Now {
    pub fn read() -> Self {
        Self { instant: Instant::now(), wall: SystemTime::now() }
    }
}

#[derive(Debug, PartialEq)]
pub enum Action {
    /// Nothing before this instant, or before something changes.
    Wait(Instant),
    Read,
    /// Create this Lease, or replace the one of its resourceVersion: the renewal.
    Write(Box<Lease>),
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

#[derive(Debug)]
pub struct Renewal {
    /// Namespace and name of a Lease that is ours to create.
    own: Option<(String, String)>,
    period: Duration,
    /// The Lease to write next: the last answer, or a new one.
    known: Option<Lease>,
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
            known: None,
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
        match &self.known {
            None => Action::Read,
            Some(known) => {
                let renewed = lease::renewed(known, self.period, now.wall, self.own.is_some());
                Action::Write(Box::new(renewed))
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
        let error = match answer {
            Ok(lease) => {
                self.known = Some(lease.clone());
                return match action {
                    Action::Write(_) => self.succeeded(sent),
                    Action::Read | Action::Wait(_) => RenewalOutcome::Continue,
                };
            }
            Err(error) => error,
        };
        match (error, action) {
            (Error::NotFound(_), _) => {
                let own = self.own.as_ref();
                self.known = own.map(|(namespace, name)| lease::new(namespace, name));
                if self.known.is_some() {
                    return RenewalOutcome::Continue;
                }
            }
            (Error::Conflict(_) | Error::AlreadyExists(_), _) => {
                self.known = None;
                self.conflicts += 1;
                if !self.conflicts.is_multiple_of(MAX_CONFLICTS) {
                    return RenewalOutcome::Continue;
                }
            }
            // A write cannot build on this Lease: read again.
            (Error::Immutable(_) | Error::Invalid(_), _) => self.known = None,
            // We may not create it, but somebody else may have done so meanwhile.
            (Error::Forbidden(_), Action::Write(lease))
                if lease.metadata.resource_version.is_none() =>
            {
                self.known = None;
            }
            _ => {}
        }
        let retry = self.backoff.failed(error, now, random);
        self.not_before = now + retry.wait;
        RenewalOutcome::Failed(retry)
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

    pub fn period(&self) -> Duration {
        self.period
    }

    pub fn renewed(&self) -> Option<Now> {
        self.renewed
    }

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
}

#[cfg(test)]
mod tests;
