//! A pair that a worker has in hand: where its two objects are, how to ask for them, and how what is
//! answered goes into the stores at once, so that the next decision knows it and the event that follows is
//! no news.

use std::{fmt, time::Instant};

use serde_json::Value;
use shared::{
    client::{Client, USUAL_OBJECT},
    error::{Error, Result},
    resource::{NAMESPACES, Resource, Target},
    stop::Stop,
};

use crate::{
    cache::{cluster::ClusterClient, store::Store},
    model::{
        annotations::{Origin, Uid},
        key::{self, ObjectKey, Pair},
        object::{Cached, ObjectReader, SourceObject, TargetObject},
    },
    sync::{
        context::SyncContext,
        observed::Observed,
        patch::Desired,
        permits::SMALL_ANSWER,
        remote::{ApiResources, RemoteSync},
        workqueue::WorkItem,
    },
};

/// See the module.
pub(crate) struct PairContext<'a> {
    pub(crate) context: &'a SyncContext,
    pub(crate) remote: &'a RemoteSync,
    pub(crate) id: &'a Pair,
    pub(crate) kinds: &'a ApiResources,
    /// Namespace and name.
    pub(crate) source: (String, String),
    pub(crate) target: (String, String),
    pub(crate) source_key: ObjectKey,
    pub(crate) target_key: ObjectKey,
    /// When the pair was put into the queue.
    pub(crate) since: Instant,
    /// What each of its objects may cost in memory.
    most: usize,
}

/// `widgets.example.com ns/x-us (hub1)`
impl fmt::Display for PairContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resource { plural, group, .. } = &self.kinds.source.resource;
        let dot = if group.is_empty() { "" } else { "." };
        let (remote, (namespace, name)) = (&self.remote.name, &self.source);
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{plural}{dot}{group} {namespace}{slash}{name} ({remote})")
    }
}

impl<'a> PairContext<'a> {
    pub(crate) fn new(
        context: &'a SyncContext,
        remote: &'a RemoteSync,
        item: &'a WorkItem,
        kinds: &'a ApiResources,
    ) -> Self {
        let WorkItem { pair, since, large } = item;
        let (namespace, name) = key::split(&pair.key);
        let source = remote.names.source(namespace, name);
        let target = remote.names.target(namespace, name);
        let source_key = key::of(&source.0, &source.1);
        let target_key = key::of(&target.0, &target.1);
        let (since, most) = (*since, if *large { USUAL_OBJECT } else { SMALL_ANSWER });
        Self {
            context,
            remote,
            id: pair,
            kinds,
            source,
            target,
            source_key,
            target_key,
            since,
            most,
        }
    }

    /// Whether it did not wait for its turn among large ones.
    pub(crate) fn is_hurried(&self) -> bool {
        self.most == SMALL_ANSWER
    }

    /// Whether its objects have to wait for their turn among the large ones.
    pub(crate) fn is_large(&self) -> bool {
        let source = self.source_side().store.get(&self.source_key);
        let target = self.target_side().store.get(&self.target_key);
        source.is_some_and(|source| source.large) || target.is_some_and(|target| target.large)
    }

    /// Which of them costs too much memory to be looked at at all, if one does.
    pub(crate) fn too_large(&self) -> Option<&'static str> {
        if self.source_side().store.is_too_large(&self.source_key) {
            return Some("the source");
        }
        self.target_side().store.is_too_large(&self.target_key).then_some("the target")
    }

    /// Whether both sides can have such an object.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let (namespace, name) = key::split(&self.id.key);
        self.remote.names.check(namespace, name)
    }

    pub(crate) fn observe(&self) -> Observed {
        self.remote.observe(self.id, &self.context.settings, &self.context.reader)
    }
}

impl PairContext<'_> {
    pub(crate) fn ask_source<T>(&self, request: impl FnOnce(&Client) -> Result<T>) -> Result<T> {
        let most = self.most;
        let request = |client: &Client| request(&client.limited_to(most));
        self.remote.source.cluster.ask(&self.remote.stop, request)
    }

    pub(crate) fn ask_target<T>(&self, request: impl FnOnce(&Client) -> Result<T>) -> Result<T> {
        let most = self.most;
        let request = |client: &Client| request(&client.limited_to(most));
        self.remote.target.cluster.ask(&self.remote.stop, request)
    }

    pub(crate) fn at_source(&self) -> Target<'_> {
        at(&self.kinds.source.resource, &self.source)
    }

    pub(crate) fn at_target(&self) -> Target<'_> {
        at(&self.kinds.target.resource, &self.target)
    }

    /// Where the Secret goes: it has the suffix of the source's own name.
    pub(crate) fn uploaded_name(&self, index: usize) -> String {
        self.remote.names.source("", &self.context.settings.secrets[index]).1
    }

    pub(crate) fn desired<'b>(
        &'b self,
        source: &'b Value,
        known: &Cached<SourceObject>,
    ) -> Desired<'b> {
        let reader = &self.context.reader;
        let origin = self.remote.source.cluster.uid().map(|cluster| Origin {
            cluster,
            namespace: &self.source.0,
            name: &self.source.1,
            uid: known.uid,
            generation: known.value.state.generation.into(),
            finalizer: &reader.finalizer,
        });
        Desired { reader, source, origin }
    }

    /// The source's document: kept from the event that told of it, or read.
    pub(crate) fn source_document(&self, source: &Cached<SourceObject>) -> Result<Value> {
        self.source_side().document(source, &self.remote.stop)
    }

    /// The same of the target.
    pub(crate) fn target_document(&self, target: &Cached<TargetObject>) -> Result<Value> {
        self.target_side().document(target, &self.remote.stop)
    }

    /// Takes in what a server says of the source.
    pub(crate) fn store_source(&self, object: Value) -> Result<Cached<SourceObject>> {
        self.source_side().know(object)
    }

    /// The same of the target.
    pub(crate) fn store_target(&self, object: Value) -> Result<Cached<TargetObject>> {
        self.target_side().know(object)
    }

    pub(crate) fn forget_source(&self, uid: Uid) {
        self.source_side().store.remove(&self.source_key, uid);
    }

    pub(crate) fn forget_target(&self, uid: Uid) {
        self.target_side().store.remove(&self.target_key, uid);
    }

    fn source_side(&self) -> PairObject<'_, SourceObject> {
        PairObject {
            cluster: &self.remote.source.cluster,
            store: &self.remote.source.stores[self.id.kind],
            key: &self.source_key,
            place: self.at_source(),
            reader: &self.context.reader,
            read: ObjectReader::source,
            most: self.most,
        }
    }

    fn target_side(&self) -> PairObject<'_, TargetObject> {
        PairObject {
            cluster: &self.remote.target.cluster,
            store: &self.remote.target.stores[self.id.kind],
            key: &self.target_key,
            place: self.at_target(),
            reader: &self.context.reader,
            read: ObjectReader::target,
            most: self.most,
        }
    }

    /// Nothing is to be done with the documents.
    pub(crate) fn drop_documents(&self) {
        self.remote.source.stores[self.id.kind].drop_document(&self.source_key);
        self.remote.target.stores[self.id.kind].drop_document(&self.target_key);
    }

    /// After the target was made so from this state of the source; both may be others by now.
    pub(crate) fn record_settled(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) {
        let mut settled = self.remote.settled(self.id);
        settled.after_update(&source.value.state, &target.value.state);
        self.remote.set_settled(self.id, settled);
    }

    /// Reads both objects, and the namespace, as they are now.
    pub(crate) fn refresh(&self) -> Result<()> {
        let observed = self.observe();
        match self.ask_source(|client| client.get(&self.at_source())) {
            Ok(object) if observed.source.is_some() => {
                self.store_source(object)?;
            }
            Err(Error::NotFound(_)) => {
                observed.source.iter().for_each(|source| self.forget_source(source.uid));
            }
            other => drop(other?),
        }
        match self.ask_target(|client| client.get(&self.at_target())) {
            Ok(object) => {
                self.store_target(object)?;
            }
            Err(Error::NotFound(_)) => {
                observed.target.iter().for_each(|target| self.forget_target(target.uid));
            }
            Err(error) => return Err(error),
        }
        if self.target.0.is_empty() { Ok(()) } else { self.refresh_namespace() }
    }

    pub(crate) fn refresh_namespace(&self) -> Result<()> {
        let place = NAMESPACES.cluster_object(&self.target.0);
        let (store, key) = (&self.remote.target.namespaces, key::of("", &self.target.0));
        match self.ask_target(|client| client.get(&place)) {
            Ok(object) => {
                store.put(&key, self.context.reader.namespace(&object).ok_or_else(|| odd(&place))?);
            }
            Err(Error::NotFound(_)) => {
                if let Some(known) = store.get(&key) {
                    store.remove(&key, known.uid);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// One object of the pair, and the store that it is in.
struct PairObject<'a, R> {
    cluster: &'a ClusterClient,
    store: &'a Store<R>,
    key: &'a str,
    place: Target<'a>,
    reader: &'a ObjectReader,
    read: fn(&ObjectReader, &Value) -> Option<Cached<R>>,
    most: usize,
}

impl<R: Clone + PartialEq> PairObject<'_, R> {
    fn document(&self, known: &Cached<R>, stop: &Stop) -> Result<Value> {
        if let Some(body) = self.store.take_document(self.key, known.version) {
            return Ok(body);
        }
        let get = |client: &Client| client.limited_to(self.most).get(&self.place);
        let body = self.cluster.ask(stop, get).map_err(stale)?;
        let now = (self.read)(self.reader, &body).ok_or_else(|| odd(&self.place))?;
        if now == *known {
            return Ok(body);
        }
        self.store.put(self.key, now);
        Err(Error::Conflict(format!("{} changed meanwhile", self.place)))
    }

    fn know(&self, object: Value) -> Result<Cached<R>> {
        let known = (self.read)(self.reader, &object).ok_or_else(|| odd(&self.place))?;
        self.store.put(self.key, known.clone());
        self.store.keep_document(self.key, &known, &object);
        Ok(known)
    }
}

fn at<'a>(resource: &'a Resource, (namespace, name): &'a (String, String)) -> Target<'a> {
    match &**namespace {
        "" => resource.cluster_object(name),
        namespace => resource.object(namespace, name),
    }
}

/// What was to be read is gone: the decision was about an older state.
pub(crate) fn stale(error: Error) -> Error {
    match error {
        Error::NotFound(sentence) => Error::Conflict(sentence),
        error => error,
    }
}

pub(crate) fn odd(place: &Target<'_>) -> Error {
    Error::BadPeer(format!("{place}: the answer has no uid or resourceVersion of the usual form"))
}
