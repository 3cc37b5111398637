//! Documents of objects that are probably not in sync, so that workers need not read them again. Bounded in bytes: the
//! oldest make room for new ones.

use std::{collections::VecDeque, sync::Mutex};

use apiclient::{client::USUAL_OBJECT, json, lock::lock};
use serde_json::Value;

use crate::model::key::ObjectKey;

/// Bytes that all kept documents may take together.
pub(super) const MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct DocumentCache(Mutex<Documents>);

#[derive(Debug, Default)]
struct Documents {
    /// The oldest first.
    kept: VecDeque<KeptDocument>,
    bytes: usize,
    stores: u64,
}

#[derive(Debug)]
struct KeptDocument {
    store: u64,
    key: ObjectKey,
    version: u64,
    document: Box<[u8]>,
}

impl DocumentCache {
    pub(super) fn add_store(&self) -> u64 {
        let mut documents = lock(&self.0);
        documents.stores += 1;
        documents.stores
    }

    pub(super) fn insert(&self, store: u64, key: &str, version: u64, object: &Value) {
        let Ok(document) = serde_json::to_vec(object) else { return };
        let mut documents = lock(&self.0);
        documents.bytes += document.len();
        let (key, document) = (key.into(), document.into());
        documents.kept.push_back(KeptDocument { store, key, version, document });
        while documents.bytes > MAX_BYTES
            && let Some(oldest) = documents.kept.pop_front()
        {
            documents.bytes -= oldest.document.len();
        }
    }

    /// Takes the document of this version out, if it is kept.
    pub(super) fn take(&self, store: u64, key: &str, version: u64) -> Option<Value> {
        let mut documents = lock(&self.0);
        // The newest are the likeliest.
        let index = documents.kept.iter().rposition(|kept| {
            (kept.version, kept.store) == (version, store) && *kept.key == *key
        })?;
        let KeptDocument { document, .. } = documents.kept.remove(index)?;
        documents.bytes -= document.len();
        drop(documents);
        json::parse(&document, USUAL_OBJECT)
    }
}
