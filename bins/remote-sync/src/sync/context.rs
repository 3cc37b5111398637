//! Context that all pairs share: settings, reader, metrics and permits.

use std::{collections::BTreeSet, sync::Mutex};

use shared::lock::lock;

use crate::{
    model::{annotations::Uid, digest::Digester, object::ObjectReader},
    settings::Settings,
    sync::{metrics::SyncMetrics, permits::Permits},
};

/// The part of the program that all pairs share.
pub(crate) struct SyncContext {
    pub(crate) settings: Settings,
    pub(crate) reader: ObjectReader,
    pub(crate) metrics: SyncMetrics,
    pub(crate) permits: Permits,
    /// The uids that the clusters show at present.
    clusters: Mutex<BTreeSet<Uid>>,
}

impl SyncContext {
    pub(crate) fn new(settings: Settings) -> Self {
        let reader = ObjectReader {
            digester: Digester::default(),
            keys: settings.keys.clone(),
            finalizer: settings.finalizer.clone(),
            mode: settings.mode,
        };
        Self {
            settings,
            reader,
            metrics: SyncMetrics::default(),
            permits: Permits::default(),
            clusters: Mutex::default(),
        }
    }

    /// Records the uids that the clusters show.
    pub(crate) fn set_clusters(&self, uids: BTreeSet<Uid>) {
        *lock(&self.clusters) = uids;
    }

    /// Returns whether a cluster shows this uid: its copies are not those of a cluster that was rebuilt.
    pub(crate) fn has_cluster(&self, uid: Uid) -> bool {
        lock(&self.clusters).contains(&uid)
    }
}
