//! Renews a Lease with a client, and keeps the status for the log and the endpoint.

use std::{
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

use log::Level;

use apiclient::{
    backoff::Retry,
    client::Client,
    error::{Error, Result},
    lease::{Now, Renewal},
    lock::lock,
    log_object,
    resource::Target,
    time::seconds_time,
};

use crate::metrics::{FAILURES, Family, LAST_SUCCESS, Metrics, timestamp};

/// The number of failures before a success, or the error and when to retry.
pub type RenewalResult = std::result::Result<u32, (Error, Retry)>;

/// Renews `lease` at `now`, and records the result in `status`. Calls `allowed` before each write: after a conflict,
/// the Lease may belong to another leader. The caller logs the result, see [`log_result`].
pub fn attempt(
    renewal: &mut Renewal,
    status: &Mutex<RenewalStatus>,
    client: &Client,
    lease: &Target<'_>,
    (now, allowed): (Now, &dyn Fn() -> bool),
) -> RenewalResult {
    let result = renewal.renew(now, &mut |wanted| match wanted {
        Some(_) if !allowed() => Err(Error::LeadLost("it is no longer allowed".into())),
        Some(wanted) => client.write_typed(lease, wanted),
        None => client.get_typed(lease),
    });
    lock(status).record(now, &result);
    result.map_err(|error| {
        let retry = renewal.failed(&error, Instant::now());
        (error, retry)
    })
}

#[derive(Clone, Debug, Default)]
pub struct RenewalStatus {
    /// The last turn of the loop, while it runs.
    pub beat: Option<Instant>,
    pub renewed: Option<Now>,
    /// Failures in a row.
    pub failures: u32,
    /// When the failures began, and the last error.
    failing: Option<(SystemTime, String)>,
    /// Between the last two renewals.
    interval: Option<Duration>,
    successes: u64,
    errors: u64,
}

impl RenewalStatus {
    fn record(&mut self, now: Now, result: &Result<u32>) {
        match result {
            Ok(_) => {
                self.successes += 1;
                self.failures = 0;
                self.failing = None;
                let before = self.renewed.replace(now);
                self.interval = before.map(|it| now.instant.saturating_duration_since(it.instant));
            }
            Err(error) => {
                self.errors += 1;
                self.failures += 1;
                let since = self.failing.as_ref().map_or_else(SystemTime::now, |(since, _)| *since);
                self.failing = Some((since, error.to_string()));
            }
        }
    }

    pub fn failing(&self) -> Option<String> {
        let (since, error) = self.failing.as_ref()?;
        Some(format!("{} failures since {}: {error}", self.failures, seconds_time(*since)))
    }

    pub fn add_to(&self, metrics: &mut Metrics, labels: &[(&str, &str)]) {
        if let Some(renewed) = self.renewed {
            metrics.add(LAST_SUCCESS, labels, timestamp(renewed.wall));
        }
        metrics.add(FAILURES, labels, self.failures);
        if let Some(interval) = self.interval {
            metrics.add(INTERVAL, labels, interval.as_secs_f64());
        }
        for (result, count) in [("success", self.successes), ("error", self.errors)] {
            metrics.add(RENEWALS, &[labels, &[("result", result)]].concat(), count);
        }
    }
}

const INTERVAL: Family =
    Family::gauge("sidecar_lease_renewal_interval_seconds", "Time between the last two renewals.");
const RENEWALS: Family =
    Family::counter("sidecar_lease_renewals_total", "Renewals of the Lease, by result.");

/// Logs one line per change, and each renewal at -v 2, about the Lease `target` on `server`.
pub fn log_result(server: &str, target: &Target<'_>, result: &RenewalResult) {
    match result {
        Err((error, retry)) => retry.log(server, target, error, "lease renewal failed"),
        Ok(0) => log_object!(Level::Debug, target, server = server; "lease renewed"),
        Ok(failures) => log_object!(
            Level::Info, target, server = server, failures = failures;
            "lease renewal recovered"
        ),
    }
}
