//! Shared state of all threads: settings, clients, Leases, pod and leadership.

use std::{sync::Arc, time::SystemTime};

use apiclient::{
    client::{Client, RequestMetrics},
    election,
    error::Result,
    reflector::Store,
    stop::Stop,
};
use sidecar::{client::own_cluster, flags::Flags, leadership::Leadership};

use crate::{
    cluster::LeaseCluster,
    credentials::HubClient,
    lease::LeaseRenewer,
    pod::{self, PodReadiness},
    settings::Settings,
};

/// The running program. A lock is never held across I/O.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    pub(crate) started: SystemTime,
    /// The local cluster, if it is needed.
    pub(crate) managed: Option<Client>,
    /// The hub, if it holds a Lease.
    pub(crate) hub: Option<Arc<HubClient>>,
    pub(crate) renewers: Vec<LeaseRenewer>,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) pods: Store<PodReadiness>,
}

impl App {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// `BadConfig` when the kubeconfig of the managed cluster cannot be used.
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let own = || own_cluster(flags, settings.request_timeout(), RequestMetrics::default());
        let managed = settings.needs_managed_cluster().then(own).transpose()?;
        let leadership = match settings.election {
            Some(_) => Leadership::of_candidate(election::TIMING, flags, stop)?,
            None => Leadership::without_election(stop),
        };
        let (mut hub, mut renewers) = (None, Vec::new());
        if let Some(target) = &settings.hub {
            let client = HubClient::new(target.credentials.clone(), managed.clone(), settings);
            let cluster = client.cluster.clone();
            renewers.push(LeaseRenewer::new(cluster, &target.namespace, settings));
            hub = Some(Arc::new(client));
        }
        if let (Some(namespace), Some(client)) = (&settings.managed, &managed) {
            let cluster = Arc::new(LeaseCluster::managed(client));
            renewers.push(LeaseRenewer::new(cluster, namespace, settings));
        }
        Ok(Self {
            settings: settings.clone(),
            stop: stop.clone(),
            started: SystemTime::now(),
            managed,
            hub,
            renewers,
            leadership,
            pods: Store::new(1),
        })
    }

    /// Returns whether Leases may be renewed now: the pod is ready and this replica is the leader.
    pub(crate) fn may_renew(&self) -> bool {
        self.pod().is_ok() && self.leadership.leads()
    }

    pub(crate) fn pod(&self) -> PodReadiness {
        match &self.settings.pod {
            Some((_, name)) => pod::of_store(&self.pods, name),
            None => Ok(()),
        }
    }
}
