//! Report for the diagnostics endpoint: liveness, readiness and metrics.

use std::sync::Arc;

use sidecar::{
    diagnostics::{LOOP_TIMEOUT, Report, stuck},
    metrics::{
        CERTIFICATE_ERRORS, CERTIFICATE_EXPIRES, CERTIFICATE_READS, FAILURES, LAST_SUCCESS,
        Metrics, timestamp,
    },
};

use crate::dumper::Dumper;

pub(crate) struct Reporter(pub(crate) Arc<Dumper>);

impl Report for Reporter {
    fn healthy(&self) -> Result<(), String> {
        match stuck(self.0.status().beat, LOOP_TIMEOUT) {
            true => Err(format!("the loop for {} is stuck", self.0)),
            false => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        let reason = self.0.status().reason.clone();
        match reason {
            Some(reason) => Err(format!("the files do not match {}: {reason}", self.0)),
            None => Ok(()),
        }
    }

    fn remarks(&self) -> String {
        self.0.versions.last_error().map_or(String::new(), |error| error + "\n")
    }

    fn metrics(&self) -> String {
        let status = self.0.status().clone();
        let mut metrics = Metrics::default();
        metrics.add_process(env!("CARGO_PKG_NAME"), self.0.started);
        if let Some(succeeded) = status.succeeded {
            metrics.add(LAST_SUCCESS, &[], timestamp(succeeded));
        }
        metrics.add(FAILURES, &[], status.failures);
        let (good, bad) = status.reads;
        metrics.add(CERTIFICATE_READS, &[], good + bad);
        metrics.add(CERTIFICATE_ERRORS, &[], bad);
        if let Some(expires) = status.expires {
            metrics.add(CERTIFICATE_EXPIRES, &[], timestamp(expires));
        }
        metrics.add_client("managed", &self.0.client);
        metrics.to_string()
    }
}
