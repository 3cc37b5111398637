//! Store of the objects of one kind on one cluster. Its reflectors alone write it; what a pair's own requests show is kept
//! as an [`Answer`] until the store has it.

use std::{
    collections::BTreeMap,
    ops::Bound::{Included, Unbounded},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use apiclient::{error::Error, lock::lock};
use serde_json::Value;

use crate::{
    cache::documents::DocumentCache,
    model::{
        annotations::Uid,
        discovery::ApiResource,
        key::{self, ObjectKey},
        object::Cached,
    },
};

/// The objects of one kind on one cluster.
#[derive(Debug)]
pub(crate) struct ObjectStore<T> {
    objects: Mutex<Objects<T>>,
    documents: Arc<DocumentCache>,
    /// Its number in `documents`.
    number: u64,
    /// With the time at which it was found.
    kind: Mutex<Option<(Arc<ApiResource>, Instant)>>,
    /// The reason why it cannot be listed or watched at present.
    trouble: Mutex<Option<String>>,
    /// That is a missing right, which others need not have.
    refused: AtomicBool,
    /// The most objects that it holds.
    most: usize,
}

/// The result of putting an object into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutResult {
    /// It is new or changed.
    Changed,
    /// It was there already.
    Unchanged,
    /// There is no room for it.
    Full,
}

#[derive(Debug)]
struct Objects<T> {
    /// Boxed: lists are sorted, and sorted insertion leaves the tree's nodes half empty.
    map: BTreeMap<ObjectKey, Box<Entry<T>>>,
    /// The session in which it was last listed completely; 0 for never.
    complete: u64,
    /// Lists that were complete.
    lists: u64,
    /// The highest version since: what is older was seen, or is gone.
    version: u64,
}

impl<T> Objects<T> {
    /// The keys that start with `prefix`.
    fn keys_in<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
        let here = self.map.range::<str, _>((Included(prefix), Unbounded)).map(|(key, _)| key);
        here.take_while(move |key| key.starts_with(prefix))
    }
}

#[derive(Debug)]
struct Entry<T> {
    seen: Seen<T>,
    /// Seen since the last list started.
    confirmed: bool,
}

/// An object, as far as it could be read.
#[derive(Clone, Debug, PartialEq)]
enum Seen<T> {
    Whole(Cached<T>),
    /// It exists but costs too much memory to be read.
    TooLarge {
        uid: Uid,
        version: u64,
    },
}

impl<T> Seen<T> {
    fn uid(&self) -> Uid {
        match self {
            Self::Whole(known) => known.uid,
            Self::TooLarge { uid, .. } => *uid,
        }
    }

    fn version(&self) -> u64 {
        match self {
            Self::Whole(known) => known.version,
            Self::TooLarge { version, .. } => *version,
        }
    }
}

/// What a request of a pair showed of an object, until the store has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer<T> {
    /// [`ObjectStore::lists`] before the request: a list since then knows better.
    lists: u64,
    shown: Shown<T>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shown<T> {
    Object(Cached<T>),
    /// The object with this uid is gone.
    Absent(Uid),
}

impl<T> Answer<T> {
    pub(crate) fn object(lists: u64, object: Cached<T>) -> Self {
        Self { lists, shown: Shown::Object(object) }
    }

    pub(crate) fn absent(lists: u64, uid: Uid) -> Self {
        Self { lists, shown: Shown::Absent(uid) }
    }
}

impl<T: Clone + PartialEq> ObjectStore<T> {
    /// An empty store for at most `most` objects.
    pub(crate) fn new(documents: &Arc<DocumentCache>, most: usize) -> Self {
        let objects = Objects { map: BTreeMap::new(), complete: 0, lists: 0, version: 0 };
        Self {
            objects: Mutex::new(objects),
            documents: documents.clone(),
            number: documents.add_store(),
            kind: Mutex::default(),
            trouble: Mutex::default(),
            refused: AtomicBool::default(),
            most,
        }
    }

    /// Marks it as incomplete until it is listed again.
    pub(crate) fn invalidate_list(&self) {
        self.objects().complete = 0;
    }

    /// Removes the objects of a list that does not fit, and returns their keys.
    pub(crate) fn clear(&self) -> Vec<ObjectKey> {
        // Like an empty list, in no session.
        self.begin_list(true);
        self.finish_list(0)
    }

    /// Starts a list; all objects stay until it is complete. `rewound` means that the server's versions may have
    /// gone back, which makes it incomplete.
    pub(crate) fn begin_list(&self, rewound: bool) {
        let mut objects = self.objects();
        objects.map.values_mut().for_each(|entry| entry.confirmed = false);
        if rewound {
            objects.complete = 0;
        }
    }

    /// Completes the list of this session, counted from 1: removes the objects that were not in it, and returns
    /// their keys.
    pub(crate) fn finish_list(&self, session: u64) -> Vec<ObjectKey> {
        let mut objects = self.objects();
        objects.complete = session;
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

    /// Returns whether all objects of the kind were listed in this session: the cluster may have been restored while it
    /// was disconnected.
    pub(crate) fn is_complete(&self, session: u64) -> bool {
        self.objects().complete == session
    }

    /// Puts an object that was listed or watched.
    pub(crate) fn put(&self, key: &str, cached: Cached<T>) -> PutResult {
        self.apply(key, Seen::Whole(cached))
    }

    /// Puts an object that exists but costs too much memory to be read.
    pub(crate) fn put_too_large(&self, key: &str, uid: Uid, version: u64) -> PutResult {
        self.apply(key, Seen::TooLarge { uid, version })
    }

    fn apply(&self, key: &str, seen: Seen<T>) -> PutResult {
        let mut objects = self.objects();
        objects.version = objects.version.max(seen.version());
        let count = objects.map.len();
        let Some(entry) = objects.map.get_mut(key) else {
            if count >= self.most {
                return PutResult::Full;
            }
            objects.map.insert(key.into(), Box::new(Entry { seen, confirmed: true }));
            return PutResult::Changed;
        };
        entry.confirmed = true;
        let before = std::mem::replace(&mut entry.seen, seen);
        if before == entry.seen { PutResult::Unchanged } else { PutResult::Changed }
    }

    /// Removes an object that was deleted, with its last version; `true` if it was there.
    pub(crate) fn removed(&self, key: &str, uid: Uid, version: u64) -> bool {
        let mut objects = self.objects();
        objects.version = objects.version.max(version);
        let is_this = objects.map.get(key).is_some_and(|entry| entry.seen.uid() == uid);
        is_this && objects.map.remove(key).is_some()
    }

    /// The number of complete lists, for an [`Answer`] to a request that follows.
    pub(crate) fn lists(&self) -> u64 {
        self.objects().lists
    }

    /// The object as the store or the answer has it, whichever is newer; forgets an answer that is not.
    pub(crate) fn newest(&self, key: &str, answer: &mut Option<Answer<T>>) -> Option<Cached<T>> {
        let objects = self.objects();
        let seen = objects.map.get(key).map(|entry| &entry.seen);
        let id = seen.map(|seen| (seen.uid(), seen.version()));
        let newer = match answer.as_ref().filter(|answer| answer.lists == objects.lists) {
            Some(Answer { shown: Shown::Absent(uid), .. })
                if id.is_some_and(|(of, _)| of == *uid) =>
            {
                return None;
            }
            Some(Answer { shown: Shown::Object(object), .. })
                if object.version > objects.version || id == Some((object.uid, object.version)) =>
            {
                Some(object.clone())
            }
            _ => None,
        };
        if let Some(object) = newer {
            if matches!(seen, Some(Seen::Whole(known)) if *known == object) {
                *answer = None;
            }
            return Some(object);
        }
        *answer = None;
        match seen? {
            Seen::Whole(known) => Some(known.clone()),
            Seen::TooLarge { .. } => None,
        }
    }

    /// The cached object; `None` also for one that [is too large](Self::is_too_large).
    pub(crate) fn get(&self, key: &str) -> Option<Cached<T>> {
        match &self.objects().map.get(key)?.seen {
            Seen::Whole(known) => Some(known.clone()),
            Seen::TooLarge { .. } => None,
        }
    }

    /// Returns whether the object exists but costs too much memory to be read.
    pub(crate) fn is_too_large(&self, key: &str) -> bool {
        let objects = self.objects();
        objects.map.get(key).is_some_and(|entry| matches!(entry.seen, Seen::TooLarge { .. }))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.objects().map.contains_key(key)
    }

    /// The most objects that it holds.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn len(&self) -> usize {
        self.objects().map.len()
    }

    /// The keys of the objects that `counts`; without the object if it is too large.
    pub(crate) fn keys_where(&self, counts: impl Fn(&str, Option<&T>) -> bool) -> Vec<ObjectKey> {
        let objects = self.objects();
        let counted = objects.map.iter().filter(|(key, entry)| match &entry.seen {
            Seen::Whole(known) => counts(key, Some(&known.value)),
            Seen::TooLarge { .. } => counts(key, None),
        });
        counted.map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn for_each_key(&self, each: impl FnMut(&str)) {
        self.objects().map.keys().map(|key| &**key).for_each(each);
    }

    /// The keys of the objects in `namespace`.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<ObjectKey> {
        self.objects().keys_in(&key::of(namespace, "")).cloned().collect()
    }

    /// Returns whether `namespace` has an object whose name `counts`.
    pub(crate) fn has_others(&self, namespace: &str, counts: impl Fn(&str) -> bool) -> bool {
        self.objects().keys_in(&key::of(namespace, "")).any(|key| counts(key::split(key).1))
    }

    /// Keeps an object's document for a while; a large one is read again by the worker of its pair.
    pub(crate) fn keep_document(&self, key: &str, cached: &Cached<T>, object: &Value) {
        if !cached.large {
            self.documents.insert(self.number, key, cached.version, object);
        }
    }

    /// Takes the document of this version out, if it is kept.
    pub(crate) fn take_document(&self, key: &str, version: u64) -> Option<Value> {
        self.documents.take(self.number, key, version)
    }

    /// The kind as this cluster serves it, once it was found.
    pub(crate) fn kind(&self) -> Option<Arc<ApiResource>> {
        lock(&self.kind).as_ref().map(|(kind, _)| kind.clone())
    }

    pub(crate) fn set_kind(&self, kind: Option<Arc<ApiResource>>) {
        *lock(&self.kind) = kind.map(|kind| (kind, Instant::now()));
    }

    /// The time since the kind was found.
    pub(crate) fn kind_age(&self) -> Option<Duration> {
        lock(&self.kind).as_ref().map(|(_, found)| found.elapsed())
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        self.refused.store(false, Relaxed);
        *lock(&self.trouble) = trouble;
    }

    /// Records why it cannot be listed or watched.
    pub(crate) fn set_error(&self, error: &Error) {
        self.set_trouble(Some(error.to_string()));
        self.refused.store(matches!(error, Error::Forbidden(_)), Relaxed);
    }

    /// Returns whether a right to list or watch it is missing.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    fn objects(&self) -> MutexGuard<'_, Objects<T>> {
        lock(&self.objects)
    }
}

#[cfg(test)]
mod tests;
