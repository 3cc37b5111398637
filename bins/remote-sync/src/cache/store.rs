//! Store of the objects of one kind on one cluster: a reflector fills it, workers read it.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound::{Included, Unbounded},
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicUsize},
};

use serde_json::Value;
use shared::lock::lock;

use crate::cache::documents::Documents;
use crate::model::{
    annotations::Uid,
    discovery::ApiResource,
    key::{self, ObjectKey},
    object::Cached,
};

/// So many may go while one answer is under way.
const MOST_GONE: usize = 64;

/// The objects of one kind on one cluster.
#[derive(Debug)]
pub(crate) struct Store<T> {
    objects: Mutex<Objects<T>>,
    documents: Documents,
    kind: Mutex<Option<Arc<ApiResource>>>,
    /// Why it cannot be followed at present.
    trouble: Mutex<Option<String>>,
    /// Objects at most.
    most: usize,
}

/// What came of an object that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutResult {
    /// It is new or changed.
    Changed,
    /// It was known.
    Unchanged,
    /// There is no room for it.
    Full,
}

#[derive(Debug)]
struct Objects<T> {
    /// Boxed: what is listed comes in order, which leaves the nodes of the tree half empty.
    map: BTreeMap<ObjectKey, Box<Entry<T>>>,
    /// By scope: in which session of the cluster it was listed as a whole; 0 for never.
    complete: Vec<u64>,
    /// The objects that went last, and their versions at that: an answer that was under way then must not
    /// bring them back. One that only left the selection may come back with a newer one.
    gone: VecDeque<(Uid, u64)>,
}

impl<T> Objects<T> {
    /// The keys that begin with `prefix`.
    fn keys_in<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
        let here = self.map.range::<str, _>((Included(prefix), Unbounded)).map(|(key, _)| key);
        here.take_while(move |key| key.starts_with(prefix))
    }
}

/// What one reflector lists: everything, or one namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListScope<'a> {
    /// Counts the reflectors of a store from 0.
    pub(crate) index: usize,
    pub(crate) namespace: Option<&'a str>,
}

impl ListScope<'_> {
    fn holds(&self, key: &str) -> bool {
        self.namespace.is_none_or(|namespace| key::split(key).0 == namespace)
    }
}

#[derive(Debug)]
struct Entry<T> {
    seen: Seen<T>,
    /// Seen since the last list began.
    confirmed: bool,
}

/// An object, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
enum Seen<T> {
    Whole(Cached<T>),
    /// It is there, and costs too much memory to be looked at.
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

impl<T: PartialEq> Seen<T> {
    /// Whether `other` is the same but for its version.
    fn tells(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => {
                (one.uid, one.large, &one.value) == (other.uid, other.large, &other.value)
            }
            (one, other) => one == other,
        }
    }
}

impl<T: Clone + PartialEq> Store<T> {
    /// An empty store for at most so many objects, filled by so many reflectors; `used` counts the documents
    /// of all stores.
    pub(crate) fn new(used: Arc<AtomicUsize>, scopes: usize, most: usize) -> Self {
        let objects =
            Objects { map: BTreeMap::new(), complete: vec![0; scopes], gone: VecDeque::new() };
        Self {
            objects: Mutex::new(objects),
            documents: Documents::new(used),
            kind: Mutex::default(),
            trouble: Mutex::default(),
            most,
        }
    }

    /// What is known of a scope is of no use until it was listed again.
    pub(crate) fn invalidate_list(&self, scope: ListScope<'_>) {
        self.objects().complete[scope.index] = 0;
    }

    /// Forgets the objects of a scope, of which there are more than it has room for; returns their keys.
    pub(crate) fn clear(&self, scope: ListScope<'_>) -> Vec<ObjectKey> {
        // As if a list had ended before its first object, in no session.
        self.begin_list(scope, true);
        self.finish_list(scope, 0)
    }

    /// A list begins. Until it is complete all objects stay; with `anew` they come from a server whose
    /// versions may have gone back, so that nothing is known any more.
    pub(crate) fn begin_list(&self, scope: ListScope<'_>, anew: bool) {
        let mut objects = self.objects();
        // A server that was restored may have them again.
        objects.gone.clear();
        let listed = objects.map.iter_mut().filter(|(key, _)| scope.holds(key));
        listed.for_each(|(_, entry)| entry.confirmed = false);
        if anew {
            objects.complete[scope.index] = 0;
        }
    }

    /// The list of this session, counted from 1, is complete: what was not in it is gone. Returns the keys
    /// of that.
    pub(crate) fn finish_list(&self, scope: ListScope<'_>, session: u64) -> Vec<ObjectKey> {
        let mut objects = self.objects();
        objects.complete[scope.index] = session;
        let mut gone = Vec::new();
        objects.map.retain(|key, entry| {
            let stays = entry.confirmed || !scope.holds(key);
            if !stays {
                gone.push(key.clone());
            }
            stays
        });
        drop(objects);
        gone.iter().for_each(|key| self.documents.remove(key));
        gone
    }

    /// Whether all objects of the kind are in it, as listed in this session: what was known before a
    /// connection was lost may be of a cluster that has been restored since.
    pub(crate) fn is_complete(&self, session: u64) -> bool {
        self.objects().complete.iter().all(|complete| *complete == session)
    }

    /// Takes in an object as read, listed, watched or answered to a write, whichever comes first. Our own
    /// writes come twice, as answer and as event: the second is no news.
    pub(crate) fn put(&self, key: &str, cached: Cached<T>) -> PutResult {
        self.apply(key, Seen::Whole(cached))
    }

    /// The same for an object that costs too much memory to be looked at: it is there, and no more is known
    /// of it.
    pub(crate) fn put_too_large(&self, key: &str, uid: Uid, version: u64) -> PutResult {
        self.documents.remove(key);
        self.apply(key, Seen::TooLarge { uid, version })
    }

    fn apply(&self, key: &str, seen: Seen<T>) -> PutResult {
        let mut objects = self.objects();
        let (uid, version) = (seen.uid(), seen.version());
        if objects.gone.iter().any(|(of, last)| *of == uid && version <= *last) {
            return PutResult::Unchanged;
        }
        let count = objects.map.len();
        let Some(entry) = objects.map.get_mut(key) else {
            if count >= self.most {
                return PutResult::Full;
            }
            objects.map.insert(key.into(), Box::new(Entry { seen, confirmed: true }));
            return PutResult::Changed;
        };
        // A watch may lag behind an answer.
        if entry.confirmed && version < entry.seen.version() {
            return PutResult::Unchanged;
        }
        entry.confirmed = true;
        let before = std::mem::replace(&mut entry.seen, seen);
        if before.tells(&entry.seen) { PutResult::Unchanged } else { PutResult::Changed }
    }

    /// Takes in what must have become of an object that is there: news of it may be slower than others.
    pub(crate) fn update(&self, key: &str, cached: Cached<T>) {
        if let Some(entry) = self.objects().map.get_mut(key)
            && (entry.seen.uid(), entry.seen.version()) == (cached.uid, cached.version)
        {
            entry.seen = Seen::Whole(cached);
        }
    }

    /// Takes in that an object was deleted, or is selected no more, with its last version; `true` if that is
    /// news.
    pub(crate) fn removed(&self, key: &str, uid: Uid, version: u64) -> bool {
        let mut objects = self.objects();
        if objects.gone.len() == MOST_GONE {
            objects.gone.pop_front();
        }
        objects.gone.push_back((uid, version));
        drop(objects);
        self.remove(key, uid)
    }

    /// Takes in that the object with this uid is not there, as somebody said who asked for it; `true` if
    /// that is news.
    pub(crate) fn remove(&self, key: &str, uid: Uid) -> bool {
        let mut objects = self.objects();
        let is_this = objects.map.get(key).is_some_and(|entry| entry.seen.uid() == uid);
        if is_this {
            objects.map.remove(key);
            drop(objects);
            self.documents.remove(key);
        }
        is_this
    }

    /// What is known of an object; nothing also of one that is too large, see
    /// [`is_too_large`](Self::is_too_large).
    pub(crate) fn get(&self, key: &str) -> Option<Cached<T>> {
        match &self.objects().map.get(key)?.seen {
            Seen::Whole(known) => Some(known.clone()),
            Seen::TooLarge { .. } => None,
        }
    }

    /// Whether the object is there but costs too much memory to be looked at.
    pub(crate) fn is_too_large(&self, key: &str) -> bool {
        let objects = self.objects();
        objects.map.get(key).is_some_and(|entry| matches!(entry.seen, Seen::TooLarge { .. }))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.objects().map.contains_key(key)
    }

    /// Objects at most.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn len(&self) -> usize {
        self.objects().map.len()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.objects().map.keys().cloned().collect()
    }

    /// The keys of the objects in `namespace`.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<ObjectKey> {
        self.objects().keys_in(&key::of(namespace, "")).cloned().collect()
    }

    /// Whether `namespace` holds an object with a name that `counts`.
    pub(crate) fn has_others(&self, namespace: &str, counts: impl Fn(&str) -> bool) -> bool {
        self.objects().keys_in(&key::of(namespace, "")).any(|key| counts(key::split(key).1))
    }

    /// Keeps the document of a pair that is probably not in step, while there is room; a large one is read
    /// again by whoever has the turn for it.
    pub(crate) fn keep_document(&self, key: &str, cached: &Cached<T>, object: &Value) {
        self.documents.remove(key);
        if !cached.large {
            self.documents.insert(key, cached.version, object);
        }
    }

    /// The document of this version, if it was kept; it is kept no longer.
    pub(crate) fn take_document(&self, key: &str, version: u64) -> Option<Value> {
        self.documents.take(key, version)
    }

    pub(crate) fn drop_document(&self, key: &str) {
        self.documents.remove(key);
    }

    /// The kind as this cluster has it, once it was found there.
    pub(crate) fn kind(&self) -> Option<Arc<ApiResource>> {
        lock(&self.kind).clone()
    }

    pub(crate) fn set_kind(&self, kind: Option<Arc<ApiResource>>) {
        *lock(&self.kind) = kind;
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *lock(&self.trouble) = trouble;
    }

    fn objects(&self) -> MutexGuard<'_, Objects<T>> {
        lock(&self.objects)
    }
}

#[cfg(test)]
mod tests;
