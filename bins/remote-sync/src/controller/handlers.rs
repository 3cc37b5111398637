//! Event handlers, as client-go has them for its informers: a change of a source or a target enqueues the pairs
//! that it affects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::error::{Error, Result};
use serde_json::Value;
use sidecar::runtime;

use crate::{
    cache::watched::{Change, Watched},
    connection::ClusterSession,
    controller::Controller,
    model::{
        discovery::{self, ApiResource, ResourceArg},
        key::{self, KindIndex, Pair},
        mapping::NameMapping,
        object::{Cached, ObjectReader, SourceObject, TargetObject},
    },
    sync::{reconcile, remote::RemoteSync},
};

/// The longest wait in one piece for the local cluster's kind, which ends when it is found.
const SLICE: Duration = Duration::from_secs(60);

/// A cluster that is watched: a remote's, or the local one for all remotes.
#[derive(Clone)]
pub(super) struct WatchedCluster {
    pub(super) controller: Arc<Controller>,
    remote: Option<Arc<RemoteSync>>,
    pub(super) names: NameMapping,
}

impl WatchedCluster {
    pub(super) fn new(controller: &Arc<Controller>, remote: Option<&Arc<RemoteSync>>) -> Self {
        let common = || controller.context.settings.mapping.common();
        let names = remote.map_or_else(common, |remote| remote.names.clone());
        Self { controller: controller.clone(), remote: remote.cloned(), names }
    }

    /// The remotes whose pairs a change can affect: one for a remote's cluster, all for the local one.
    pub(super) fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        let only = |remote: &Arc<RemoteSync>| Arc::new(vec![remote.clone()]);
        self.remote.as_ref().map_or_else(|| self.controller.remotes(), only)
    }

    /// Handles a change of the list of Namespaces or Secrets.
    pub(super) fn handle_state(&self) {
        for remote in self.remotes().iter() {
            let kinds = self.controller.context.settings.resources.kinds();
            kinds.for_each(|kind| remote.enqueue_answered(kind));
        }
        self.controller.stop.wake();
    }

    pub(super) fn reader(&self) -> &ObjectReader {
        &self.controller.context.reader
    }

    pub(super) fn is_target(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_target(namespace, name).is_some()
    }
}

/// A kind of `-resource` on a watched cluster.
pub(super) struct WatchedKind {
    pub(super) cluster: WatchedCluster,
    pub(super) kind: KindIndex,
}

impl WatchedKind {
    fn wanted(&self) -> &ResourceArg {
        &self.cluster.controller.context.settings.resources[self.kind]
    }

    fn reader(&self) -> &ObjectReader {
        &self.cluster.controller.context.readers[self.kind]
    }

    /// Returns whether a kind has the local cluster's version, as far as that is known.
    fn accepts(&self, found: &ApiResource) -> bool {
        let local = self.cluster.controller.local_kind(self.kind);
        local.is_none_or(|local| local.resource.version == found.resource.version)
    }

    /// Finds the kind on the cluster; the local cluster decides the version for both sides.
    fn find(&self, session: &ClusterSession) -> Result<ApiResource> {
        let wanted = self.wanted();
        if self.cluster.remote.is_none() {
            return discovery::resolve(&session.client, wanted);
        }
        loop {
            let seen = session.stop.wakes();
            self.cluster.controller.wake_for_local_kind(&session.stop);
            if let Some(local) = self.cluster.controller.local_kind(self.kind) {
                return discovery::resolve(&session.client, &wanted.in_version_of(&local));
            }
            if session.stop.wait_for_change(seen, Instant::now() + SLICE) {
                return Err(Error::Unreachable("the connection ended".into()));
            }
        }
    }

    /// Finds the kind in the version that is followed.
    fn find_again(&self, session: &ClusterSession, kind: &ApiResource) -> Result<ApiResource> {
        discovery::resolve(&session.client, &self.wanted().in_version_of(kind))
    }

    /// Handles a change that is not that of an object.
    fn handle_state(&self, change: &Change<'_>) {
        let controller = &self.cluster.controller;
        for remote in self.cluster.remotes().iter() {
            match change {
                Change::Kind => controller.enqueue_kind(remote, self.kind),
                _ => remote.enqueue_answered(self.kind),
            }
        }
        controller.stop.wake();
        if self.cluster.remote.is_none() {
            controller.local_kind_changed();
        }
    }
}

/// Watches the sources of a kind.
pub(super) struct SourceWatch(pub(super) WatchedKind);

impl Watched for SourceWatch {
    type Object = SourceObject;
    const IN_PAIRS: bool = true;

    fn kind_name(&self) -> String {
        self.0.wanted().to_string()
    }

    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource> {
        self.0.find(session)
    }

    fn find_kind_again(
        &self,
        session: &ClusterSession,
        kind: &ApiResource,
    ) -> Option<Result<ApiResource>> {
        Some(self.0.find_again(session, kind))
    }

    fn accepts_kind(&self, kind: &ApiResource) -> bool {
        self.0.accepts(kind)
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.cluster.names.canonical_of_source(namespace, name).is_some()
    }

    fn read(&self, object: &Value) -> Option<Cached<SourceObject>> {
        self.0.reader().source(object)
    }

    fn keeps_document(&self, object: &SourceObject, listed: bool) -> bool {
        !listed || !object.seems_synced()
    }

    fn handle(&self, change: &Change<'_>) {
        let WatchedKind { cluster, kind } = &self.0;
        let controller = &cluster.controller;
        let Some((key, urgent)) = change.object() else { return self.0.handle_state(change) };
        for remote in cluster.remotes().iter() {
            let source = remote.names.canonical_of_source_key(key);
            controller.enqueue(remote, *kind, source, urgent);
        }
    }
}

/// Watches the targets of a kind.
pub(super) struct TargetWatch(pub(super) WatchedKind);

impl Watched for TargetWatch {
    type Object = TargetObject;
    const IN_PAIRS: bool = true;

    fn kind_name(&self) -> String {
        self.0.wanted().to_string()
    }

    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource> {
        let found = self.0.find(session)?;
        let WatchedKind { cluster, kind } = &self.0;
        // What was refused may be accepted by now.
        cluster.remotes().iter().for_each(|remote| remote.retry(*kind));
        Ok(found)
    }

    fn find_kind_again(
        &self,
        session: &ClusterSession,
        kind: &ApiResource,
    ) -> Option<Result<ApiResource>> {
        Some(self.0.find_again(session, kind))
    }

    fn accepts_kind(&self, kind: &ApiResource) -> bool {
        self.0.accepts(kind)
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.cluster.is_target(namespace, name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetObject>> {
        self.0.reader().target(object)
    }

    fn keeps_document(&self, _object: &TargetObject, listed: bool) -> bool {
        !listed
    }

    fn handle(&self, change: &Change<'_>) {
        let WatchedKind { cluster, kind } = &self.0;
        let (controller, remotes) = (&cluster.controller, cluster.remotes());
        let Some((key, urgent)) = change.object() else { return self.0.handle_state(change) };
        controller.enqueue_target(&remotes, *kind, key, urgent);
    }
}

impl Controller {
    /// Enqueues all pairs of a remote: those of its sources, and those that only have a copy.
    pub(super) fn enqueue_all(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        for kind in self.context.settings.resources.kinds() {
            self.enqueue_kind(remote, kind);
        }
    }

    /// Enqueues all pairs of a kind.
    fn enqueue_kind(self: &Arc<Self>, remote: &Arc<RemoteSync>, kind: KindIndex) {
        let names = &remote.names;
        let is_source = |key: &str| names.canonical_of_source_key(key).is_some();
        for key in remote.source.stores[kind].keys_where(|key, _| is_source(key)) {
            self.enqueue(remote, kind, names.canonical_of_source_key(&key), false);
        }
        let ours = |target: &TargetObject| {
            let from = target.copy_of.as_ref().map(|copy| copy.cluster);
            from.is_some_and(|from| remote.is_followed_for(from))
        };
        let copies = remote.target.stores[kind].keys_where(|_, it| it.is_some_and(ours));
        for key in copies {
            let (namespace, name) = key::split(&key);
            let target = remote.names.canonical_of_target(namespace, name);
            self.enqueue(remote, kind, target, false);
        }
    }

    /// Enqueues a target's pair for each of the remotes that has its source, or whose orphan it may be. With many remotes most targets belong to another one, so this is quick.
    pub(super) fn enqueue_target(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: KindIndex,
        key: &str,
        urgent: bool,
    ) {
        let Some(first) = remotes.first() else { return };
        // All of them have it: the local cluster's, or that of the only remote.
        let store = &first.target.stores[kind];
        let gone = !store.has(key);
        let origin =
            store.get(key).and_then(|target| target.value.copy_of).map(|copy| copy.cluster);
        let (namespace, name) = key::split(key);
        for remote in remotes {
            let Some(canonical) = remote.names.canonical_of_target(namespace, name) else {
                continue;
            };
            let source = remote.names.source_key(canonical.0, canonical.1);
            let concerned = origin.is_some_and(|origin| remote.is_followed_for(origin))
                || remote.source.stores[kind].has(&source)
                || gone && remote.knows(kind, canonical);
            if concerned {
                self.enqueue(remote, kind, Some(canonical), urgent);
            }
        }
    }

    /// Enqueues the pair of these canonical names, if there are any.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        remote: &Arc<RemoteSync>,
        kind: KindIndex,
        canonical: Option<(&str, &str)>,
        urgent: bool,
    ) {
        let Some((namespace, name)) = canonical else { return };
        let key = key::of(namespace, name).into();
        remote.queue.add(Pair { kind, key }, urgent);
        self.start_workers(remote);
    }

    /// Starts as many workers as the remote's workqueue needs.
    pub(super) fn start_workers(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        while remote.queue.wants_worker() {
            let (controller, of) = (self.clone(), remote.clone());
            let work = move || {
                reconcile::run_worker(&controller.context, &of, &|| controller.start_workers(&of))
            };
            if let Err(error) = runtime::spawn("worker", work) {
                log::warn!(remote:% = remote.name, error:% = error; "no thread for a worker");
                remote.queue.lacks_worker();
                return;
            }
        }
    }
}
