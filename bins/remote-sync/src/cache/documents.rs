//! Documents of objects that are probably not in sync, kept in bounded memory so that workers need not read
//! them again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use apiclient::{client::USUAL_OBJECT, json, lock::lock};
use serde_json::Value;

use crate::model::key::ObjectKey;

/// Bytes that all kept documents may take together.
pub(super) const ROOM: usize = 4 << 20;

/// A document with the version of its object.
type VersionedDocument = (u64, Box<[u8]>);

/// The documents of one store.
#[derive(Debug)]
pub(super) struct Documents {
    kept: Mutex<BTreeMap<ObjectKey, VersionedDocument>>,
    /// Bytes in the documents of all stores together.
    used: Arc<AtomicUsize>,
}

impl Documents {
    pub(super) fn new(used: Arc<AtomicUsize>) -> Self {
        Self { kept: Mutex::default(), used }
    }

    /// Keeps a document if there is room.
    pub(super) fn insert(&self, key: &str, version: u64, object: &Value) {
        if self.used.load(Relaxed) >= ROOM {
            return;
        }
        let Ok(document) = serde_json::to_vec(object) else { return };
        if self.used.load(Relaxed) + document.len() > ROOM {
            return;
        }
        self.used.fetch_add(document.len(), Relaxed);
        // Another thread may have kept one in the meantime.
        if let Some((_, old)) = lock(&self.kept).insert(key.into(), (version, document.into())) {
            self.used.fetch_sub(old.len(), Relaxed);
        }
    }

    /// Takes the document of this version out, if it was kept.
    pub(super) fn take(&self, key: &str, version: u64) -> Option<Value> {
        let (kept, document) = lock(&self.kept).remove(key)?;
        self.used.fetch_sub(document.len(), Relaxed);
        (kept == version).then(|| json::parse(&document, USUAL_OBJECT).ok()).flatten()
    }

    pub(super) fn remove(&self, key: &str) {
        if let Some((_, document)) = lock(&self.kept).remove(key) {
            self.used.fetch_sub(document.len(), Relaxed);
        }
    }
}

/// A removed remote's documents make room for others.
impl Drop for Documents {
    fn drop(&mut self) {
        let bytes: usize = lock(&self.kept).values().map(|(_, document)| document.len()).sum();
        self.used.fetch_sub(bytes, Relaxed);
    }
}
