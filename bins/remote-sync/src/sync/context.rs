//! Settings, reader, metrics and permits that all pairs share.

use crate::{
    model::{digest::Digester, object::ObjectReader},
    settings::Settings,
    sync::{metrics::SyncMetrics, permits::Permits},
};

/// What the process was told, how it reads objects, and what it counts.
pub(crate) struct SyncContext {
    pub(crate) settings: Settings,
    pub(crate) reader: ObjectReader,
    pub(crate) metrics: SyncMetrics,
    pub(crate) permits: Permits,
}

impl SyncContext {
    pub(crate) fn new(settings: Settings) -> Self {
        let reader = ObjectReader {
            digester: Digester::default(),
            keys: settings.keys.clone(),
            finalizer: settings.finalizer.clone(),
            mode: settings.mode,
        };
        Self { settings, reader, metrics: SyncMetrics::default(), permits: Permits::default() }
    }
}
