//! Shared state of all threads: settings, clients, Leases, pod and leadership.

use std::{
    mem,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use apiclient::{
    client::Client, election, error::Result, lock::lock, reflector::Store, stop::Stop,
};
use sidecar::{flags::Flags, leadership::Leadership};

use crate::{
    credentials::HubClient,
    lease::{LeaseCluster, LeaseRenewer},
    pod::PodReadiness,
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
    pod: Mutex<PodReadiness>,
    pub(crate) pod_store: Store<PodReadiness>,
}

impl App {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// `BadConfig` when the kubeconfig of the managed cluster cannot be used.
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let timeout = settings.request_timeout();
        let managed = match settings.needs_managed_cluster() {
            true => Some(sidecar::client::own_cluster(flags, timeout)?),
            false => None,
        };
        let leadership = match settings.election {
            Some(_) => Leadership::of_candidate(election::TIMING, flags, stop)?,
            None => Leadership::without_election(stop),
        };
        let pod = match settings.pod {
            Some(_) => PodReadiness::NotReady("it has not been seen yet".into()),
            None => PodReadiness::Ready,
        };
        let hub = settings.hub.as_ref().map(|hub| {
            HubClient::new(&hub.credentials, managed.as_ref(), timeout, settings.period)
        });
        let hub = hub.transpose()?.map(Arc::new);
        Ok(Self {
            settings: settings.clone(),
            stop: stop.clone(),
            started: SystemTime::now(),
            renewers: renewers(settings, hub.as_ref(), managed.as_ref()),
            managed,
            hub,
            leadership,
            pod: Mutex::new(pod),
            pod_store: Store::new(1),
        })
    }

    /// Returns whether Leases may be renewed now: the pod is ready and this replica is the leader.
    pub(crate) fn may_renew(&self) -> bool {
        *lock(&self.pod) == PodReadiness::Ready && self.leadership.leads()
    }

    pub(crate) fn pod(&self) -> PodReadiness {
        lock(&self.pod).clone()
    }

    /// Sets the readiness of the pod; returns whether it has changed.
    pub(crate) fn set_pod(&self, pod: PodReadiness) -> bool {
        let before = mem::replace(&mut *lock(&self.pod), pod.clone());
        let changed = before != pod;
        if changed {
            self.stop.wake();
        }
        changed
    }
}

fn renewers(
    settings: &Settings,
    hub: Option<&Arc<HubClient>>,
    managed: Option<&Client>,
) -> Vec<LeaseRenewer> {
    let renewer = |cluster, namespace: &str| {
        LeaseRenewer::new(cluster, (namespace, &settings.lease_name), settings.period)
    };
    let on_hub = settings.hub.as_ref().zip(hub);
    let on_hub =
        on_hub.map(|(hub, client)| renewer(LeaseCluster::Hub(client.clone()), &hub.namespace));
    let on_managed = settings.managed.as_ref().zip(managed);
    let on_managed = on_managed
        .map(|(namespace, client)| renewer(LeaseCluster::Managed(client.clone()), namespace));
    on_hub.into_iter().chain(on_managed).collect()
}
