//! The work duty: applies the hub's ManifestWorks to this cluster.

mod applied_manifest_work;
mod apply;
mod apply_order;
mod bring;
mod clients;
mod condition_rules;
pub(crate) mod conditions;
mod controller;
pub(crate) mod duty;
pub(crate) mod eviction;
mod executor;
pub(crate) mod feedback;
mod go_format;
mod hub_identity;
mod io;
pub(crate) mod jsonpath;
mod manifest;
mod merge;
pub(crate) mod objects;
mod ownership;
mod prepared;
mod prune;
mod reconcile;
mod record;
mod records;
mod report;
mod server_side_apply;
mod watches;

#[cfg(test)]
mod model;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, Reload, RequestMetrics, Timeouts},
    error::Result,
    watch::Selection,
};
use csr_bootstrapper::sha256;
use sidecar::runtime;

use self::{
    applied_manifest_work::{APPLIED_MANIFEST_WORKS, AppliedManifestWork},
    clients::Clients,
    controller::WorkController,
    duty::WorkDuty,
    objects::{MANIFEST_WORKS, ManifestWork},
    record::WorkAgent,
};

/// The page size of lists of works and records.
const PAGE: u32 = 50;
/// The interval of retries while the hub's kubeconfig is missing or invalid at the start.
const KUBECONFIG_INTERVAL: Duration = Duration::from_secs(5);
/// Memory limit for an object of the hub, in bytes. The hub's webhook limits a work's manifests to 500 KiB.
const MAX_WORK: usize = 8 << 20;

/// Applies the cluster's works until the end of the process; `requests` counts the requests to the hub.
pub(crate) fn run(
    duty: Arc<WorkDuty>,
    cluster: &str,
    agent_id: Option<&str>,
    requests: &RequestMetrics,
) {
    let connect = || connect(&duty, cluster, agent_id, requests);
    let Some((hub, agent)) = wait_for_hub(&duty, connect) else { return };
    match follow(&duty, &hub, cluster) {
        Ok(()) => WorkController::new(agent, Clients::new(hub, &duty), duty).run(),
        Err(error) => {
            log::error!(error:% = error; "the works cannot be followed");
            duty.process.raise();
        }
    }
}

/// Waits for a valid kubeconfig. Returns the hub's client and the agent's names, or `None` at the end of the process.
fn wait_for_hub(
    duty: &WorkDuty,
    connect: impl Fn() -> Result<(Client, WorkAgent)>,
) -> Option<(Client, WorkAgent)> {
    loop {
        duty.change(|status| status.beat = Some(Instant::now()));
        let error = match connect() {
            Ok((client, agent)) => {
                duty.change(|status| status.no_hub = None);
                return Some((client.limited_to(MAX_WORK), agent));
            }
            Err(error) => error.to_string(),
        };
        if duty.status().no_hub.as_ref() != Some(&error) {
            log::warn!(error = error; "waiting for the hub's kubeconfig");
        }
        duty.change(|status| status.no_hub = Some(error));
        if duty.stop.wait(KUBECONFIG_INTERVAL) {
            return None;
        }
    }
}

/// Starts the reflectors of works and of records.
fn follow(duty: &Arc<WorkDuty>, hub: &Client, cluster: &str) -> Result<()> {
    let (hub, cluster) = (hub.clone(), cluster.to_owned());
    runtime::spawn_with("works", duty, move |duty| {
        let target = MANIFEST_WORKS.collection(&cluster);
        let selection = Selection { list_after_loss: true, page: PAGE, ..Selection::all(target) };
        let parse = &mut |work: ManifestWork| Some(Arc::new(work.kept()));
        let stop = &duty.stop;
        duty.works.run(&hub, &selection, stop, parse, &mut || stop.wake());
    })?;
    runtime::spawn_with("records", duty, |duty| {
        let target = APPLIED_MANIFEST_WORKS.everywhere();
        let selection = Selection { page: PAGE, ..Selection::all(target) };
        let parse = &mut |record: AppliedManifestWork| Some(Arc::new(record.kept()));
        let stop = &duty.stop;
        duty.records.run(&duty.managed, &selection, stop, parse, &mut || stop.wake());
    })
}

fn connect(
    duty: &WorkDuty,
    cluster: &str,
    agent_id: Option<&str>,
    requests: &RequestMetrics,
) -> Result<(Client, WorkAgent)> {
    let file = duty.settings.hub_kubeconfig.clone();
    let (hub, config) = kubeconfig::hub_from_file(&file)?;
    // Hashes the URL as written, with any trailing slash (ocm `helpers.go:339-343`).
    let hub_hash = sha256(hub.server.as_bytes());
    let agent_id = agent_id.unwrap_or(&hub_hash).to_owned();
    let reload = Reload::FromFiles(Box::new(move || Ok(kubeconfig::from_file(&file)?)));
    let (timeouts, requests) = (Timeouts::default(), requests.clone());
    let client = Client::counting("the hub", config, reload, timeouts, requests)?;
    let (cluster, raw_limit) = (cluster.to_owned(), duty.settings.raw_limit);
    Ok((client, WorkAgent { cluster, hub_hash, agent_id, raw_limit }))
}
