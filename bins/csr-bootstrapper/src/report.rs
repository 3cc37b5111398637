//! What the endpoint says: liveness, readiness and metrics.

use std::sync::Arc;

use shared::{
    endpoint::{Report, stuck},
    metrics::{Metrics, timestamp},
};

use crate::{agent::Agent, heartbeat::Heartbeat, readiness::ready};

/// The report of this process.
pub(crate) struct Reporter {
    pub(crate) agent: Arc<Agent>,
    pub(crate) heartbeat: Arc<Heartbeat>,
}

impl Report for Reporter {
    fn healthy(&self) -> Result<(), String> {
        let credential = self.agent.progress().beat;
        let loops = [("credential", credential), ("heartbeat", self.heartbeat.progress().beat)];
        match loops.iter().find(|(_, beat)| stuck(*beat)) {
            Some((name, _)) => Err(format!("the loop for the {name} is stuck")),
            None => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        // One that waits for its turn is as ready as it can be.
        let stands_by = self.agent.progress().stands_by && !self.agent.progress().leads();
        if stands_by { Ok(()) } else { ready(&self.agent) }
    }

    fn metrics(&self) -> String {
        let agent = &self.agent;
        let mut metrics = Metrics::default();
        metrics.process(env!("CARGO_PKG_NAME"), agent.started);
        let progress = agent.progress().clone();
        if let Some(leads) = progress.leads {
            metrics.gauge("leader_election_master_status", &[], u8::from(leads));
        }
        metrics.counter("csr_posted_total", &[], progress.posted);
        for (how, count) in &progress.ended {
            metrics.counter("csr_ended_total", &[("how", how)], count);
        }
        let saved = progress.saved.map_or(0.0, timestamp);
        metrics.gauge("certificate_saved_timestamp_seconds", &[], saved);
        if let Some(session) = agent.session() {
            if let Some(expires) = session.client.certificate_expiry() {
                metrics.gauge("certificate_expiration_timestamp_seconds", &[], timestamp(expires));
            }
            metrics.client("hub", &session.client);
        }
        if let Some(client) = agent.asking() {
            metrics.client("bootstrap", &client);
        }
        self.heartbeat.progress().add_to(&mut metrics, &[]);
        metrics.client("management", &agent.management);
        if !Arc::ptr_eq(&agent.management, &agent.spoke) {
            metrics.client("spoke", &agent.spoke);
        }
        metrics.to_string()
    }
}
