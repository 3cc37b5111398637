//! How the renewal of a Lease goes, for the endpoint and the log.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Now, Outcome, Renewal};
use crate::{
    error::Result,
    metrics::{Metrics, timestamp},
};

/// What the endpoint reports of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// When the loop last came by, while it runs.
    pub beat: Option<Instant>,
    /// The last success.
    pub renewed: Option<Now>,
    /// Failures in a row.
    pub failures: u32,
    /// Between the last two renewals.
    interval: Duration,
    successes: u64,
    errors: u64,
}

impl Progress {
    /// Takes note of a request and what it meant.
    pub fn note(&mut self, renewal: &Renewal, outcome: &Outcome) {
        self.failures = renewal.failures();
        match outcome {
            Outcome::Continue => {}
            Outcome::Failed(_) => self.errors += 1,
            Outcome::Renewed { .. } => {
                self.successes += 1;
                if let (Some(before), Some(now)) = (self.renewed, renewal.renewed()) {
                    self.interval = now.instant.saturating_duration_since(before.instant);
                }
                self.renewed = renewal.renewed();
            }
        }
    }

    /// Adds it to `metrics`, under `labels`.
    pub fn add_to(&self, metrics: &mut Metrics, labels: &[(&str, &str)]) {
        let renewed = self.renewed.map_or(0.0, |renewed| timestamp(renewed.wall));
        metrics.gauge("sidecar_last_success_timestamp_seconds", labels, renewed);
        metrics.gauge("sidecar_consecutive_failures", labels, self.failures);
        metrics.gauge("lease_renew_interval_seconds", labels, self.interval.as_secs_f64());
        for (result, count) in [("success", self.successes), ("error", self.errors)] {
            let labels = [labels, &[("result", result)]].concat();
            metrics.counter("lease_renew_total", &labels, count);
        }
    }
}

/// One line in the log per change, details at -v 2; `lease` is its name in a sentence.
pub fn tell(lease: &dyn Display, outcome: &Outcome, answer: &Result<Value>) {
    let reason = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
    match outcome {
        Outcome::Continue if answer.is_ok() => {}
        Outcome::Continue => log::debug!("{lease}: {reason}"),
        Outcome::Renewed { failures: 0 } => log::debug!("{lease} renewed"),
        Outcome::Renewed { failures } => {
            log::info!("{lease} is renewed again after {failures} failures");
        }
        Outcome::Failed(retry) if retry.tell => log::warn!("{lease} is not renewed: {reason}"),
        Outcome::Failed(retry) => {
            log::debug!("{lease} is not renewed: {reason}; again in {:?}", retry.wait);
        }
    }
}
