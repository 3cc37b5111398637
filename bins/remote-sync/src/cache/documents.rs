//! Documents of objects that are probably not in step: kept for the workers in bounded memory, so that they
//! need not be read again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use serde_json::Value;
use shared::{client::USUAL_OBJECT, json, lock::lock};

use crate::model::key::ObjectKey;

/// All documents that are kept at a time, in bytes: those of pairs that are not in step yet.
pub(super) const ROOM: usize = 4 << 20;

/// The version of an object, and its document.
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

    /// Keeps a document, while there is room.
    pub(super) fn insert(&self, key: &str, version: u64, object: &Value) {
        if self.used.load(Relaxed) >= ROOM {
            return;
        }
        let Ok(document) = serde_json::to_vec(object) else { return };
        if self.used.load(Relaxed) + document.len() > ROOM {
            return;
        }
        self.used.fetch_add(document.len(), Relaxed);
        // Another thread may have kept one meanwhile.
        if let Some((_, old)) = lock(&self.kept).insert(key.into(), (version, document.into())) {
            self.used.fetch_sub(old.len(), Relaxed);
        }
    }

    /// The document of this version, if it was kept; it is kept no longer.
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

/// The documents of a remote that went leave their room to the others.
impl Drop for Documents {
    fn drop(&mut self) {
        let bytes: usize = lock(&self.kept).values().map(|(_, document)| document.len()).sum();
        self.used.fetch_sub(bytes, Relaxed);
    }
}
