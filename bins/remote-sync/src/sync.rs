//! Sync of one pair at a time: observe, decide and apply, until both sides agree.

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

use std::sync::{Arc, Mutex};

use crate::{
    connection::ClusterRecords,
    model::{object::ObjectReader, rules::FieldRules},
    settings::Settings,
};

/// Shared by all pairs.
pub(crate) struct SyncContext {
    pub(crate) settings: Settings,
    /// Reads all objects other than sources and targets.
    pub(crate) reader: ObjectReader,
    /// Readers of sources and targets, by kind.
    pub(crate) readers: Vec<ObjectReader>,
    /// Held during a pair with a large object: one at a time keeps the process within the memory limit.
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
