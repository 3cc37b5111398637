//! Documents of objects that are probably not in sync, so that workers need not read them again. Bounded in bytes: the
//! oldest make room for new ones.

use std::{collections::BTreeMap, sync::Mutex};

use apiclient::{client::USUAL_OBJECT, json, lock::lock};
use serde_json::Value;

use crate::model::key::ObjectKey;

/// Bytes that all kept documents may take together.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// The documents of all stores.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache(Mutex<Documents>);

/// A store and an object in it.
type DocumentKey = (u64, ObjectKey);

#[derive(Debug, Default)]
struct Documents {
    /// With its age and the version of its object.
    kept: BTreeMap<DocumentKey, (u64, u64, Box<[u8]>)>,
    by_age: BTreeMap<u64, DocumentKey>,
    bytes: usize,
    stores: u64,
    inserted: u64,
}

impl DocumentCache {
    /// A number for another store.
    pub(super) fn add_store(&self) -> u64 {
        let mut documents = lock(&self.0);
        documents.stores += 1;
        documents.stores
    }

    pub(super) fn insert(&self, store: u64, key: &str, version: u64, object: &Value) {
        let Ok(document) = serde_json::to_vec(object) else { return };
        let mut documents = lock(&self.0);
        documents.remove(&(store, key.into()));
        if document.len() <= MAX_BYTES {
            documents.insert((store, key.into()), version, document.into());
        }
    }

    /// Takes the document of this version out, if it is kept.
    pub(super) fn take(&self, store: u64, key: &str, version: u64) -> Option<Value> {
        let (kept, document) = lock(&self.0).remove(&(store, key.into()))?;
        (kept == version).then(|| json::parse(&document, USUAL_OBJECT)).flatten()
    }
}

impl Documents {
    fn insert(&mut self, key: DocumentKey, version: u64, document: Box<[u8]>) {
        self.inserted += 1;
        self.bytes += document.len();
        self.by_age.insert(self.inserted, key.clone());
        self.kept.insert(key, (self.inserted, version, document));
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.by_age.first_key_value()
        {
            self.remove(&oldest.clone());
        }
    }

    fn remove(&mut self, key: &DocumentKey) -> Option<(u64, Box<[u8]>)> {
        let (age, version, document) = self.kept.remove(key)?;
        self.by_age.remove(&age);
        self.bytes -= document.len();
        Some((version, document))
    }
}
