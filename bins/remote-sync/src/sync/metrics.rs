//! Counters of reconciling, by remote.

use std::{collections::BTreeMap, sync::Mutex};

use apiclient::lock::lock;
use sidecar::metrics::{Family, Metrics};

const WRITES: Family = Family::counter(
    "remote_sync_writes_total",
    "Writes to either side, by operation, including failed ones.",
);
const FAILURES: Family =
    Family::counter("remote_sync_failures_total", "Failed passes over a pair, by reason.");

/// Counts by remote, family, and the value of the family's other label.
#[derive(Debug, Default)]
pub(crate) struct SyncMetrics(Mutex<BTreeMap<(String, Family, Label), u64>>);

type Label = (&'static str, &'static str);

impl SyncMetrics {
    pub(crate) fn wrote(&self, remote: &str, operation: &'static str) {
        self.count(remote, WRITES, ("operation", operation));
    }

    pub(crate) fn failed(&self, remote: &str, reason: &'static str) {
        self.count(remote, FAILURES, ("reason", reason));
    }

    fn count(&self, remote: &str, family: Family, label: Label) {
        *lock(&self.0).entry((remote.to_owned(), family, label)).or_default() += 1;
    }

    /// Removes the series of a remote.
    pub(crate) fn forget(&self, remote: &str) {
        lock(&self.0).retain(|(name, ..), _| name != remote);
    }

    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        for ((remote, family, label), count) in &*lock(&self.0) {
            metrics.add(*family, &[("remote", remote), *label], count);
        }
    }
}
