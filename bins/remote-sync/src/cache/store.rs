//! Store of the objects of one kind on one cluster, with the documents that workers will probably need. Only its
//! reflector writes to it. A pair keeps the results of its own requests as [`Answer`]s until the store has them.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard},
};

use apiclient::{client::USUAL_OBJECT, discovery::ApiResource, error::Error, json, lock::lock};
use serde_json::Value;

use crate::model::{annotations::Uid, key::ObjectKey, object::Cached};

#[derive(Debug)]
pub(crate) struct ObjectStore<T> {
    objects: Mutex<Objects<T>>,
    documents: Arc<DocumentCache>,
    number: u64,
    pub(crate) most: usize,
}

#[derive(Debug)]
struct Objects<T> {
    /// Boxed: lists are sorted, and sorted insertion leaves nodes of the tree half empty.
    map: BTreeMap<ObjectKey, Box<Entry<T>>>,
    /// The session of the last complete list; 0 for none.
    complete: u64,
    /// The number of complete lists.
    lists: u64,
    /// The highest version since the last list: older objects were seen, or are deleted.
    version: u64,
    /// The kind as this cluster serves it, once resolved.
    kind: Option<Arc<ApiResource>>,
    error: Option<Error>,
}

#[derive(Debug)]
struct Entry<T> {
    seen: Seen<T>,
    /// Seen since the last list started.
    confirmed: bool,
}

/// What was read of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen<T> {
    Whole(Cached<T>),
    /// The object costs too much memory to be read. Its uid and version.
    TooLarge(Uid, u64),
}

impl<T> Seen<T> {
    pub(crate) fn id(&self) -> (Uid, u64) {
        match self {
            Self::Whole(known) => (known.uid, known.version),
            Self::TooLarge(uid, version) => (*uid, *version),
        }
    }

    /// Returns `None` if the object is too large.
    fn whole(&self) -> Option<&Cached<T>> {
        match self {
            Self::Whole(known) => Some(known),
            Self::TooLarge(..) => None,
        }
    }
}

/// What a pair's request returned about an object; kept until the store has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer<T> {
    /// [`ObjectStore::lists`] before the request: a later list supersedes the answer.
    pub(crate) lists: u64,
    pub(crate) uid: Uid,
    /// `None` if the object with this uid is deleted.
    pub(crate) object: Option<Cached<T>>,
}

impl<T: Clone + PartialEq> ObjectStore<T> {
    pub(crate) fn new(documents: &Arc<DocumentCache>, most: usize) -> Arc<Self> {
        let map = BTreeMap::new();
        let objects = Objects { map, complete: 0, lists: 0, version: 0, kind: None, error: None };
        let number = documents.add_store();
        let objects = Mutex::new(objects);
        Arc::new(Self { objects, documents: documents.clone(), number, most })
    }

    /// Removes all objects, because the list does not fit, and returns their keys.
    pub(crate) fn clear(&self) -> Vec<ObjectKey> {
        // As an empty list would.
        self.begin_list(true);
        self.finish_list()
    }

    /// Starts a list; all objects stay until it is complete. `rewound` means that the server's versions may have
    /// decreased, which makes the store incomplete.
    pub(crate) fn begin_list(&self, rewound: bool) {
        let mut objects = self.objects();
        objects.map.values_mut().for_each(|entry| entry.confirmed = false);
        if rewound {
            objects.complete = 0;
        }
    }

    /// Removes the objects that are missing from the list, and returns their keys.
    pub(crate) fn finish_list(&self) -> Vec<ObjectKey> {
        let mut objects = self.objects();
        (objects.lists, objects.version) = (objects.lists + 1, 0);
        let mut gone = Vec::new();
        objects.map.retain(|key, entry| {
            if !entry.confirmed {
                gone.push(key.clone());
            }
            entry.confirmed
        });
        gone
    }

    /// Marks the list of this session (from 1) as complete, after all affected pairs were enqueued.
    pub(crate) fn set_complete(&self, session: u64) {
        self.objects().complete = session;
    }

    /// Returns whether all objects were listed in this session: while disconnected, the cluster may have been restored.
    pub(crate) fn is_complete(&self, session: u64) -> bool {
        self.objects().complete == session
    }

    /// Stores a listed or watched object. Returns whether it is new or changed; `None` if the store is full.
    pub(crate) fn put(&self, key: &str, seen: Seen<T>) -> Option<bool> {
        let mut objects = self.objects();
        objects.version = objects.version.max(seen.id().1);
        let count = objects.map.len();
        let Some(entry) = objects.map.get_mut(key) else {
            if count >= self.most {
                return None;
            }
            objects.map.insert(key.into(), Box::new(Entry { seen, confirmed: true }));
            return Some(true);
        };
        entry.confirmed = true;
        let before = mem::replace(&mut entry.seen, seen);
        Some(before != entry.seen)
    }

    /// Removes a deleted object, given its last version; returns whether the store had it.
    pub(crate) fn removed(&self, key: &str, (uid, version): (Uid, u64)) -> bool {
        let mut objects = self.objects();
        objects.version = objects.version.max(version);
        let is_this = objects.map.get(key).is_some_and(|entry| entry.seen.id().0 == uid);
        is_this && objects.map.remove(key).is_some()
    }

    /// The number of complete lists, for the [`Answer`] of the next request.
    pub(crate) fn lists(&self) -> u64 {
        self.objects().lists
    }

    /// Returns the store's or the answer's object, whichever is newer, and drops an answer that is not newer.
    pub(crate) fn newest(&self, key: &str, answer: &mut Option<Answer<T>>) -> Option<Cached<T>> {
        let objects = self.objects();
        let seen = objects.map.get(key).map(|entry| &entry.seen);
        let id = seen.map(Seen::id);
        let newer = match answer.as_ref().filter(|answer| answer.lists == objects.lists) {
            Some(Answer { uid, object: None, .. }) if id.is_some_and(|(of, _)| of == *uid) => {
                return None;
            }
            Some(Answer { object: Some(object), .. })
                if object.version > objects.version || id == Some((object.uid, object.version)) =>
            {
                Some(object.clone())
            }
            _ => None,
        };
        let seen = seen.and_then(Seen::whole);
        if newer.is_none() || newer.as_ref() == seen {
            *answer = None;
        }
        newer.or_else(|| seen.cloned())
    }

    /// The cached object; `None` also if it [is too large](Self::is_too_large).
    pub(crate) fn get(&self, key: &str) -> Option<Cached<T>> {
        self.objects().map.get(key)?.seen.whole().cloned()
    }

    /// Returns whether the object exists, but costs too much memory to be read.
    pub(crate) fn is_too_large(&self, key: &str) -> bool {
        self.objects().map.get(key).is_some_and(|entry| entry.seen.whole().is_none())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.objects().map.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects().map.len()
    }

    /// The results of `map`; it gets `None` for an object that is too large.
    pub(crate) fn filter_map<R>(&self, map: impl Fn(&str, Option<&T>) -> Option<R>) -> Vec<R> {
        let objects = self.objects();
        let all = objects.map.iter();
        all.filter_map(|(key, it)| map(key, it.seen.whole().map(|known| &known.value))).collect()
    }

    pub(crate) fn count_where(&self, counts: impl Fn(&str) -> bool) -> usize {
        self.objects().map.keys().filter(|key| counts(key)).count()
    }

    /// Keeps an object's document for a while. A large one is not kept: the pair's worker reads it again.
    pub(crate) fn keep_document(&self, key: &str, cached: &Cached<T>, object: &Value) {
        if !cached.large {
            self.documents.insert(self.number, key, cached.version, object);
        }
    }

    pub(crate) fn take_document(&self, key: &str, version: u64) -> Option<Value> {
        self.documents.take(self.number, key, version)
    }

    pub(crate) fn kind(&self) -> Option<Arc<ApiResource>> {
        self.objects().kind.clone()
    }

    /// Sets the kind and returns the previous one. If it changed, the store is incomplete until the next list.
    pub(crate) fn set_kind(&self, kind: Option<Arc<ApiResource>>) -> Option<Arc<ApiResource>> {
        let mut objects = self.objects();
        if objects.kind != kind {
            objects.complete = 0;
        }
        mem::replace(&mut objects.kind, kind)
    }

    /// Why listing or watching fails now.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.objects().error.as_ref().map(ToString::to_string)
    }

    pub(crate) fn set_error(&self, error: Option<Error>) {
        self.objects().error = error;
    }

    /// Returns whether permission to list or watch is missing, which other kinds may have.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.objects().error, Some(Error::Forbidden(_)))
    }

    fn objects(&self) -> MutexGuard<'_, Objects<T>> {
        lock(&self.objects)
    }
}

/// The size limit of all kept documents together, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Documents that save workers a read. The oldest are dropped to stay within `MAX_BYTES`.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache(Mutex<Documents>);

#[derive(Debug, Default)]
struct Documents {
    /// Oldest first.
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
    fn add_store(&self) -> u64 {
        let mut documents = lock(&self.0);
        documents.stores += 1;
        documents.stores
    }

    fn insert(&self, store: u64, key: &str, version: u64, object: &Value) {
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

    /// Removes and returns the document of this version, if kept.
    fn take(&self, store: u64, key: &str, version: u64) -> Option<Value> {
        let mut documents = lock(&self.0);
        // From the end: the newest are needed most.
        let index = documents.kept.iter().rposition(|kept| {
            (kept.version, kept.store) == (version, store) && *kept.key == *key
        })?;
        let KeptDocument { document, .. } = documents.kept.remove(index)?;
        documents.bytes -= document.len();
        drop(documents);
        json::parse(&document, USUAL_OBJECT)
    }
}

#[cfg(test)]
mod tests;
