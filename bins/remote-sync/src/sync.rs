//! Synchronization of one pair at a time: observed, decided and applied, until both sides agree.

pub(crate) mod apply;
pub(crate) mod decide;
pub(crate) mod delete;
pub(crate) mod deletion_limit;
pub(crate) mod memory;
mod namespace;
pub(crate) mod observed;
pub(crate) mod pair;
pub(crate) mod patch;
pub(crate) mod reconcile;
pub(crate) mod remote;
mod secrets;
pub(crate) mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use apiclient::lock::lock;
use sidecar::metrics::{Family, Metrics};

use crate::{
    connection::ClusterRecords,
    model::{object::ObjectReader, rules::FieldRules},
    settings::Settings,
};

/// Shared by all pairs.
pub(crate) struct SyncContext {
    pub(crate) settings: Settings,
    /// For everything but objects of the kinds.
    pub(crate) reader: ObjectReader,
    /// For objects of each kind.
    pub(crate) readers: Vec<ObjectReader>,
    /// Held by a pair with a large object: one at a time keeps all remotes within the memory limit.
    pub(crate) large: Mutex<()>,
    pub(crate) records: Arc<ClusterRecords>,
}

impl SyncContext {
    pub(crate) fn new(settings: Settings, records: Arc<ClusterRecords>) -> Self {
        let reader = ObjectReader {
            keys: settings.keys.clone(),
            finalizer: settings.finalizer.clone(),
            rules: FieldRules::default(),
        };
        let of_kind = |rules: &FieldRules| ObjectReader { rules: rules.clone(), ..reader.clone() };
        let readers = settings.rules.iter().map(of_kind).collect();
        Self { settings, reader, readers, large: Mutex::default(), records }
    }
}

const WRITES: Family = Family::counter(
    "remote_sync_writes_total",
    "Writes to either side, by operation, including failed ones.",
);
const FAILURES: Family =
    Family::counter("remote_sync_failures_total", "Failed passes over a pair, by reason.");

/// Counters of one remote, by family and the value of the family's other label.
#[derive(Debug, Default)]
pub(crate) struct SyncMetrics(Mutex<BTreeMap<(Family, Label), u64>>);

type Label = (&'static str, &'static str);

impl SyncMetrics {
    pub(crate) fn wrote(&self, operation: &'static str) {
        self.count(WRITES, ("operation", operation));
    }

    pub(crate) fn failed(&self, reason: &'static str) {
        self.count(FAILURES, ("reason", reason));
    }

    fn count(&self, family: Family, label: Label) {
        *lock(&self.0).entry((family, label)).or_default() += 1;
    }

    pub(crate) fn add_to(&self, remote: &str, metrics: &mut Metrics) {
        for ((family, label), count) in &*lock(&self.0) {
            metrics.add(*family, &[("remote", remote), *label], count);
        }
    }
}
