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
use shared::lock::lock;

use crate::{marks::Uid, record::Known};

/// So many may go while one answer is under way.
const MOST_GONE: usize = 64;
/// All documents that are kept at a time, in bytes: those of pairs that are not in step yet.
const ROOM: usize = 8 << 20;

/// `namespace/name`, or `/name` for a kind that is in no namespace.
pub(crate) type Key = Box<str>;

/// The key of an object.
pub(crate) fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}").into()
}

/// Namespace and name of a key.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The objects of one kind on one cluster.
#[derive(Debug)]
pub(crate) struct Table<R> {
    rows: Mutex<Rows<R>>,
    bodies: Mutex<BTreeMap<Key, Body>>,
    /// Bytes in the bodies of all tables together.
    used: Arc<AtomicUsize>,
}

/// A document and its version.
type Body = (u64, Box<[u8]>);

#[derive(Debug)]
struct Rows<R> {
    /// Boxed: what is listed comes in order, which leaves the nodes of the tree half empty.
    map: BTreeMap<Key, Box<Slot<R>>>,
    /// By scope: in which session of the cluster it was listed as a whole; 0 for never.
    complete: Vec<u64>,
    /// The objects that went last, and their versions at that: an answer that was under way then must not
    /// bring them back. One that only left the selection may come back with a newer one.
    gone: VecDeque<(Uid, u64)>,
}

impl<R> Rows<R> {
    /// The keys that begin with `prefix`.
    fn keys_in<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Key> {
        let here = self.map.range::<str, _>((Included(prefix), Unbounded)).map(|(key, _)| key);
        here.take_while(move |key| key.starts_with(prefix))
    }
}

/// What one stream lists: everything, or one namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Counts the streams of a table from 0.
    pub(crate) index: usize,
    pub(crate) namespace: Option<&'a str>,
}

impl Scope<'_> {
    fn holds(&self, key: &str) -> bool {
        self.namespace.is_none_or(|namespace| split(key).0 == namespace)
    }
}

#[derive(Debug)]
struct Slot<R> {
    known: Known<R>,
    /// Seen since the last list began.
    confirmed: bool,
}

impl<R: Clone + PartialEq> Table<R> {
    /// An empty one, filled by so many streams; `used` counts the documents of all tables.
    pub(crate) fn new(used: Arc<AtomicUsize>, scopes: usize) -> Self {
        let rows = Rows { map: BTreeMap::new(), complete: vec![0; scopes], gone: VecDeque::new() };
        Self { rows: Mutex::new(rows), bodies: Mutex::default(), used }
    }

    /// What is known of a scope is of no use until it was listed again.
    pub(crate) fn void(&self, scope: Scope<'_>) {
        self.rows().complete[scope.index] = 0;
    }

    /// A list begins. Until it is complete all rows stay; with `anew` they come from a server whose
    /// versions may have gone back, so that nothing is known any more.
    pub(crate) fn begin(&self, scope: Scope<'_>, anew: bool) {
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
    pub(crate) fn complete(&self, scope: Scope<'_>, session: u64) -> Vec<Key> {
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

    /// Takes in an object as read, listed, watched or answered to a write, whichever comes first; `true`
    /// if that is news. Our own writes come twice, as answer and as event: the second is none.
    pub(crate) fn put(&self, key: &str, known: Known<R>) -> bool {
        let mut rows = self.rows();
        if rows.gone.iter().any(|(uid, version)| *uid == known.uid && known.version <= *version) {
            return false;
        }
        let Some(slot) = rows.map.get_mut(key) else {
            rows.map.insert(key.into(), Box::new(Slot { known, confirmed: true }));
            return true;
        };
        // A watch may lag behind an answer.
        if slot.confirmed && known.version < slot.known.version {
            return false;
        }
        slot.confirmed = true;
        let news = slot.known.uid != known.uid || slot.known.row != known.row;
        slot.known = known;
        news
    }

    /// Takes in what must have become of an object that is there: news of it may be slower than others.
    pub(crate) fn update(&self, key: &str, known: Known<R>) {
        if let Some(slot) = self.rows().map.get_mut(key)
            && (slot.known.uid, slot.known.version) == (known.uid, known.version)
        {
            slot.known = known;
        }
    }

    /// Takes in the last state of an object that was deleted, or is selected no more; `true` if that is news.
    pub(crate) fn removed(&self, key: &str, last: &Known<R>) -> bool {
        let mut rows = self.rows();
        if rows.gone.len() == MOST_GONE {
            rows.gone.pop_front();
        }
        rows.gone.push_back((last.uid, last.version));
        drop(rows);
        self.remove(key, last.uid)
    }

    /// Takes in that the object with this uid is not there, as somebody said who asked for it; `true` if
    /// that is news.
    pub(crate) fn remove(&self, key: &str, uid: Uid) -> bool {
        let mut rows = self.rows();
        let is_this = rows.map.get(key).is_some_and(|slot| slot.known.uid == uid);
        if is_this {
            rows.map.remove(key);
            drop(rows);
            self.drop_body(key);
        }
        is_this
    }

    pub(crate) fn get(&self, key: &str) -> Option<Known<R>> {
        self.rows().map.get(key).map(|slot| slot.known.clone())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.rows().map.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows().map.len()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.rows().map.keys().cloned().collect()
    }

    /// The keys of the objects in `namespace`.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<Key> {
        self.rows().keys_in(&key(namespace, "")).cloned().collect()
    }

    /// Whether `namespace` holds an object with a name that `counts`.
    pub(crate) fn has_others(&self, namespace: &str, counts: impl Fn(&str) -> bool) -> bool {
        self.rows().keys_in(&key(namespace, "")).any(|key| counts(split(key).1))
    }

    /// Keeps the document of a pair that is probably not in step, while there is room.
    pub(crate) fn keep_body(&self, key: &str, version: u64, object: &mut Value) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.drop_body(key);
        if self.used.load(Relaxed) >= ROOM {
            return;
        }
        let Ok(body) = serde_json::to_vec(object) else { return };
        if self.used.load(Relaxed) + body.len() > ROOM {
            return;
        }
        self.used.fetch_add(body.len(), Relaxed);
        // Another thread may have kept one meanwhile.
        if let Some((_, old)) = lock(&self.bodies).insert(key.into(), (version, body.into())) {
            self.used.fetch_sub(old.len(), Relaxed);
        }
    }

    /// The document of this version, if it was kept; it is kept no longer.
    pub(crate) fn take_body(&self, key: &str, version: u64) -> Option<Value> {
        let (kept, body) = lock(&self.bodies).remove(key)?;
        self.used.fetch_sub(body.len(), Relaxed);
        (kept == version).then(|| serde_json::from_slice(&body).ok()).flatten()
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
