//! What the endpoint says: liveness, readiness and metrics.

use std::{sync::Arc, time::Instant};

use shared::{
    endpoint::{Report, stuck},
    metrics::{Metrics, timestamp},
};

use crate::{
    gate::Gate,
    heartbeat::{Cluster, Heartbeat},
    sidecar::Sidecar,
};

/// `/readyz` allows this many periods without a renewal.
const PERIODS: u32 = 3;

/// The report of this process.
pub(crate) struct Status(pub(crate) Arc<Sidecar>);

impl Report for Status {
    fn healthy(&self) -> Result<(), String> {
        let stuck = |heartbeat: &&Heartbeat| stuck(heartbeat.progress().beat);
        match self.0.heartbeats.iter().find(stuck) {
            Some(heartbeat) => Err(format!("the loop for {heartbeat} is stuck")),
            None => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        let now = Instant::now();
        let standing = self.0.world.standing();
        if standing.is_some_and(|standing| standing.stands_by && !standing.leads(now)) {
            return Ok(());
        }
        let late = |heartbeat: &&Heartbeat| {
            let renewed = heartbeat.progress().renewed;
            renewed.is_none_or(|renewed| now - renewed.instant > heartbeat.period * PERIODS)
        };
        let Some(heartbeat) = self.0.heartbeats.iter().find(late) else { return Ok(()) };
        let reason = match (self.0.world.gate(), heartbeat.client()) {
            (Gate::Closed(reason), _) => format!("the pod: {reason}"),
            _ if standing.is_some_and(|standing| !standing.leads(now)) => {
                "no replica is known to lead".to_owned()
            }
            (Gate::Open, None) => "there are no credentials".to_owned(),
            (Gate::Open, Some(_)) => format!("{} failures in a row", heartbeat.progress().failures),
        };
        Err(format!("{heartbeat} is not renewed: {reason}"))
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        metrics.process(env!("CARGO_PKG_NAME"), self.0.started);
        if let Some(standing) = self.0.world.standing() {
            let leads = u8::from(standing.leads(Instant::now()));
            let name = self.0.settings.election_name();
            metrics.gauge("leader_election_master_status", &[("name", &name)], leads);
        }
        for heartbeat in &self.0.heartbeats {
            add(&mut metrics, heartbeat);
        }
        if let Some(client) = self.0.hub().and_then(Heartbeat::client) {
            metrics.client(Cluster::Hub.label(), &client);
        }
        if let Some(client) = &self.0.managed {
            metrics.client(Cluster::Managed.label(), client);
        }
        if let Some(client) = &self.0.elector {
            metrics.client("election", client);
        }
        metrics.to_string()
    }
}

fn add(metrics: &mut Metrics, heartbeat: &Heartbeat) {
    let labels = [("target", heartbeat.target.label())];
    heartbeat.progress().add_to(metrics, &labels);
    let client = heartbeat.client();
    let again = client.as_ref().map_or((0, 0), |client| client.reloads());
    let (good, bad) = (heartbeat.reads().0 + again.0, heartbeat.reads().1 + again.1);
    metrics.counter("certwatcher_read_certificate_total", &labels, good + bad);
    metrics.counter("certwatcher_read_certificate_errors_total", &labels, bad);
    if let Some(expires) = client.and_then(|client| client.certificate_expiry()) {
        metrics.gauge("certificate_expiration_timestamp_seconds", &labels, timestamp(expires));
    }
}
