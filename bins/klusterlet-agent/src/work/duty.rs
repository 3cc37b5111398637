//! The work duty: what its threads share, and their start.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, Reload, RequestMetrics, Timeouts},
    error::Result,
    lock::lock,
    reflector::Store,
    stop::Stop,
    watch::Selection,
};
use csr_bootstrapper::digest::sha256;
use sidecar::{
    client::{cluster_of_file, own_cluster},
    flags::Flags,
    runtime,
};

use super::{
    apply::MAX_OBJECT,
    clients::Clients,
    controller::WorkController,
    merge::FIELD_MANAGER,
    objects::{APPLIED_MANIFEST_WORKS, AppliedManifestWork, MANIFEST_WORKS, ManifestWork},
    reconcile::WorkAgent,
    watches::Watches,
};
use crate::settings::WorkSettings;

/// The most works of a cluster.
const MAX_WORKS: usize = 10_000;
/// Memory for all works and for all records, in bytes: a list holds both twice, and the pod has 32 MiB.
const MAX_WORKS_LENGTH: usize = 8 << 20;
const MAX_RECORDS_LENGTH: usize = 2 << 20;
/// Works or records in a page of a list.
const PAGE: u32 = 50;
/// How often to retry a kubeconfig that is missing at the start.
const KUBECONFIG_INTERVAL: Duration = Duration::from_secs(5);
/// Memory limit for an object of the hub, in bytes: a work holds 500 KiB of manifests, by the hub's webhook.
const MAX_WORK: usize = 8 << 20;

/// The work duty. A lock is never held across I/O.
pub(crate) struct WorkDuty {
    pub(crate) settings: WorkSettings,
    /// Ends the process.
    pub(crate) process: Stop,
    /// Raised with it. A change of a work wakes the loops of this duty alone.
    pub(crate) stop: Stop,
    pub(crate) managed: Client,
    pub(crate) works: Store<Arc<ManifestWork>>,
    pub(crate) records: Store<Arc<AppliedManifestWork>>,
    pub(crate) watches: Watches,
    status: Mutex<WorkStatus>,
}

/// What the endpoint reports besides the works themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkStatus {
    pub(crate) beat: Option<Instant>,
    /// Why the hub has no client.
    pub(crate) no_hub: Option<String>,
    /// Objects put right.
    pub(crate) drift: u64,
    pub(crate) evicted: u64,
    /// Records whose work is absent.
    pub(crate) absent: usize,
    /// Why they are not evicted now.
    pub(crate) refusal: Option<String>,
}

impl WorkDuty {
    /// Puts the parts together; nothing runs yet.
    pub(crate) fn new(settings: &WorkSettings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let managed = match settings.spoke_kubeconfig.clone() {
            None => own_cluster(flags, Timeouts::REQUEST)?,
            Some(file) => cluster_of_file("the managed cluster", file)?,
        };
        Ok(Self {
            settings: settings.clone(),
            process: stop.clone(),
            stop: stop.child(),
            managed: managed.managing_as(FIELD_MANAGER).limited_to(MAX_OBJECT),
            works: Store::new(MAX_WORKS).weighing_at_most(MAX_WORKS_LENGTH, |work| work.length),
            records: Store::new(MAX_WORKS)
                .weighing_at_most(MAX_RECORDS_LENGTH, |record| record.length()),
            watches: Watches::default(),
            status: Mutex::default(),
        })
    }

    pub(crate) fn status(&self) -> WorkStatus {
        lock(&self.status).clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut WorkStatus)) {
        change(&mut lock(&self.status));
    }

    /// Applies the cluster's works until the end of the process; `requests` counts those to the hub.
    pub(crate) fn run_for(
        self: Arc<Self>,
        cluster: &str,
        agent_id: Option<&str>,
        requests: &RequestMetrics,
    ) {
        let connect = || self.connect(cluster, agent_id, requests);
        let Some((hub, agent)) = self.wait_for_hub(connect) else { return };
        match self.follow(&hub, cluster) {
            Ok(()) => WorkController::new(agent, Clients::new(hub, &self), self).run(),
            Err(error) => {
                log::error!(error:% = error; "the works cannot be followed");
                self.process.raise();
            }
        }
    }

    /// The client for the hub and the agent's names, once there is a kubeconfig; `None` at the end of the process.
    fn wait_for_hub(
        &self,
        connect: impl Fn() -> Result<(Client, WorkAgent)>,
    ) -> Option<(Client, WorkAgent)> {
        loop {
            self.change(|status| status.beat = Some(Instant::now()));
            let error = match connect() {
                Ok((client, agent)) => {
                    self.change(|status| status.no_hub = None);
                    return Some((client.limited_to(MAX_WORK), agent));
                }
                Err(error) => error.to_string(),
            };
            if self.status().no_hub.as_ref() != Some(&error) {
                log::warn!(error = error; "waiting for the hub's kubeconfig");
            }
            self.change(|status| status.no_hub = Some(error));
            if self.stop.wait(KUBECONFIG_INTERVAL) {
                return None;
            }
        }
    }

    /// Starts the reflectors of works and of records.
    fn follow(self: &Arc<Self>, hub: &Client, cluster: &str) -> Result<()> {
        let (hub, cluster) = (hub.clone(), cluster.to_owned());
        runtime::spawn_with("works", self, move |duty| {
            let target = MANIFEST_WORKS.collection(&cluster);
            let selection =
                Selection { list_after_loss: true, page: PAGE, ..Selection::all(target) };
            let parse = &mut |work: ManifestWork| Some(Arc::new(work.kept()));
            let stop = &duty.stop;
            duty.works.run(&hub, &selection, stop, parse, &mut || stop.wake());
        })?;
        runtime::spawn_with("records", self, |duty| {
            let target = APPLIED_MANIFEST_WORKS.everywhere();
            let selection = Selection { page: PAGE, ..Selection::all(target) };
            let parse = &mut |record: AppliedManifestWork| Some(Arc::new(record.kept()));
            let stop = &duty.stop;
            duty.records.run(&duty.managed, &selection, stop, parse, &mut || stop.wake());
        })
    }

    fn connect(
        &self,
        cluster: &str,
        agent_id: Option<&str>,
        requests: &RequestMetrics,
    ) -> Result<(Client, WorkAgent)> {
        let file = self.settings.hub_kubeconfig.clone();
        let (current, config) = kubeconfig::cluster_from_file(&file)?;
        // Hashes the URL as written: a trailing slash counts (ocm `helpers.go:339-343`).
        let hub_hash = sha256(current.cluster.server.as_bytes());
        let agent_id = agent_id.unwrap_or(&hub_hash).to_owned();
        let reload = Reload::FromFiles(Box::new(move || Ok(kubeconfig::from_file(&file)?)));
        let (timeouts, requests) = (Timeouts::default(), requests.clone());
        let client = Client::counting("the hub", config, reload, timeouts, requests)?;
        let (cluster, raw_limit) = (cluster.to_owned(), self.settings.raw_limit);
        Ok((client, WorkAgent { cluster, hub_hash, agent_id, raw_limit }))
    }
}
