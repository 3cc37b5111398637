//! Report for the diagnostics endpoint: liveness, readiness and metrics.

use std::time::Instant;

use sidecar::{
    diagnostics::{LOOP_TIMEOUT, Report, stuck},
    metrics::{CERTIFICATE_ERRORS, CERTIFICATE_EXPIRES, CERTIFICATE_READS, Metrics, timestamp},
};

use crate::{
    lease::{LeaseCluster, LeaseRenewer},
    run::Reporter,
};

/// How many periods without a renewal `/readyz` tolerates.
const PERIODS: u32 = 3;

impl Report for Reporter {
    fn healthy(&self) -> Result<(), String> {
        let stuck = |renewer: &&LeaseRenewer| stuck(renewer.status().beat, LOOP_TIMEOUT);
        match self.0.renewers.iter().find(stuck) {
            Some(renewer) => Err(format!("the loop for {renewer} is stuck")),
            None => Ok(()),
        }
    }

    fn remarks(&self) -> String {
        let secret = self.0.hub.as_ref().and_then(|hub| hub.secret.last_error());
        let failing =
            |renewer: &LeaseRenewer| Some(format!("{renewer}: {}", renewer.status().failing()?));
        // Otherwise, it is the reason of the 503.
        let failing = self.0.renewers.iter().filter(|_| self.ready().is_ok()).filter_map(failing);
        let errors = [self.0.pods.last_error(), secret].into_iter().flatten();
        errors.chain(failing).map(|error| error + "\n").collect()
    }

    fn ready(&self) -> Result<(), String> {
        // A standby replica is ready.
        if self.0.leadership.follows() {
            return Ok(());
        }
        let now = Instant::now();
        let late = |renewer: &&LeaseRenewer| {
            let renewed = renewer.status().renewed;
            renewed.is_none_or(|renewed| now - renewed.instant > renewer.period * PERIODS)
        };
        match self.0.renewers.iter().find(late) {
            Some(renewer) => {
                Err(format!("{renewer} is not renewed: {}", self.why_not_renewed(renewer)))
            }
            None => Ok(()),
        }
    }

    fn metrics(&self) -> String {
        let app = &*self.0;
        let mut metrics = Metrics::default();
        metrics.add_process(env!("CARGO_PKG_NAME"), app.started);
        app.leadership.add_to(&mut metrics);
        for renewer in &app.renewers {
            add_lease(&mut metrics, renewer);
        }
        if let Some(hub) = &app.hub {
            let LeaseCluster { label, requests, .. } = &*hub.cluster;
            match hub.cluster.client() {
                Some(client) => metrics.add_client(label, &client),
                None => metrics.add_requests(label, requests),
            }
        }
        if let Some(client) = &app.managed {
            metrics.add_client("managed", client);
        }
        if let Some(client) = app.leadership.client() {
            metrics.add_client("election", client);
        }
        metrics.to_string()
    }
}

impl Reporter {
    fn why_not_renewed(&self, renewer: &LeaseRenewer) -> String {
        match (self.0.pod(), renewer.cluster.client()) {
            (Err(reason), _) => format!("the pod: {reason}"),
            _ if !self.0.leadership.leads() => "no replica is known to be the leader".to_owned(),
            (_, None) => "there are no credentials".to_owned(),
            (_, Some(_)) => {
                renewer.status().failing().unwrap_or_else(|| "no answer yet".to_owned())
            }
        }
    }
}

fn add_lease(metrics: &mut Metrics, renewer: &LeaseRenewer) {
    let labels = [("target", renewer.cluster.label)];
    renewer.status().add_to(metrics, &labels);
    let (good, bad) = renewer.cluster.requests.reloads();
    metrics.add(CERTIFICATE_READS, &labels, good + bad);
    metrics.add(CERTIFICATE_ERRORS, &labels, bad);
    let client = renewer.cluster.client();
    if let Some(expires) = client.and_then(|client| client.certificate_expiry()) {
        metrics.add(CERTIFICATE_EXPIRES, &labels, timestamp(expires));
    }
}
