//! What all threads share: settings, clients, Leases and the state of the world.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use shared::{
    client::{Client, Reload, Timing},
    election,
    error::Result,
    flags::Flags,
    kubeconfig::{self, Env},
    stop::Stop,
};

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
    pub(crate) started: SystemTime,
}

impl Sidecar {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// `BadConfig` when the kubeconfig of the managed cluster cannot be used.
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let managed = match settings.needs_managed_cluster() {
            true => Some(Arc::new(managed_client(settings.request_timeout(), flags)?)),
            false => None,
        };
        let elector = match settings.election {
            // As in controller-runtime: a request that hangs must not cost the lead.
            Some(_) => Some(managed_client(election::TIMING.renew / 2, flags)?),
            None => None,
        };
        let (gated, elected) = (settings.pod.is_some(), settings.election.is_some());
        Ok(Self {
            heartbeats: heartbeats(settings, managed.as_ref()),
            world: World::new(stop.clone(), gated, elected),
            settings: settings.clone(),
            managed,
            elector,
            started: SystemTime::now(),
        })
    }

    /// The Lease on the hub, if one is kept there.
    pub(crate) fn hub(&self) -> Option<&Heartbeat> {
        self.heartbeats.iter().find(|heartbeat| heartbeat.target == Cluster::Hub)
    }
}

fn managed_client(request: Duration, flags: &Flags) -> Result<Client> {
    let file = flags.some("kubeconfig").map(PathBuf::from);
    let master = flags.some("master").map(str::to_owned);
    let load = move || kubeconfig::load(file.as_deref(), master.as_deref(), &Env::process());
    let (access, reload) = (load()?, Reload::FromFiles(Box::new(load)));
    Client::new(Cluster::Managed.name(), access, reload, Timing::with_request(request))
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
