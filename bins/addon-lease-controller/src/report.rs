//! What the endpoint says: liveness, readiness and metrics.

use std::{sync::Arc, time::Instant};

use shared::{
    diagnostics::{LONGEST_BEAT, Report, stuck},
    metrics::{
        CERTIFICATE_ERRORS, CERTIFICATE_EXPIRES, CERTIFICATE_READS, LEADER, Metrics, timestamp,
    },
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
        let stuck = |heartbeat: &&Heartbeat| stuck(heartbeat.progress().beat, LONGEST_BEAT);
        match self.0.heartbeats.iter().find(stuck) {
            Some(heartbeat) => Err(format!("the loop for {heartbeat} is stuck")),
            None => Ok(()),
        }
    }

    fn remarks(&self) -> String {
        let Sidecar { pod_trouble, secret_trouble, .. } = &*self.0;
        let remarks = [pod_trouble, secret_trouble].into_iter().filter_map(|trouble| trouble.get());
        remarks.map(|remark| remark + "\n").collect()
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
        let unseen =
            |trouble: Option<String>| trouble.map_or(String::new(), |why| format!("; {why}"));
        let reason = match (self.0.world.gate(), heartbeat.client()) {
            (Gate::Closed(reason), _) => {
                format!("the pod: {reason}{}", unseen(self.0.pod_trouble.get()))
            }
            _ if standing.is_some_and(|standing| !standing.leads(now)) => {
                "no replica is known to lead".to_owned()
            }
            (Gate::Open, None) => {
                format!("there are no credentials{}", unseen(self.0.secret_trouble.get()))
            }
            (Gate::Open, Some(_)) => format!("{} failures in a row", heartbeat.progress().failures),
        };
        Err(format!("{heartbeat} is not renewed: {reason}"))
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        metrics.add_process(env!("CARGO_PKG_NAME"), self.0.started);
        if let Some(standing) = self.0.world.standing() {
            let leads = u8::from(standing.leads(Instant::now()));
            metrics.add(LEADER, &[("name", &self.0.settings.election_name())], leads);
        }
        for heartbeat in &self.0.heartbeats {
            add(&mut metrics, heartbeat);
        }
        if let Some(heartbeat) = self.0.hub() {
            match heartbeat.client() {
                Some(client) => metrics.add_client(Cluster::Hub.label(), &client),
                None => metrics.add_requests(Cluster::Hub.label(), &heartbeat.requests),
            }
        }
        if let Some(client) = &self.0.managed {
            metrics.add_client(Cluster::Managed.label(), client);
        }
        if let Some(client) = &self.0.elector {
            metrics.add_client("election", client);
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
    metrics.add(CERTIFICATE_READS, &labels, good + bad);
    metrics.add(CERTIFICATE_ERRORS, &labels, bad);
    if let Some(expires) = client.and_then(|client| client.certificate_expiry()) {
        metrics.add(CERTIFICATE_EXPIRES, &labels, timestamp(expires));
    }
}
