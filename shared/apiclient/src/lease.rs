//! Lease renewal: content and timing. The caller sends the requests, and passes the time.

use std::time::{Duration, Instant, SystemTime};

use crate::{
    api::{Lease, LeaseSpec, ObjectMeta},
    backoff::{Backoff, Retry},
    error::{Error, Result, optional},
    time::{micro_time, parse_micro_time},
};

pub fn new(namespace: &str, name: &str) -> Lease {
    Lease { metadata: ObjectMeta::new(Some(namespace), name), spec: LeaseSpec::default() }
}

/// `duration` in whole seconds, rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> i32 {
    duration.as_secs_f64().ceil() as i32
}

/// `lease`, renewed: changes `renewTime`, and `leaseDurationSeconds` of our `own` Lease. Even a new Lease has a
/// `renewTime`: readers dereference it (ocm `pkg/registration/spoke/addon/lease_controller.go:144`).
///
/// `renewTime` advances even if the clock steps back by less than `duration`.
pub fn renewed(lease: &Lease, duration: Duration, now: SystemTime, own: bool) -> Lease {
    let previous = lease.spec.renew_time.as_deref().and_then(parse_micro_time);
    let time = match previous {
        Some(previous) if previous >= now && previous < now + duration => {
            previous + Duration::from_micros(1)
        }
        _ => now,
    };
    let mut lease = lease.clone();
    lease.spec.renew_time = Some(micro_time(time));
    if own {
        lease.spec.lease_duration_seconds = Some(whole_seconds(duration));
    }
    lease
}

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

/// Renews one Lease, once per period.
#[derive(Debug)]
pub struct Renewal {
    /// Our own Lease, which is created if it is missing; `None` if somebody else creates it.
    own: Option<Lease>,
    period: Duration,
    /// The Lease as last written or read, which saves a read.
    known: Option<Lease>,
    renewed: Option<Now>,
    not_before: Instant,
    backoff: Backoff,
}

/// Conflicts in a row after which an attempt fails.
const MAX_CONFLICTS: u32 = 3;
/// The longest wait between two attempts, whatever the period.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl Renewal {
    /// Renews our `own` Lease; `None` means that another component creates the Lease.
    pub fn new(own: Option<Lease>, period: Duration, now: Instant) -> Self {
        let backoff = Backoff::new(period.min(MAX_WAIT)).honoring(period);
        Self { own, period, known: None, renewed: None, not_before: now, backoff }
    }

    /// When to renew: one period after the last success by either clock, and not before the backoff ends. Only the
    /// wall clock advances while a machine sleeps.
    pub fn due(&self, now: Now) -> Instant {
        let Some(renewed) = self.renewed else { return self.not_before };
        let slept = now.wall.duration_since(renewed.wall).is_ok_and(|past| past >= self.period);
        let due = if slept { now.instant } else { renewed.instant + self.period };
        due.max(self.not_before)
    }

    /// Renews the Lease, usually with one write. `send` writes the Lease that it gets, or reads it for `None`. Returns
    /// the number of failures before this success.
    pub fn renew(
        &mut self,
        now: Now,
        send: &mut dyn FnMut(Option<&Lease>) -> Result<Lease>,
    ) -> Result<u32> {
        let mut conflicts = 0;
        let written = loop {
            let known = match (self.known.take(), &self.own) {
                (Some(known), _) => known,
                (None, None) => send(None)?,
                (None, Some(own)) => optional(send(None))?.unwrap_or_else(|| own.clone()),
            };
            let wanted = renewed(&known, self.period, now.wall, self.own.is_some());
            conflicts += 1;
            match send(Some(&wanted)) {
                // Somebody changed or deleted the Lease: read it.
                Err(Error::Conflict(_) | Error::AlreadyExists(_) | Error::NotFound(_))
                    if conflicts < MAX_CONFLICTS => {}
                // The Lease has probably not changed: after an outage, a fleet must not begin with reads.
                Err(error @ (Error::Unreachable(_) | Error::Unavailable { .. })) => {
                    self.known = Some(known);
                    return Err(error);
                }
                answer => break answer?,
            }
        };
        (self.known, self.renewed) = (Some(written), Some(now));
        Ok(self.backoff.succeeded())
    }

    /// Counts a failure; the next attempt comes within the period.
    pub fn failed(&mut self, error: &Error, now: Instant) -> Retry {
        let retry = self.backoff.failed(error, now, fastrand::f64());
        self.not_before = now + retry.wait;
        retry
    }

    /// Ends the backoff: new credentials may succeed.
    pub fn credentials_changed(&mut self, now: Instant) {
        self.not_before = now;
    }

    pub fn period(&self) -> Duration {
        self.period
    }

    pub fn is_first(&self) -> bool {
        self.renewed.is_none()
    }
}

#[cfg(test)]
mod tests;
