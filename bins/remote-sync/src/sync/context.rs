//! Context that all pairs share: settings, reader and metrics.

use std::sync::{Arc, Mutex};

use crate::{
    connection::ClusterRecords,
    model::{key::PerKind, object::ObjectReader, rules::FieldRules},
    settings::Settings,
    sync::metrics::SyncMetrics,
};

/// The part of the program that all pairs share.
pub(crate) struct SyncContext {
    pub(crate) settings: Settings,
    /// For everything but objects of the kinds.
    pub(crate) reader: ObjectReader,
    /// For objects of each kind.
    pub(crate) readers: PerKind<ObjectReader>,
    pub(crate) metrics: SyncMetrics,
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
        let readers =
            settings.rules.map(|rules| ObjectReader { rules: rules.clone(), ..reader.clone() });
        Self {
            settings,
            reader,
            readers,
            metrics: SyncMetrics::default(),
            large: Mutex::default(),
            records,
        }
    }
}
