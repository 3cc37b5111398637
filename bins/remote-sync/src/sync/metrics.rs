//! Metrics of reconciling, by remote.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use apiclient::{histogram::Histogram, lock::lock};
use sidecar::metrics::{Family, Metrics};

const WRITES: Family = Family::counter(
    "remote_sync_writes_total",
    "Writes to either side, by operation, including failed ones.",
);
const FAILURES: Family =
    Family::counter("remote_sync_failures_total", "Failed passes over a pair, by reason.");
const REGRESSIONS: Family = Family::counter(
    "remote_sync_generation_regressed_total",
    "Sources that were older than what had been copied of them, as after a restore.",
);
const SPEC_LAG: Family = Family::histogram(
    "remote_sync_spec_lag_seconds",
    "Time from a source's event to the write that records its copied spec.",
);
const STATUS_LAG: Family = Family::histogram(
    "remote_sync_status_lag_seconds",
    "Time from a target's event to the write of its status to the source.",
);
/// Buckets in seconds: from an attempt within a data centre to one that waited in the queue.
const LAGS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Counts of each remote, and lags.
#[derive(Debug)]
pub(crate) struct SyncMetrics(Mutex<Numbers>);

#[derive(Debug)]
struct Numbers {
    /// By remote, family, and the label beside the remote.
    counts: BTreeMap<(String, Family, Option<Label>), u64>,
    /// From an event to the last write that it caused.
    spec_lag: Histogram,
    status_lag: Histogram,
}

type Label = (&'static str, &'static str);

impl Default for SyncMetrics {
    fn default() -> Self {
        let lag = || Histogram::new(&LAGS);
        Self(Mutex::new(Numbers { counts: BTreeMap::new(), spec_lag: lag(), status_lag: lag() }))
    }
}

impl SyncMetrics {
    pub(crate) fn wrote(&self, remote: &str, operation: &'static str) {
        self.count(remote, WRITES, Some(("operation", operation)));
    }

    pub(crate) fn failed(&self, remote: &str, reason: &'static str) {
        self.count(remote, FAILURES, Some(("reason", reason)));
    }

    /// A source was older than its copy.
    pub(crate) fn regressed(&self, remote: &str) {
        self.count(remote, REGRESSIONS, None);
    }

    fn count(&self, remote: &str, family: Family, label: Option<Label>) {
        *lock(&self.0).counts.entry((remote.to_owned(), family, label)).or_default() += 1;
    }

    pub(crate) fn spec_lag(&self, lag: Duration) {
        lock(&self.0).spec_lag.add(lag.as_secs_f64());
    }

    pub(crate) fn status_lag(&self, lag: Duration) {
        lock(&self.0).status_lag.add(lag.as_secs_f64());
    }

    /// Removes the series of a remote.
    pub(crate) fn forget(&self, remote: &str) {
        lock(&self.0).counts.retain(|(name, ..), _| name != remote);
    }

    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let numbers = lock(&self.0);
        for ((remote, family, label), count) in &numbers.counts {
            let labels: Vec<_> = [("remote", &**remote)].into_iter().chain(*label).collect();
            metrics.add(*family, &labels, count);
        }
        metrics.add_histogram(SPEC_LAG, &[], &numbers.spec_lag);
        metrics.add_histogram(STATUS_LAG, &[], &numbers.status_lag);
    }
}
