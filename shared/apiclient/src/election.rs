//! Leader election by client-go's rules (`tools/leaderelection/leaderelection.go`): a candidate trusts its own clock,
//! never another's timestamps. As there, a write that began before leadership was lost may still land.

use std::{
    fs,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    api::Lease,
    client::Client,
    error::{Error, Result, optional},
    lease,
    resource::{Target, valid_name},
    time::micro_time,
};

/// The times of an election: LeaseDuration, RenewDeadline and RetryPeriod in client-go.
#[derive(Clone, Copy, Debug)]
pub struct ElectionTiming {
    /// How long other candidates wait after the last change that they observed.
    pub lease: Duration,
    /// How long the leader keeps trying to renew before it gives up.
    pub renew: Duration,
    pub retry: Duration,
}

/// client-go's JitterFactor: up to this multiple of the retry period is added to a candidate's wait.
pub const JITTER: f64 = 1.2;

/// client-go's defaults, as controller-runtime uses them.
pub const TIMING: ElectionTiming = ElectionTiming {
    lease: Duration::from_secs(15),
    renew: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

#[derive(Debug)]
pub struct Candidate {
    identity: String,
    timing: ElectionTiming,
    /// The Lease as last observed, and when its spec last changed.
    seen: Option<(Lease, Instant)>,
    renewed: Option<Instant>,
}

impl Candidate {
    pub fn new(identity: String, timing: ElectionTiming) -> Self {
        Self { identity, timing, seen: None, renewed: None }
    }

    /// Until when this candidate certainly leads; `None` if its last attempt lost the lead.
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.timing.renew)
    }

    /// Until when another candidate holds the Lease.
    pub fn follows_until(&self) -> Option<Instant> {
        let (lease, since) = self.seen.as_ref()?;
        let seconds = lease.spec.lease_duration_seconds.unwrap_or(0).clamp(0, 86_400);
        let is_other = !self.holder().is_empty() && self.holder() != self.identity;
        is_other.then(|| *since + Duration::from_secs(seconds.unsigned_abs().into()))
    }

    pub fn holder(&self) -> &str {
        let seen = self.seen.as_ref();
        seen.and_then(|(lease, _)| lease.spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// Tries once to acquire or renew the Lease. The time-out of `client` should be at most half of
    /// [`ElectionTiming::renew`]: after a request that hangs, another one can still keep the lead.
    pub fn attempt(&mut self, client: &Client, target: &Target<'_>) -> Result<()> {
        let begun = Instant::now();
        let result = self.acquire_or_renew(client, target);
        self.record(&result, begun, Instant::now());
        result.map(drop)
    }

    /// Releases the Lease if it is ours, like client-go's release().
    pub fn release(&self, client: &Client, target: &Target<'_>) -> Result<()> {
        match self.released(SystemTime::now()) {
            Some(lease) => client.write_typed(target, &lease).map(drop),
            None => Ok(()),
        }
    }

    /// Returns whether the Lease is ours now. A leader renews the Lease that it remembers with one request, client-go's
    /// fast path.
    fn acquire_or_renew(&mut self, client: &Client, target: &Target<'_>) -> Result<bool> {
        if self.renewed.is_some() {
            match self.write_claim(client, target) {
                // Somebody changed or deleted the Lease: read it below.
                Err(Error::Conflict(_) | Error::NotFound(_) | Error::AlreadyExists(_)) => {}
                result => return result,
            }
        }
        let lease = optional(client.get_typed(target))?;
        self.observe(lease, Instant::now());
        self.write_claim(client, target)
    }

    /// Returns `false` while another candidate holds the Lease.
    fn write_claim(&mut self, client: &Client, target: &Target<'_>) -> Result<bool> {
        let claim = self.claim(target, Instant::now(), SystemTime::now());
        let Some(claim) = claim else { return Ok(false) };
        let written = client.write_typed(target, &claim)?;
        self.observe(Some(written), Instant::now());
        Ok(true)
    }

    /// The Lease to write in order to acquire or keep the lead; it has no resourceVersion if it must be created. `None`
    /// while another candidate leads.
    fn claim(&self, target: &Target<'_>, now: Instant, wall: SystemTime) -> Option<Lease> {
        if self.follows_until().is_some_and(|until| now < until) {
            return None;
        }
        let old = self.seen.as_ref().map(|(lease, _)| lease.clone());
        let is_taken = old.is_some() && self.holder() != self.identity;
        let (namespace, name) =
            (target.namespace.unwrap_or_default(), target.name.unwrap_or_default());
        let mut lease = old.unwrap_or_else(|| lease::new(namespace, name));
        let (spec, time) = (&mut lease.spec, Some(micro_time(wall)));
        if self.holder() != self.identity {
            spec.acquire_time.clone_from(&time);
        }
        spec.renew_time = time;
        spec.holder_identity = Some(self.identity.clone());
        // Rounded up: others must not take over before the leader gives up.
        spec.lease_duration_seconds = Some(lease::whole_seconds(self.timing.lease));
        let transitions = spec.lease_transitions.unwrap_or(0).max(0);
        spec.lease_transitions = Some(transitions.saturating_add(is_taken.into()));
        Some(lease)
    }

    fn released(&self, wall: SystemTime) -> Option<Lease> {
        let (lease, _) = self.seen.as_ref().filter(|_| self.holder() == self.identity)?;
        let (mut lease, now) = (lease.clone(), Some(micro_time(wall)));
        lease.spec.holder_identity = Some(String::new());
        lease.spec.lease_duration_seconds = Some(1);
        (lease.spec.renew_time, lease.spec.acquire_time) = (now.clone(), now);
        Some(lease)
    }

    /// Records the Lease; the time of observation moves only if its spec has changed.
    fn observe(&mut self, lease: Option<Lease>, now: Instant) {
        self.seen = lease.map(|lease| match self.seen.take() {
            Some((old, since)) if old.spec == lease.spec => (lease, since),
            _ => (lease, now),
        });
    }

    /// Records an attempt that began at `begun`. After an error, the leader stays until its deadline.
    fn record(&mut self, result: &Result<bool>, begun: Instant, now: Instant) {
        match result {
            Ok(leads) => self.renewed = leads.then_some(begun),
            Err(_) if self.leads_until().is_some_and(|until| now < until) => {}
            Err(_) => self.renewed = None,
        }
    }
}

/// A name for this process, `<host>_<random>` as controller-runtime makes it.
pub fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| valid_name(host)).unwrap_or("sidecar");
    format!("{host}_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

#[cfg(test)]
mod tests;
