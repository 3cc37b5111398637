//! What the threads know together: may a Lease be renewed now, with which client, and how it went.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use shared::{access::Access, client::Client, election::Candidate, error::Result, stop::Stop};

use crate::{
    gate::Gate,
    renewal::{Now, Renewal},
};

/// Shared by all threads; a lock is never held across I/O.
pub(crate) struct World {
    pub(crate) stop: Stop,
    pub(crate) period: Duration,
    pub(crate) targets: Vec<Target>,
    pub(crate) managed: Option<Arc<Client>>,
    gate: Mutex<Gate>,
    election: Option<Mutex<Standing>>,
}

/// One Lease to keep.
pub(crate) struct Target {
    /// "hub" or "managed".
    pub(crate) name: &'static str,
    pub(crate) namespace: String,
    /// Empty until there is a credential.
    client: Mutex<Option<Arc<Client>>>,
    progress: Mutex<Progress>,
    /// Credential reads, good and bad.
    reads: Mutex<(u64, u64)>,
}

/// What the endpoint reports of a target.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// When its loop last came by.
    pub(crate) beat: Instant,
    pub(crate) renewed: Option<Now>,
    pub(crate) interval: Duration,
    pub(crate) failures: u32,
    pub(crate) successes_total: u64,
    pub(crate) failures_total: u64,
}

/// This replica's place in the election.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) leads_until: Option<Instant>,
    pub(crate) stands_by: bool,
}

impl World {
    pub(crate) fn new(
        stop: Stop,
        period: Duration,
        targets: Vec<Target>,
        managed: Option<Arc<Client>>,
        gated: bool,
        elected: bool,
    ) -> Self {
        let gate = if gated { Gate::Closed("it was not seen yet".into()) } else { Gate::Open };
        Self {
            stop,
            period,
            targets,
            managed,
            gate: Mutex::new(gate),
            election: elected.then(Mutex::default),
        }
    }

    /// Whether a Lease may be renewed at `now`: the pod is well, and this replica leads if there is an
    /// election.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        *lock(&self.gate) == Gate::Open
            && self.standing().is_none_or(|standing| standing.leads(now))
    }

    pub(crate) fn gate(&self) -> Gate {
        lock(&self.gate).clone()
    }

    /// Sets the gate; `true` if that changed anything. Wakes the renewals.
    pub(crate) fn set_gate(&self, gate: Gate) -> bool {
        let changed = {
            let mut current = lock(&self.gate);
            std::mem::replace(&mut *current, gate.clone()) != gate
        };
        self.stop.wake();
        changed
    }

    pub(crate) fn standing(&self) -> Option<Standing> {
        self.election.as_ref().map(|standing| *lock(standing))
    }

    /// Takes note of how the election stands; returns how it stood before.
    pub(crate) fn set_standing(&self, candidate: &Candidate, now: Instant) -> Standing {
        let standing =
            Standing { leads_until: candidate.leads_until(), stands_by: candidate.stands_by(now) };
        let before =
            self.election.as_ref().map(|current| std::mem::replace(&mut *lock(current), standing));
        let before = before.unwrap_or_default();
        if before.leads(now) != standing.leads(now) {
            self.stop.wake();
        }
        before
    }
}

impl Standing {
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.leads_until.is_some_and(|until| now < until)
    }
}

impl Target {
    pub(crate) fn new(name: &'static str, namespace: &str, client: Option<Arc<Client>>) -> Self {
        let progress = Progress {
            beat: Instant::now(),
            renewed: None,
            interval: Duration::ZERO,
            failures: 0,
            successes_total: 0,
            failures_total: 0,
        };
        Self {
            name,
            namespace: namespace.to_owned(),
            client: Mutex::new(client),
            progress: Mutex::new(progress),
            reads: Mutex::default(),
        }
    }

    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        lock(&self.client).clone()
    }

    /// Uses `access` from now on; `make` makes the first client. `true` if anything changed.
    pub(crate) fn set_access(
        &self,
        access: Access,
        make: impl FnOnce(Access) -> Result<Client>,
    ) -> Result<bool> {
        if let Some(client) = self.client() {
            return client.swap(access);
        }
        let client = make(access)?;
        *lock(&self.client) = Some(Arc::new(client));
        Ok(true)
    }

    /// There is no credential any more; `true` if there was one.
    pub(crate) fn drop_client(&self) -> bool {
        lock(&self.client).take().is_some()
    }

    pub(crate) fn reads(&self) -> (u64, u64) {
        *lock(&self.reads)
    }

    pub(crate) fn count_read(&self, good: bool) {
        let mut reads = lock(&self.reads);
        if good { reads.0 += 1 } else { reads.1 += 1 }
    }

    pub(crate) fn progress(&self) -> Progress {
        lock(&self.progress).clone()
    }

    pub(crate) fn beat(&self) {
        lock(&self.progress).beat = Instant::now();
    }

    /// Takes note of a request's end.
    pub(crate) fn note(&self, renewal: &Renewal, success: bool) {
        let mut progress = lock(&self.progress);
        progress.failures = renewal.failures();
        if !success {
            progress.failures_total += 1;
            return;
        }
        progress.successes_total += 1;
        if let (Some(before), Some(now)) = (progress.renewed, renewal.renewed()) {
            progress.interval = now.instant.saturating_duration_since(before.instant);
        }
        progress.renewed = renewal.renewed();
    }
}

/// Seconds since the epoch, for a metric.
pub(crate) fn timestamp(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// When the process started, near enough.
pub(crate) fn started() -> SystemTime {
    static STARTED: OnceLock<SystemTime> = OnceLock::new();
    *STARTED.get_or_init(SystemTime::now)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
