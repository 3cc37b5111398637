//! What the endpoint says: liveness, readiness and metrics.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use shared::{
    endpoint::Report,
    metrics::{Metrics, timestamp},
};

use crate::{gate::Gate, heartbeat::Heartbeat, sidecar::Sidecar};

/// A loop comes by every 15 s; a request with its retries and look-ups may take a minute.
const LONGEST_BEAT: Duration = Duration::from_secs(120);
/// `/readyz` allows this many periods without a renewal.
const PERIODS: u32 = 3;

/// The report of this process.
pub(crate) struct Status(pub(crate) Arc<Sidecar>);

impl Report for Status {
    fn healthy(&self) -> Result<(), String> {
        let stuck = |heartbeat: &&Heartbeat| {
            heartbeat.progress().beat.is_some_and(|beat| beat.elapsed() > LONGEST_BEAT)
        };
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
            let lease = self.0.heartbeats.first().map_or("", |heartbeat| &heartbeat.name);
            metrics.gauge("leader_election_master_status", &[("name", lease)], leads);
        }
        for heartbeat in &self.0.heartbeats {
            add(&mut metrics, heartbeat);
        }
        let hub = self.0.hub().and_then(Heartbeat::client);
        for client in hub.iter().chain(&self.0.managed) {
            metrics.client(client);
        }
        metrics.to_string()
    }
}

fn add(metrics: &mut Metrics, heartbeat: &Heartbeat) {
    let progress = heartbeat.progress();
    let labels = [("target", heartbeat.target.label())];
    let renewed = progress.renewed.map_or(0.0, |renewed| timestamp(renewed.wall));
    metrics.gauge("sidecar_last_success_timestamp_seconds", &labels, renewed);
    metrics.gauge("sidecar_consecutive_failures", &labels, progress.failures);
    metrics.gauge("lease_renew_interval_seconds", &labels, progress.interval.as_secs_f64());
    for (result, count) in [("success", progress.successes), ("error", progress.errors)] {
        metrics.counter("lease_renew_total", &[labels[0], ("result", result)], count);
    }
    let (good, bad) = heartbeat.reads();
    metrics.counter("certwatcher_read_certificate_total", &labels, good + bad);
    metrics.counter("certwatcher_read_certificate_errors_total", &labels, bad);
    if let Some(expires) = heartbeat.client().and_then(|client| client.certificate_expiry()) {
        metrics.gauge("certificate_expiration_timestamp_seconds", &labels, timestamp(expires));
    }
}
