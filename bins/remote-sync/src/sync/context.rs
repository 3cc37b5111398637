//! Context that all pairs share: settings, reader, metrics and permits.

use crate::{
    model::{digest::Digester, object::ObjectReader},
    settings::Settings,
    sync::{metrics::SyncMetrics, permits::Permits},
};

/// The part of the program that all pairs share.
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
