//! What the endpoint says: liveness, readiness and metrics.

use std::{
    fmt::Write,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use shared::{client::Client, endpoint::Report};

use crate::{
    gate::Gate,
    world::{Target, World, started, timestamp},
};

/// A loop comes by every 15 s; a request with its retries and look-ups may take a minute.
const LONGEST_BEAT: Duration = Duration::from_secs(120);
/// `/readyz` allows this many periods without a renewal.
const PERIODS: u32 = 3;

/// The report of this process.
pub(crate) struct Status {
    pub(crate) world: Arc<World>,
    pub(crate) lease: String,
}

impl Report for Status {
    fn healthy(&self) -> Result<(), String> {
        let stuck = |target: &&Target| target.progress().beat.elapsed() > LONGEST_BEAT;
        match self.world.targets.iter().find(stuck) {
            Some(target) => Err(format!("the loop for {} is stuck", target.name)),
            None => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        let now = Instant::now();
        let standing = self.world.standing();
        if standing.is_some_and(|standing| standing.stands_by && !standing.leads(now)) {
            return Ok(());
        }
        let allowed = self.world.period * PERIODS;
        let late = |target: &&Target| {
            target.progress().renewed.is_none_or(|renewed| now - renewed.instant > allowed)
        };
        let Some(target) = self.world.targets.iter().find(late) else {
            return Ok(());
        };
        let reason = match (self.world.gate(), target.client()) {
            (Gate::Closed(reason), _) => format!("the pod: {reason}"),
            (Gate::Open, None) => "there are no credentials".to_owned(),
            (Gate::Open, Some(_)) => format!("{} failures in a row", target.progress().failures),
        };
        Err(format!(
            "Lease {}/{} ({}) is not renewed: {reason}",
            target.namespace, self.lease, target.name
        ))
    }

    fn metrics(&self) -> String {
        let mut text = Metrics::default();
        let version = env!("CARGO_PKG_VERSION");
        text.sample(
            "sidecar_build_info",
            "gauge",
            &[("name", env!("CARGO_PKG_NAME")), ("version", version)],
            1,
        );
        text.sample("process_start_time_seconds", "gauge", &[], timestamp(started()));
        text.sample("process_resident_memory_bytes", "gauge", &[], resident_bytes());
        if let Some(standing) = self.world.standing() {
            let leads = u8::from(standing.leads(Instant::now()));
            text.sample("leader_election_master_status", "gauge", &[("name", &self.lease)], leads);
        }
        self.leases(&mut text);
        self.requests(&mut text);
        text.0
    }
}

impl Status {
    fn leases(&self, text: &mut Metrics) {
        let targets = &self.world.targets;
        for target in targets {
            let progress = target.progress();
            let labels = [("target", target.name)];
            let renewed = progress.renewed.map_or(0.0, |renewed| timestamp(renewed.wall));
            text.sample("sidecar_last_success_timestamp_seconds", "gauge", &labels, renewed);
            text.sample("sidecar_consecutive_failures", "gauge", &labels, progress.failures);
            text.sample(
                "lease_renew_interval_seconds",
                "gauge",
                &labels,
                progress.interval.as_secs_f64(),
            );
            for (result, count) in
                [("success", progress.successes_total), ("error", progress.failures_total)]
            {
                text.sample(
                    "lease_renew_total",
                    "counter",
                    &[labels[0], ("result", result)],
                    count,
                );
            }
            let (good, bad) = target.reads();
            text.sample("certwatcher_read_certificate_total", "counter", &labels, good + bad);
            text.sample("certwatcher_read_certificate_errors_total", "counter", &labels, bad);
            let expires = target.client().and_then(|client| client.certificate_expiry());
            if let Some(expires) = expires {
                text.sample(
                    "certificate_expiration_timestamp_seconds",
                    "gauge",
                    &labels,
                    timestamp(expires),
                );
            }
        }
    }

    fn requests(&self, text: &mut Metrics) {
        let hub =
            self.world.targets.iter().find(|target| target.name == "hub").and_then(Target::client);
        let clients: Vec<Arc<Client>> = hub.into_iter().chain(self.world.managed.clone()).collect();
        for client in &clients {
            let host = client.host();
            text.sample("clock_skew_seconds", "gauge", &[("host", &host)], client.clock_skew());
            for (method, code, count) in client.answers() {
                let labels = [("code", &*code), ("host", &*host), ("method", &*method)];
                text.sample("rest_client_requests_total", "counter", &labels, count);
            }
        }
    }
}

/// Prometheus' text format; a family's samples may be added one by one.
#[derive(Default)]
struct Metrics(String);

impl Metrics {
    fn sample(
        &mut self,
        name: &str,
        kind: &str,
        labels: &[(&str, &str)],
        value: impl std::fmt::Display,
    ) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let header = format!("# TYPE {name} {kind}\n");
        let sample = format!("{name}{labels} {value}\n");
        // The format wants the samples of a family together.
        match self.0.find(&header) {
            None => {
                let _ = write!(self.0, "{header}{sample}");
            }
            Some(at) => {
                let rest = &self.0[at + header.len()..];
                let end = rest.find("# TYPE").unwrap_or(rest.len());
                self.0.insert_str(at + header.len() + end, &sample);
            }
        }
    }
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
