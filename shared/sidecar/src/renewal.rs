//! Renewal of a Lease by a client, with its status for the log and the endpoint.

use std::{
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

use log::Level;

use apiclient::{
    api::Lease,
    client::Client,
    error::Result,
    lock::lock,
    log_object,
    renewal::{Action, Now, Renewal, RenewalOutcome},
    resource::Target,
    time::seconds_time,
};

use crate::metrics::{FAILURES, Family, LAST_SUCCESS, Metrics, timestamp};

/// Sends the request for `lease` that `action` needs at `now`, and records the answer in `renewal` and
/// `status`: in the steady state the one PUT that renews the Lease. The caller logs the outcome, see
/// [`log_outcome`].
pub fn attempt(
    renewal: &mut Renewal,
    status: &Mutex<RenewalStatus>,
    client: &Client,
    lease: &Target<'_>,
    (action, now): (&Action, Now),
) -> (RenewalOutcome, Result<Lease>) {
    let answer = match action {
        Action::Write(wanted) => client.write_typed(lease, &**wanted),
        Action::Read | Action::Wait(_) => client.get_typed(lease),
    };
    let outcome = renewal.answered(action, &answer, (now, Instant::now()), fastrand::f64());
    lock(status).record(renewal, &outcome, &answer);
    (outcome, answer)
}

#[derive(Clone, Debug, Default)]
pub struct RenewalStatus {
    /// The last turn of the loop, while it runs.
    pub beat: Option<Instant>,
    pub renewed: Option<Now>,
    /// Failures in a row.
    pub failures: u32,
    /// Since when they are in a row, and the last one.
    failing: Option<(SystemTime, String)>,
    /// Between the last two renewals.
    interval: Option<Duration>,
    successes: u64,
    errors: u64,
}

impl RenewalStatus {
    fn record<T>(&mut self, renewal: &Renewal, outcome: &RenewalOutcome, answer: &Result<T>) {
        self.failures = renewal.failures();
        match outcome {
            RenewalOutcome::Continue => {}
            RenewalOutcome::Failed(_) => {
                self.errors += 1;
                let error = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
                self.failing.get_or_insert_with(|| (SystemTime::now(), String::new())).1 = error;
            }
            RenewalOutcome::Renewed { .. } => {
                self.successes += 1;
                self.failing = None;
                if let (Some(before), Some(now)) = (self.renewed, renewal.renewed()) {
                    let interval = now.instant.saturating_duration_since(before.instant);
                    self.interval = Some(interval);
                }
                self.renewed = renewal.renewed();
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

/// Logs one line per change, with details at -v 2, about the Lease `target` on `server`.
pub fn log_outcome<T>(
    server: &str,
    target: &Target<'_>,
    outcome: &RenewalOutcome,
    answer: &Result<T>,
) {
    match (outcome, answer) {
        (RenewalOutcome::Failed(retry), Err(error)) => {
            retry.log(server, target, error, "lease renewal failed");
        }
        (RenewalOutcome::Continue, Err(error)) => log_object!(
            Level::Debug, target, server = server, error:% = error;
            "retrying: the Lease must be read first"
        ),
        (RenewalOutcome::Renewed { failures: 0 }, _) => {
            log_object!(Level::Debug, target, server = server; "lease renewed");
        }
        (RenewalOutcome::Renewed { failures }, _) => log_object!(
            Level::Info, target, server = server, failures = failures;
            "lease renewal recovered"
        ),
        (RenewalOutcome::Continue | RenewalOutcome::Failed(_), Ok(_)) => {}
    }
}
