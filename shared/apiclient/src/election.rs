//! Leader election on a Lease by client-go's rules (client-go `tools/leaderelection/leaderelection.go`):
//! only local observations count, never the other's clock.
//!
//! As there, this is no fence: a write that began before leadership was lost may still land.

use std::{
    fs,
    time::{Duration, Instant, SystemTime},
};

use log::Level;

use crate::{
    api::{Lease, LeaseSpec},
    backoff::Backoff,
    client::Client,
    error::{Error, Result},
    lease,
    log_line::seconds,
    log_object,
    resource::{Target, valid_name},
    stop::Stop,
    time::micro_time,
};

/// The times of an election: LeaseDuration, RenewDeadline and RetryPeriod in client-go.
#[derive(Clone, Copy, Debug)]
pub struct ElectionTiming {
    /// The wait of other candidates after the last change that they saw.
    pub lease: Duration,
    /// The leader gives up after this time without success.
    pub renew: Duration,
    /// Between two attempts.
    pub retry: Duration,
}

/// client-go's JitterFactor: candidates that wait may come this much later.
pub const JITTER: f64 = 1.2;

/// client-go's defaults, as controller-runtime uses them.
pub const TIMING: ElectionTiming = ElectionTiming {
    lease: Duration::from_secs(15),
    renew: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

/// A candidate and its observations; pure.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    timing: ElectionTiming,
    /// The Lease as last seen, and when its spec last changed.
    seen: Option<(Lease, Instant)>,
    renewed: Option<Instant>,
}

/// The action of a candidate after it has read the Lease.
#[derive(Debug, PartialEq)]
pub enum Claim {
    /// There is none: create this.
    Create(Lease),
    /// It is ours or nobody's: replace it with this.
    Replace(Lease),
    /// Another one leads.
    Wait,
}

impl Candidate {
    /// Starts without observations.
    pub fn new(identity: String, timing: ElectionTiming) -> Self {
        Self { identity, timing, seen: None, renewed: None }
    }

    /// Until when this candidate is certain to be the leader; `None` if it is not.
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.timing.renew)
    }

    /// The holder of the Lease when it was last seen.
    pub fn holder(&self) -> &str {
        self.seen
            .as_ref()
            .and_then(|(lease, _)| lease.spec.holder_identity.as_deref())
            .unwrap_or_default()
    }

    /// Returns whether another candidate is known to lead.
    pub fn stands_by(&self, now: Instant) -> bool {
        !self.holder().is_empty() && self.holder() != self.identity && self.held(now)
    }

    /// The renewal by a leader, from memory: client-go's fast path, without a read.
    fn renewal(&self, wall: SystemTime) -> Option<Lease> {
        let (lease, _) = self.seen.as_ref().filter(|_| self.renewed.is_some())?;
        Some(self.held_by_us(lease, wall))
    }

    /// The action after the Lease was read.
    fn claim(&self, target: &Target<'_>, now: Instant, wall: SystemTime) -> Claim {
        match &self.seen {
            None => {
                let (namespace, name) = (target.namespace, target.name);
                let spec = self.spec(None, wall);
                Claim::Create(lease::new(
                    namespace.unwrap_or_default(),
                    name.unwrap_or_default(),
                    spec,
                ))
            }
            Some(_) if self.holder() != self.identity && self.held(now) => Claim::Wait,
            Some((lease, _)) => Claim::Replace(self.held_by_us(lease, wall)),
        }
    }

    fn held_by_us(&self, lease: &Lease, wall: SystemTime) -> Lease {
        Lease { metadata: lease.metadata.clone(), spec: self.spec(Some(&lease.spec), wall) }
    }

    /// The record of a candidate that acquires or keeps the Lease.
    fn spec(&self, old: Option<&LeaseSpec>, wall: SystemTime) -> LeaseSpec {
        let now = Some(micro_time(wall));
        let kept = old.filter(|old| old.holder_identity.as_deref() == Some(&*self.identity));
        let transitions = old.and_then(|old| old.lease_transitions).unwrap_or(0).max(0);
        let is_taken = old.is_some() && kept.is_none();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            // No less than the leader's own time, or others would take over before it gives up.
            lease_duration_seconds: Some(lease::whole_seconds(self.timing.lease)),
            acquire_time: kept.map_or_else(|| now.clone(), |old| old.acquire_time.clone()),
            renew_time: now,
            lease_transitions: Some(transitions.saturating_add(is_taken.into())),
            other: old.map(|old| old.other.clone()).unwrap_or_default(),
        }
    }

    /// The record of a leader that releases the Lease, as client-go's release() writes it.
    fn released(&self, wall: SystemTime) -> Option<Lease> {
        let (lease, _) = self.seen.as_ref().filter(|_| self.holder() == self.identity)?;
        let mut lease = lease.clone();
        let now = Some(micro_time(wall));
        (lease.spec.holder_identity, lease.spec.lease_duration_seconds) =
            (Some(String::new()), Some(1));
        (lease.spec.renew_time, lease.spec.acquire_time) = (now.clone(), now);
        Some(lease)
    }

    /// Records the present Lease; only a changed record moves the time of observation.
    fn observe(&mut self, lease: Option<Lease>, now: Instant) {
        self.seen = lease.map(|lease| match self.seen.take() {
            Some((old, since)) if old.spec == lease.spec => (lease, since),
            _ => (lease, now),
        });
    }

    /// Records an attempt that began at `before`: whether the Lease is ours, or an error. Uncertainty ends
    /// leadership only when its time is over.
    fn tried(&mut self, result: &Result<bool>, before: Instant, now: Instant) {
        let until = self.leads_until();
        self.renewed = match result {
            Ok(true) => Some(before),
            Ok(false) => None,
            Err(_) => self.renewed.filter(|_| until.is_some_and(|until| now < until)),
        };
    }

    fn held(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|(lease, since)| {
            let seconds = lease.spec.lease_duration_seconds.unwrap_or(0).clamp(0, 86_400);
            let duration = Duration::from_secs(seconds.unsigned_abs().into());
            !self.holder().is_empty() && *since + duration > now
        })
    }
}

/// A name for this process, `<host>_<random>` as controller-runtime makes it.
pub fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| valid_name(host)).unwrap_or("sidecar");
    format!("{host}_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

/// Takes part in the election until `stop` is raised, then releases the Lease if it is ours. `on` is called
/// after every attempt. Requests should take at most half of `ElectionTiming::renew`, so that one that
/// hangs does not cost the lead.
pub fn run(
    client: &Client,
    target: &Target<'_>,
    mut candidate: Candidate,
    stop: &Stop,
    on: &dyn Fn(&Candidate),
) {
    let retry = candidate.timing.retry;
    let mut backoff = Backoff::new(retry);
    while !stop.raised() {
        let before = Instant::now();
        let result = attempt(client, target, &mut candidate);
        candidate.tried(&result, before, Instant::now());
        on(&candidate);
        // A leader keeps its pace.
        let jitter = if candidate.renewed.is_some() { 0.0 } else { JITTER * fastrand::f64() };
        let mut wait = retry + retry.mul_f64(jitter);
        match result {
            Ok(_) => {
                let failures = backoff.succeeded();
                if failures > 0 {
                    log_object!(
                        Level::Info, target, failures = failures;
                        "leader election recovered"
                    );
                }
            }
            Err(error) => {
                let retry = backoff.failed(&error, Instant::now(), 0.0);
                wait = wait.max(retry.wait);
                let level = if retry.should_log { Level::Warn } else { Level::Debug };
                let retry_in = seconds(wait);
                log_object!(
                    level, target, error:% = error, retry_in = retry_in;
                    "leader election is failing"
                );
            }
        }
        stop.wait(wait);
    }
    if let Err(error) = release(client, target, &mut candidate) {
        log_object!(Level::Debug, target, error:% = error; "the Lease is not released");
    }
}

/// Releases the Lease if it is ours; a second attempt follows a conflict, as other candidates would wait
/// for the end of the Lease.
fn release(client: &Client, target: &Target<'_>, candidate: &mut Candidate) -> Result<()> {
    for last in [false, true] {
        let Some(lease) = candidate.released(SystemTime::now()) else { return Ok(()) };
        match client.replace_typed(target, &lease) {
            Err(Error::Conflict(_)) if !last => {
                candidate.observe(Some(client.get_typed(target)?), Instant::now());
            }
            other => return other.map(drop),
        }
    }
    Ok(())
}

/// Makes one attempt; returns whether the Lease is ours now. An undisturbed leader needs one request.
fn attempt(client: &Client, target: &Target<'_>, candidate: &mut Candidate) -> Result<bool> {
    if let Some(lease) = candidate.renewal(SystemTime::now()) {
        match client.replace_typed(target, &lease) {
            Ok(lease) => {
                candidate.observe(Some(lease), Instant::now());
                return Ok(true);
            }
            // Another writer was faster: read before the next step.
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let lease = match client.get_typed(target) {
        Err(Error::NotFound(_)) => None,
        other => Some(other?),
    };
    candidate.observe(lease, Instant::now());
    let written = match candidate.claim(target, Instant::now(), SystemTime::now()) {
        Claim::Wait => return Ok(false),
        Claim::Create(lease) => client.create_typed(target, &lease)?,
        Claim::Replace(lease) => client.replace_typed(target, &lease)?,
    };
    candidate.observe(Some(written), Instant::now());
    Ok(true)
}

#[cfg(test)]
mod tests;
