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

/// Counts by remote.
#[derive(Debug, Default)]
pub(crate) struct SyncMetrics(Mutex<Numbers>);

#[derive(Debug)]
struct Numbers {
    /// By remote and action.
    writes: BTreeMap<(String, &'static str), u64>,
    /// Failed attempts, by remote and class.
    failures: BTreeMap<(String, &'static str), u64>,
    /// Sources that were older than their copies, by remote.
    regressions: BTreeMap<String, u64>,
    /// From an event to the last write that it caused.
    spec_lag: Histogram,
    status_lag: Histogram,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            writes: BTreeMap::new(),
            failures: BTreeMap::new(),
            regressions: BTreeMap::new(),
            spec_lag: Histogram::new(&LAGS),
            status_lag: Histogram::new(&LAGS),
        }
    }
}

impl SyncMetrics {
    pub(crate) fn wrote(&self, remote: &str, operation: &'static str) {
        *lock(&self.0).writes.entry((remote.to_owned(), operation)).or_default() += 1;
    }

    pub(crate) fn failed(&self, remote: &str, reason: &'static str) {
        *lock(&self.0).failures.entry((remote.to_owned(), reason)).or_default() += 1;
    }

    pub(crate) fn regressed(&self, remote: &str) {
        *lock(&self.0).regressions.entry(remote.to_owned()).or_default() += 1;
    }

    pub(crate) fn spec_lag(&self, lag: Duration) {
        lock(&self.0).spec_lag.add(lag.as_secs_f64());
    }

    pub(crate) fn status_lag(&self, lag: Duration) {
        lock(&self.0).status_lag.add(lag.as_secs_f64());
    }

    /// Removes the series of a remote.
    pub(crate) fn forget(&self, remote: &str) {
        let mut numbers = lock(&self.0);
        numbers.writes.retain(|(name, _), _| name != remote);
        numbers.failures.retain(|(name, _), _| name != remote);
        numbers.regressions.remove(remote);
    }

    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let numbers = lock(&self.0);
        for ((remote, operation), count) in &numbers.writes {
            metrics.add(WRITES, &[("remote", remote), ("operation", operation)], count);
        }
        for ((remote, reason), count) in &numbers.failures {
            metrics.add(FAILURES, &[("remote", remote), ("reason", reason)], count);
        }
        for (remote, count) in &numbers.regressions {
            metrics.add(REGRESSIONS, &[("remote", remote)], count);
        }
        metrics.add_histogram(SPEC_LAG, &[], &numbers.spec_lag);
        metrics.add_histogram(STATUS_LAG, &[], &numbers.status_lag);
    }
}
