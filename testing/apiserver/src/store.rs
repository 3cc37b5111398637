//! The object store: all objects, the version counter, and the history that serves watches.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{Receiver, Sender, channel},
    },
};

use serde_json::Value;

use crate::lock::lock;

/// The key of an object. `resource` is the qualified plural.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// One change. For a deletion, `object` is the last state with the version of the deletion.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) change: Change,
    pub(crate) key: Key,
    pub(crate) object: Arc<Value>,
    pub(crate) before: Option<Arc<Value>>,
}

/// The outcome of a transaction for its object.
pub(crate) enum Outcome {
    Put(Value),
    Remove(Value),
    /// Changes nothing; the value only answers the request.
    Answer(Value),
}

/// The objects at one version.
pub(crate) struct Snapshot {
    pub(crate) version: u64,
    pub(crate) objects: Vec<(Key, Arc<Value>)>,
}

/// The number of kept events: enough for every test. The real server keeps five minutes of them.
const HISTORY: usize = 100_000;

/// A backup of all objects, for [`Server::restore`](crate::Server::restore).
#[derive(Debug, Clone)]
pub struct Backup {
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
}

#[derive(Default)]
struct Content {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Keys of objects by uid. `owned` has the keys of dependents by their owner's uid.
    uids: HashMap<String, Key>,
    owned: HashMap<String, BTreeSet<Key>>,
    version: u64,
    /// Watches from an older version cannot be served.
    compacted: u64,
    history: VecDeque<Arc<Event>>,
    watchers: Vec<Watcher>,
}

struct Watcher {
    resource: String,
    namespace: String,
    events: Sender<Arc<Event>>,
}

impl Watcher {
    fn wants(&self, key: &Key) -> bool {
        wants(&self.resource, &self.namespace, key)
    }
}

fn wants(resource: &str, namespace: &str, key: &Key) -> bool {
    (resource.is_empty() || resource == key.resource)
        && (namespace.is_empty() || namespace == key.namespace)
}

#[derive(Default)]
pub(crate) struct Store(Mutex<Content>);

impl Store {
    fn inner(&self) -> MutexGuard<'_, Content> {
        lock(&self.0)
    }

    pub(crate) fn version(&self) -> u64 {
        self.inner().version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.inner().compacted
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.inner().objects.get(key).cloned()
    }

    /// Returns the objects of a resource in a namespace; an empty string means all.
    pub(crate) fn snapshot(&self, resource: &str, namespace: &str) -> Snapshot {
        self.inner().snapshot(resource, namespace)
    }

    /// Returns them at `version`; None if the history does not reach back that far.
    pub(crate) fn snapshot_at(
        &self,
        resource: &str,
        namespace: &str,
        version: u64,
    ) -> Option<Snapshot> {
        let inner = self.inner();
        if version < inner.compacted {
            return None;
        }
        let mut objects: BTreeMap<_, _> =
            inner.snapshot(resource, namespace).objects.into_iter().collect();
        for event in inner.history.iter().rev().take_while(|event| event.version > version) {
            if !wants(resource, namespace, &event.key) {
                continue;
            }
            match &event.before {
                Some(before) => objects.insert(event.key.clone(), before.clone()),
                None => objects.remove(&event.key),
            };
        }
        Some(Snapshot { version, objects: objects.into_iter().collect() })
    }

    /// Returns the key of the object with this uid.
    pub(crate) fn of_uid(&self, uid: &str) -> Option<Key> {
        self.inner().uids.get(uid).cloned()
    }

    /// Returns all objects that have this uid as an owner.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<(Key, Arc<Value>)> {
        let inner = self.inner();
        let keys = inner.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((key.clone(), inner.objects.get(key)?.clone()))).collect()
    }

    pub(crate) fn backup(&self) -> Backup {
        let inner = self.inner();
        Backup { objects: inner.objects.clone(), version: inner.version }
    }

    /// Restores a backup, including resource versions; pending watch events are lost.
    pub(crate) fn restore(&self, backup: &Backup) {
        let mut inner = self.inner();
        let watchers = std::mem::take(&mut inner.watchers);
        let version = backup.version;
        *inner = Content { version, compacted: version, watchers, ..Content::default() };
        for (key, object) in &backup.objects {
            inner.insert(key, object.clone());
        }
    }

    /// Changes one object atomically and returns its new state.
    pub(crate) fn transact<E>(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Value>) -> Result<Outcome, E>,
    ) -> Result<Value, E> {
        let mut inner = self.inner();
        let current = inner.objects.get(key).cloned();
        match decide(current.as_deref())? {
            Outcome::Put(object) => {
                let change = current.as_ref().map_or(Change::Added, |_| Change::Modified);
                Ok(inner.commit(change, key, object, current))
            }
            Outcome::Remove(object) => Ok(inner.commit(Change::Deleted, key, object, current)),
            Outcome::Answer(object) => Ok(object),
        }
    }

    /// Returns all changes of a resource after `from`, until the receiver is dropped. None if the history does not
    /// reach back that far.
    pub(crate) fn watch(
        &self,
        resource: &str,
        namespace: &str,
        from: u64,
    ) -> Option<Receiver<Arc<Event>>> {
        let mut inner = self.inner();
        (from >= inner.compacted).then(|| inner.subscribe(resource, namespace, from))
    }

    /// Returns the current objects and all later changes, without a gap.
    pub(crate) fn snapshot_and_watch(
        &self,
        resource: &str,
        namespace: &str,
    ) -> (Snapshot, Receiver<Arc<Event>>) {
        let mut inner = self.inner();
        let snapshot = inner.snapshot(resource, namespace);
        let events = inner.subscribe(resource, namespace, snapshot.version);
        (snapshot, events)
    }

    /// Ends the watches of a resource after their pending events.
    pub(crate) fn end_watches(&self, resource: &str) {
        self.inner().watchers.retain(|watcher| watcher.resource != resource);
    }

    /// Drops the history. This counts as a change, so that all versions returned so far are too old.
    pub(crate) fn compact(&self) {
        let mut inner = self.inner();
        inner.version += 1;
        inner.compacted = inner.version;
        inner.history.clear();
    }
}

impl Content {
    fn snapshot(&self, resource: &str, namespace: &str) -> Snapshot {
        let first =
            Key { resource: resource.into(), namespace: namespace.into(), name: String::new() };
        let objects = self
            .objects
            .range(first..)
            .take_while(|(key, _)| resource.is_empty() || key.resource == resource)
            .filter(|(key, _)| wants(resource, namespace, key))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        Snapshot { version: self.version, objects }
    }

    fn subscribe(&mut self, resource: &str, namespace: &str, from: u64) -> Receiver<Arc<Event>> {
        let (events, receiver) = channel();
        let watcher = Watcher { resource: resource.into(), namespace: namespace.into(), events };
        let missed = self.history.iter().filter(|e| e.version > from && watcher.wants(&e.key));
        for event in missed {
            let _ = watcher.events.send(event.clone());
        }
        self.watchers.push(watcher);
        receiver
    }

    fn commit(
        &mut self,
        change: Change,
        key: &Key,
        mut object: Value,
        before: Option<Arc<Value>>,
    ) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let shared = Arc::new(object.clone());
        self.remove(key);
        if change != Change::Deleted {
            self.insert(key, shared.clone());
        }
        let version = self.version;
        self.publish(Arc::new(Event { version, change, key: key.clone(), object: shared, before }));
        object
    }

    fn insert(&mut self, key: &Key, object: Arc<Value>) {
        self.uids.insert(uid(&object["metadata"]).into(), key.clone());
        for owner in owners(&object) {
            self.owned.entry(uid(owner).into()).or_default().insert(key.clone());
        }
        self.objects.insert(key.clone(), object);
    }

    fn remove(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        self.uids.remove(uid(&object["metadata"]));
        for owner in owners(&object) {
            if let Some(owned) = self.owned.get_mut(uid(owner)) {
                owned.remove(key);
            }
        }
    }

    fn publish(&mut self, event: Arc<Event>) {
        let delivered = |watcher: &Watcher| {
            !watcher.wants(&event.key) || watcher.events.send(event.clone()).is_ok()
        };
        self.watchers.retain(delivered);
        self.history.push_back(event);
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.compacted = oldest.version;
        }
    }
}

pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn uid(part: &Value) -> &str {
    part["uid"].as_str().unwrap_or_default()
}
