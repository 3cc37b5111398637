//! One Lease that is kept renewed: its loop, and the request that renews it.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use shared::{
    client::{Client, RequestMetrics},
    config::ClusterConfig,
    error::Result,
    lock::lock,
    renewal::{self, Action, Now, Outcome, Renewal, RenewalStatus},
    resource::LEASES,
};

use crate::world::World;

/// One Lease, the way to it and how it goes.
pub(crate) struct Heartbeat {
    pub(crate) target: Cluster,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) period: Duration,
    /// Empty until there is a credential.
    client: Mutex<Option<Arc<Client>>>,
    progress: Mutex<RenewalStatus>,
    /// Credentials read, good and bad, but for those that the client read itself.
    reads: Mutex<(u64, u64)>,
    /// By all clients one after the other.
    pub(crate) requests: RequestMetrics,
}

/// Where a Lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cluster {
    Hub,
    Managed,
}

impl Cluster {
    /// In a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hub => "the hub",
            Self::Managed => "the managed cluster",
        }
    }

    /// In a metric.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Managed => "managed",
        }
    }
}

impl Heartbeat {
    pub(crate) fn new(
        target: Cluster,
        (namespace, name): (&str, &str),
        period: Duration,
        client: Option<Arc<Client>>,
    ) -> Self {
        Self {
            target,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            period,
            client: Mutex::new(client),
            progress: Mutex::default(),
            reads: Mutex::default(),
            requests: RequestMetrics::default(),
        }
    }

    /// Renews the Lease whenever it is due and the world allows it, until the end.
    pub(crate) fn keep(&self, world: &World) {
        let mut renewal = Renewal::of_own(&self.namespace, &self.name, self.period, Instant::now());
        let mut identity = None;
        loop {
            let seen = world.stop.wakes();
            let now = Now::read();
            lock(&self.progress).beat = Some(now.instant);
            let client = self.client();
            let current = client.as_ref().map(|client| client.generation());
            if std::mem::replace(&mut identity, current) != current {
                renewal.credentials_changed(now.instant);
            }
            let allowed = client.is_some() && world.allows(now.instant);
            match (renewal.next(allowed, now), client) {
                (Action::Wait(until), _) => {
                    if world.rest(seen, until) {
                        return;
                    }
                }
                (action, Some(client)) => {
                    renewal.sending(&action, now);
                    let answer = self.renew(&client, &action);
                    let outcome = renewal.answered(&action, &answer, Now::read(), fastrand::f64());
                    self.tell(&outcome, &answer);
                    lock(&self.progress).note(&renewal, &outcome);
                }
                // Nothing but waiting is allowed without a client.
                (_, None) => {}
            }
        }
    }

    /// Performs one request of a renewal: in the steady state the one PUT that renews the Lease.
    fn renew(&self, client: &Client, action: &Action) -> Result<Value> {
        let lease = LEASES.object(&self.namespace, &self.name);
        match action {
            Action::Replace(renewed) => client.replace(&lease, renewed),
            Action::Create(new) => client.create(&lease, new),
            Action::Read | Action::Wait(_) => client.get(&lease),
        }
    }

    /// As [`renewal::log_outcome`], and the first success.
    fn tell(&self, outcome: &Outcome, answer: &Result<Value>) {
        let first = lock(&self.progress).renewed.is_none();
        match outcome {
            Outcome::Renewed { failures: 0 } if first => {
                log::info!("{self} is renewed every {} s", self.period.as_secs());
            }
            _ => renewal::log_outcome(self, outcome, answer),
        }
    }

    pub(crate) fn progress(&self) -> RenewalStatus {
        *lock(&self.progress)
    }

    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        lock(&self.client).clone()
    }

    /// Uses `access` from now on; `make` makes the first client. `true` if anything changed.
    pub(crate) fn set_access(
        &self,
        access: ClusterConfig,
        make: impl FnOnce(ClusterConfig) -> Result<Client>,
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
        let Some(client) = lock(&self.client).take() else { return false };
        let ((good, bad), mut reads) = (client.reloads(), lock(&self.reads));
        *reads = (reads.0 + good, reads.1 + bad);
        true
    }

    /// Credentials read so far, good and bad.
    pub(crate) fn reads(&self) -> (u64, u64) {
        *lock(&self.reads)
    }

    pub(crate) fn count_read(&self, good: bool) {
        let mut reads = lock(&self.reads);
        if good { reads.0 += 1 } else { reads.1 += 1 }
    }
}

/// `Lease cluster1/my-addon on the hub`
impl fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{} on {}", self.namespace, self.name, self.target.name())
    }
}
