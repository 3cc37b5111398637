//! What the endpoint says: liveness, readiness and metrics.

use std::sync::Arc;

use shared::{
    endpoint::{Report, stuck},
    metrics::{Metrics, timestamp},
};

use crate::dumper::Dumper;

/// The report of this process.
pub(crate) struct Status(pub(crate) Arc<Dumper>);

impl Report for Status {
    fn healthy(&self) -> Result<(), String> {
        match stuck(self.0.progress().beat) {
            true => Err(format!("the loop for {} is stuck", self.0)),
            false => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        let reason = self.0.progress().reason.clone();
        match reason {
            Some(reason) => Err(format!("the files are not those of {}: {reason}", self.0)),
            None => Ok(()),
        }
    }

    fn metrics(&self) -> String {
        let progress = self.0.progress().clone();
        let mut metrics = Metrics::default();
        metrics.process(env!("CARGO_PKG_NAME"), self.0.started);
        let succeeded = progress.succeeded.map_or(0.0, timestamp);
        metrics.gauge("sidecar_last_success_timestamp_seconds", &[], succeeded);
        metrics.gauge("sidecar_consecutive_failures", &[], progress.failures);
        let (good, bad) = progress.reads;
        metrics.counter("certwatcher_read_certificate_total", &[], good + bad);
        metrics.counter("certwatcher_read_certificate_errors_total", &[], bad);
        if let Some(expires) = progress.expires {
            metrics.gauge("certificate_expiration_timestamp_seconds", &[], timestamp(expires));
        }
        metrics.client("managed", &self.0.client);
        metrics.to_string()
    }
}
