//! The running program: a thread per Lease, per watch and for the election, and what they share.

use std::{sync::Arc, time::SystemTime};

use apiclient::{
    client::Client, election::TIMING, error::Result, reflector::Store, resource::PODS, stop::Stop,
};
use sidecar::{
    client::own_cluster,
    diagnostics,
    flags::Flags,
    leadership::{self, Election, Leadership},
    runtime::{self, End},
};

use crate::{
    credentials::{HubClient, Source},
    lease::{LeaseCluster, LeaseRenewer},
    pod::{self, PodReadiness},
    settings::{HubCredentials, Settings},
};

/// The running program. A lock is never held across I/O.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    pub(crate) started: SystemTime,
    pub(crate) managed: Option<Client>,
    pub(crate) hub: Option<Arc<HubClient>>,
    pub(crate) renewers: Vec<LeaseRenewer>,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) pods: Store<PodReadiness>,
}

impl App {
    pub(crate) fn new(
        settings: &Settings,
        flags: &Flags,
        stop: &Stop,
        leadership: &Arc<Leadership>,
    ) -> Result<Self> {
        let own = || own_cluster(flags, settings.request_timeout());
        let managed = settings.needs_managed_cluster().then(own).transpose()?;
        let (mut hub, mut renewers) = (None, Vec::new());
        if let Some(target) = &settings.hub {
            let source = match &target.credentials {
                HubCredentials::File(path) => Source::File(path.clone()),
                HubCredentials::Secret { namespace, name } => {
                    let cluster = managed.clone().map_or_else(own, Ok)?;
                    Source::Secret(cluster, namespace.clone(), name.clone())
                }
            };
            let client = HubClient::new(source, settings);
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
            leadership: leadership.clone(),
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

/// The report of the program for its endpoint.
pub(crate) struct Reporter(pub(crate) Arc<App>);

pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let name = settings.election_name();
    let election = settings.election.as_ref().map(|namespace| Election {
        lease: (namespace, &name),
        timing: TIMING,
        delay: settings.startup_delay,
    });
    leadership::run(election, flags, stop, |leadership| {
        work(&Arc::new(App::new(settings, flags, stop, leadership)?), flags)
    })
}

/// Works after the startup delay, until the end of the process.
fn work(app: &Arc<App>, flags: &Flags) -> Result<()> {
    diagnostics::serve(flags, None, Reporter(app.clone()))?;
    if !app.stop.wait(app.settings.startup_delay) {
        start(app)?;
        app.stop.wait_until_raised();
    }
    Ok(())
}

fn start(app: &Arc<App>) -> Result<()> {
    let settings = &app.settings;
    for index in 0..app.renewers.len() {
        runtime::spawn_with("renew", app, move |app| {
            app.renewers[index].run(&app.stop, || app.may_renew())
        })?;
    }
    if let Some(hub) = &app.hub {
        let (hub, stop) = (hub.clone(), app.stop.clone());
        runtime::spawn("credentials", move || hub.run(&stop))?;
    }
    if settings.pod.is_some() {
        runtime::spawn_with("pod", app, follow_pod)?;
    }
    Ok(())
}

fn follow_pod(app: &App) {
    if let (Some((namespace, name)), Some(client)) = (&app.settings.pod, &app.managed) {
        let (target, own) = (PODS.object(namespace, name), app.settings.own_container.as_ref());
        pod::follow(client, &target, &app.pods, own, &app.stop);
    }
}
