//! Context that all pairs share: settings, reader, metrics and permits.

use std::sync::Arc;

use crate::{
    cache::cluster::ClusterClient,
    model::{digest::Digester, object::ObjectReader},
    settings::Settings,
    sync::{ledger::Ledger, metrics::SyncMetrics, permits::Permits},
};

/// The part of the program that all pairs share.
pub(crate) struct SyncContext {
    pub(crate) settings: Settings,
    pub(crate) reader: ObjectReader,
    pub(crate) metrics: SyncMetrics,
    pub(crate) permits: Permits,
    /// `None` without a namespace of the program's own.
    pub(crate) ledger: Option<Ledger>,
}

impl SyncContext {
    pub(crate) fn new(settings: Settings, local: &Arc<ClusterClient>) -> Self {
        let place = settings.ledger.clone();
        let ledger =
            place.map(|place| Ledger::new(local.clone(), place, settings.resources.clone()));
        let reader = ObjectReader {
            digester: Digester::default(),
            keys: settings.keys.clone(),
            finalizer: settings.finalizer.clone(),
            mode: settings.mode,
        };
        let (metrics, permits) = (SyncMetrics::default(), Permits::default());
        Self { settings, reader, metrics, permits, ledger }
    }
}
