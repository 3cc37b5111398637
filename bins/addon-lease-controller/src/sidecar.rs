//! What all threads share: settings, clients, Leases and the state of the world.

use std::{sync::Arc, time::SystemTime};

use shared::{client::Client, election, error::Result, flags::Flags, stop::Stop, watch::LastError};

use crate::{
    heartbeat::{Cluster, Heartbeat},
    settings::Settings,
    world::World,
};

/// The parts of the running program.
pub(crate) struct Sidecar {
    pub(crate) settings: Settings,
    /// The cluster this runs on, where it is needed.
    pub(crate) managed: Option<Arc<Client>>,
    /// The same cluster for the election, with its own time for a request.
    pub(crate) elector: Option<Client>,
    pub(crate) heartbeats: Vec<Heartbeat>,
    pub(crate) world: World,
    /// Why the pod, or the Secret, may have changed unseen.
    pub(crate) pod_trouble: LastError,
    pub(crate) secret_trouble: LastError,
    pub(crate) started: SystemTime,
}

impl Sidecar {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// `BadConfig` when the kubeconfig of the managed cluster cannot be used.
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let managed = match settings.needs_managed_cluster() {
            true => Some(Arc::new(Client::of_own_cluster(flags, settings.request_timeout())?)),
            false => None,
        };
        let elector = match settings.election {
            // As in controller-runtime: a request that hangs must not cost the lead.
            Some(_) => Some(Client::of_own_cluster(flags, election::TIMING.renew / 2)?),
            None => None,
        };
        let (gated, elected) = (settings.pod.is_some(), settings.election.is_some());
        Ok(Self {
            heartbeats: heartbeats(settings, managed.as_ref()),
            world: World::new(stop.clone(), gated, elected),
            settings: settings.clone(),
            managed,
            elector,
            pod_trouble: LastError::default(),
            secret_trouble: LastError::default(),
            started: SystemTime::now(),
        })
    }

    /// The Lease on the hub, if one is kept there.
    pub(crate) fn hub(&self) -> Option<&Heartbeat> {
        self.heartbeats.iter().find(|heartbeat| heartbeat.target == Cluster::Hub)
    }
}

fn heartbeats(settings: &Settings, managed: Option<&Arc<Client>>) -> Vec<Heartbeat> {
    let heartbeat = |target, namespace: &str, client| {
        Heartbeat::new(target, (namespace, &settings.lease_name), settings.period, client)
    };
    let hub = settings.hub.as_ref().map(|hub| heartbeat(Cluster::Hub, &hub.namespace, None));
    let own = settings.managed.as_ref();
    let own = own.map(|namespace| heartbeat(Cluster::Managed, namespace, managed.cloned()));
    hub.into_iter().chain(own).collect()
}
