//! What is known of the objects of one kind on one cluster: a stream puts, workers look up.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound::{Included, Unbounded},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use serde_json::Value;
use shared::{client::USUAL_OBJECT, json, lock::lock};

use crate::model::{
    annotations::Uid,
    key::{self, ObjectKey},
    object::Cached,
};

/// So many may go while one answer is under way.
const MOST_GONE: usize = 64;
/// All documents that are kept at a time, in bytes: those of pairs that are not in step yet.
const ROOM: usize = 4 << 20;

/// The objects of one kind on one cluster.
#[derive(Debug)]
pub(crate) struct Table<R> {
    rows: Mutex<Rows<R>>,
    bodies: Mutex<BTreeMap<ObjectKey, Body>>,
    /// Bytes in the bodies of all tables together.
    used: Arc<AtomicUsize>,
    /// Rows at most.
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

/// A document and its version.
type Body = (u64, Box<[u8]>);

#[derive(Debug)]
struct Rows<R> {
    /// Boxed: what is listed comes in order, which leaves the nodes of the tree half empty.
    map: BTreeMap<ObjectKey, Box<Entry<R>>>,
    /// By scope: in which session of the cluster it was listed as a whole; 0 for never.
    complete: Vec<u64>,
    /// The objects that went last, and their versions at that: an answer that was under way then must not
    /// bring them back. One that only left the selection may come back with a newer one.
    gone: VecDeque<(Uid, u64)>,
}

impl<R> Rows<R> {
    /// The keys that begin with `prefix`.
    fn keys_in<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
        let here = self.map.range::<str, _>((Included(prefix), Unbounded)).map(|(key, _)| key);
        here.take_while(move |key| key.starts_with(prefix))
    }
}

/// What one stream lists: everything, or one namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListScope<'a> {
    /// Counts the streams of a table from 0.
    pub(crate) index: usize,
    pub(crate) namespace: Option<&'a str>,
}

impl ListScope<'_> {
    fn holds(&self, key: &str) -> bool {
        self.namespace.is_none_or(|namespace| key::split(key).0 == namespace)
    }
}

#[derive(Debug)]
struct Entry<R> {
    seen: Seen<R>,
    /// Seen since the last list began.
    confirmed: bool,
}

/// An object, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
enum Seen<R> {
    Whole(Cached<R>),
    /// It is there, and costs too much memory to be looked at.
    TooLarge {
        uid: Uid,
        version: u64,
    },
}

impl<R> Seen<R> {
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

impl<R: PartialEq> Seen<R> {
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

impl<R: Clone + PartialEq> Table<R> {
    /// An empty one for at most so many rows, filled by so many streams; `used` counts the documents of all
    /// tables.
    pub(crate) fn new(used: Arc<AtomicUsize>, scopes: usize, most: usize) -> Self {
        let rows = Rows { map: BTreeMap::new(), complete: vec![0; scopes], gone: VecDeque::new() };
        Self { rows: Mutex::new(rows), bodies: Mutex::default(), used, most }
    }

    /// What is known of a scope is of no use until it was listed again.
    pub(crate) fn invalidate_list(&self, scope: ListScope<'_>) {
        self.rows().complete[scope.index] = 0;
    }

    /// Forgets the objects of a scope, of which there are more than it has room for; returns their keys.
    pub(crate) fn clear(&self, scope: ListScope<'_>) -> Vec<ObjectKey> {
        // As if a list had ended before its first object, in no session.
        self.begin_list(scope, true);
        self.finish_list(scope, 0)
    }

    /// A list begins. Until it is complete all rows stay; with `anew` they come from a server whose
    /// versions may have gone back, so that nothing is known any more.
    pub(crate) fn begin_list(&self, scope: ListScope<'_>, anew: bool) {
        let mut rows = self.rows();
        // A server that was restored may have them again.
        rows.gone.clear();
        let listed = rows.map.iter_mut().filter(|(key, _)| scope.holds(key));
        listed.for_each(|(_, slot)| slot.confirmed = false);
        if anew {
            rows.complete[scope.index] = 0;
        }
    }

    /// The list of this session, counted from 1, is complete: what was not in it is gone. Returns the keys
    /// of that.
    pub(crate) fn finish_list(&self, scope: ListScope<'_>, session: u64) -> Vec<ObjectKey> {
        let mut rows = self.rows();
        rows.complete[scope.index] = session;
        let mut gone = Vec::new();
        rows.map.retain(|key, slot| {
            let stays = slot.confirmed || !scope.holds(key);
            if !stays {
                gone.push(key.clone());
            }
            stays
        });
        drop(rows);
        gone.iter().for_each(|key| self.drop_body(key));
        gone
    }

    /// Whether all objects of the kind are in it, as listed in this session: what was known before a
    /// connection was lost may be of a cluster that has been restored since.
    pub(crate) fn is_complete(&self, session: u64) -> bool {
        self.rows().complete.iter().all(|complete| *complete == session)
    }

    /// Takes in an object as read, listed, watched or answered to a write, whichever comes first. Our own
    /// writes come twice, as answer and as event: the second is no news.
    pub(crate) fn put(&self, key: &str, known: Cached<R>) -> PutResult {
        self.take(key, Seen::Whole(known))
    }

    /// The same for an object that costs too much memory to be looked at: it is there, and no more is known
    /// of it.
    pub(crate) fn put_too_large(&self, key: &str, uid: Uid, version: u64) -> PutResult {
        self.drop_body(key);
        self.take(key, Seen::TooLarge { uid, version })
    }

    fn take(&self, key: &str, seen: Seen<R>) -> PutResult {
        let mut rows = self.rows();
        let (uid, version) = (seen.uid(), seen.version());
        if rows.gone.iter().any(|(of, last)| *of == uid && version <= *last) {
            return PutResult::Unchanged;
        }
        let count = rows.map.len();
        let Some(slot) = rows.map.get_mut(key) else {
            if count >= self.most {
                return PutResult::Full;
            }
            rows.map.insert(key.into(), Box::new(Entry { seen, confirmed: true }));
            return PutResult::Changed;
        };
        // A watch may lag behind an answer.
        if slot.confirmed && version < slot.seen.version() {
            return PutResult::Unchanged;
        }
        slot.confirmed = true;
        let before = std::mem::replace(&mut slot.seen, seen);
        if before.tells(&slot.seen) { PutResult::Unchanged } else { PutResult::Changed }
    }

    /// Takes in what must have become of an object that is there: news of it may be slower than others.
    pub(crate) fn update(&self, key: &str, known: Cached<R>) {
        if let Some(slot) = self.rows().map.get_mut(key)
            && (slot.seen.uid(), slot.seen.version()) == (known.uid, known.version)
        {
            slot.seen = Seen::Whole(known);
        }
    }

    /// Takes in that an object was deleted, or is selected no more, with its last version; `true` if that is
    /// news.
    pub(crate) fn removed(&self, key: &str, uid: Uid, version: u64) -> bool {
        let mut rows = self.rows();
        if rows.gone.len() == MOST_GONE {
            rows.gone.pop_front();
        }
        rows.gone.push_back((uid, version));
        drop(rows);
        self.remove(key, uid)
    }

    /// Takes in that the object with this uid is not there, as somebody said who asked for it; `true` if
    /// that is news.
    pub(crate) fn remove(&self, key: &str, uid: Uid) -> bool {
        let mut rows = self.rows();
        let is_this = rows.map.get(key).is_some_and(|slot| slot.seen.uid() == uid);
        if is_this {
            rows.map.remove(key);
            drop(rows);
            self.drop_body(key);
        }
        is_this
    }

    /// What is known of an object; nothing also of one that is too large, see
    /// [`is_too_large`](Self::is_too_large).
    pub(crate) fn get(&self, key: &str) -> Option<Cached<R>> {
        match &self.rows().map.get(key)?.seen {
            Seen::Whole(known) => Some(known.clone()),
            Seen::TooLarge { .. } => None,
        }
    }

    /// Whether the object is there but costs too much memory to be looked at.
    pub(crate) fn is_too_large(&self, key: &str) -> bool {
        let rows = self.rows();
        rows.map.get(key).is_some_and(|slot| matches!(slot.seen, Seen::TooLarge { .. }))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.rows().map.contains_key(key)
    }

    /// Rows at most.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn len(&self) -> usize {
        self.rows().map.len()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.rows().map.keys().cloned().collect()
    }

    /// The keys of the objects in `namespace`.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<ObjectKey> {
        self.rows().keys_in(&key::of(namespace, "")).cloned().collect()
    }

    /// Whether `namespace` holds an object with a name that `counts`.
    pub(crate) fn has_others(&self, namespace: &str, counts: impl Fn(&str) -> bool) -> bool {
        self.rows().keys_in(&key::of(namespace, "")).any(|key| counts(key::split(key).1))
    }

    /// Keeps the document of a pair that is probably not in step, while there is room; a large one is read
    /// again by whoever has the turn for it.
    pub(crate) fn keep_body(&self, key: &str, known: &Cached<R>, object: &Value) {
        self.drop_body(key);
        if known.large || self.used.load(Relaxed) >= ROOM {
            return;
        }
        let Ok(body) = serde_json::to_vec(object) else { return };
        if self.used.load(Relaxed) + body.len() > ROOM {
            return;
        }
        self.used.fetch_add(body.len(), Relaxed);
        // Another thread may have kept one meanwhile.
        if let Some((_, old)) = lock(&self.bodies).insert(key.into(), (known.version, body.into()))
        {
            self.used.fetch_sub(old.len(), Relaxed);
        }
    }

    /// The document of this version, if it was kept; it is kept no longer.
    pub(crate) fn take_body(&self, key: &str, version: u64) -> Option<Value> {
        let (kept, body) = lock(&self.bodies).remove(key)?;
        self.used.fetch_sub(body.len(), Relaxed);
        (kept == version).then(|| json::parse(&body, USUAL_OBJECT).ok()).flatten()
    }

    pub(crate) fn drop_body(&self, key: &str) {
        if let Some((_, body)) = lock(&self.bodies).remove(key) {
            self.used.fetch_sub(body.len(), Relaxed);
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows<R>> {
        lock(&self.rows)
    }
}

/// The documents of a remote that went leave their room to the others.
impl<R> Drop for Table<R> {
    fn drop(&mut self) {
        let bytes: usize = lock(&self.bodies).values().map(|(_, body)| body.len()).sum();
        self.used.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests;
