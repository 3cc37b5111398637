//! Event handlers, as client-go has them for its informers: a change of a source or a target enqueues the pairs
//! that it affects.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use shared::{
    error::{Error, Result},
    runtime,
};

use crate::{
    cache::watched::{Change, Watched},
    connection::ClusterSession,
    controller::{Controller, LocalCluster},
    model::{
        discovery::{self, ApiResource, ResourceArg},
        key::{self, KindIndex, Pair},
        mapping::NameMapping,
        object::{Cached, ObjectReader, SourceObject, TargetObject},
    },
    sync::{reconcile, remote::RemoteSync},
};

/// Interval at which a remote's reflector checks whether the local cluster's kind was found. A poll, as either
/// the other cluster's store or the end of the session ends this wait, and no `Stop` is woken by both.
const POLL: Duration = Duration::from_millis(100);

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
            if let Some(local) = self.cluster.controller.local_kind(self.kind) {
                return discovery::resolve(&session.client, &wanted.in_version_of(&local));
            }
            if session.stop.wait(POLL) {
                return Err(Error::Unreachable("the connection ended".into()));
            }
        }
    }
}

impl WatchedKind {
    /// Finds the kind in the version that is followed.
    fn find_again(&self, session: &ClusterSession, kind: &ApiResource) -> Result<ApiResource> {
        discovery::resolve(&session.client, &self.wanted().in_version_of(kind))
    }

    /// Handles a change that is not that of an object.
    fn handle_state(&self, change: &Change<'_>) {
        let controller = &self.cluster.controller;
        if matches!(change, Change::Kind) {
            for remote in self.cluster.remotes().iter() {
                controller.enqueue_kind(remote, self.kind);
                controller.start_workers(remote);
            }
        }
        controller.stop.wake();
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
        let (namespace, name) = key::split(key);
        let mut in_a_pair = false;
        for remote in cluster.remotes().iter() {
            let source = remote.names.canonical_of_source(namespace, name);
            in_a_pair |= source.is_some();
            if let (Change::Gone { .. }, Some((namespace, name))) = (change, source)
                && controller.context.settings.is_selective()
            {
                let pair = Pair { kind: *kind, key: key::of(namespace, name).into() };
                remote.set_unlisted(&pair, true);
            }
            controller.enqueue(remote, *kind, source, urgent);
            controller.start_workers(remote);
        }
        // Room for documents is reserved for those that a worker will take.
        if let (false, LocalCluster::Source(side)) = (in_a_pair, &controller.local) {
            side.stores[*kind].drop_document(key);
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
        cluster.remotes().iter().for_each(|remote| remote.retry_altered(Some(*kind)));
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
        let mut in_a_pair = false;
        for remote in remotes.iter() {
            in_a_pair |= controller.enqueue_target(remote, *kind, key, urgent);
            controller.start_workers(remote);
        }
        let side = match &controller.local {
            LocalCluster::Target(side) => Some(side),
            LocalCluster::Source(_) => remotes.first().map(|remote| &remote.target),
        };
        if let (false, Some(side)) = (in_a_pair, side) {
            side.stores[*kind].drop_document(key);
        }
    }
}

impl Controller {
    /// Enqueues all pairs of a remote.
    pub(super) fn enqueue_all(&self, remote: &RemoteSync) {
        for kind in self.context.settings.resources.kinds() {
            self.enqueue_kind(remote, kind);
        }
    }

    /// Enqueues all pairs of a kind.
    fn enqueue_kind(&self, remote: &RemoteSync, kind: KindIndex) {
        for key in remote.source.stores[kind].keys() {
            let (namespace, name) = key::split(&key);
            let source = remote.names.canonical_of_source(namespace, name);
            self.enqueue(remote, kind, source, false);
        }
        for key in remote.target.stores[kind].keys() {
            self.enqueue_target(remote, kind, &key, false);
        }
    }

    /// Enqueues a target's pair if the target has a source or may be this remote's orphan, and returns whether
    /// it did: with many remotes most targets belong to another one.
    fn enqueue_target(
        &self,
        remote: &RemoteSync,
        kind: KindIndex,
        key: &str,
        urgent: bool,
    ) -> bool {
        let (namespace, name) = key::split(key);
        let Some(canonical) = remote.names.canonical_of_target(namespace, name) else {
            return false;
        };
        let (source_namespace, source_name) = remote.names.source(canonical.0, canonical.1);
        let source = key::of(&source_namespace, &source_name);
        let store = &remote.target.stores[kind];
        let gone = !store.has(key);
        let origin =
            store.get(key).and_then(|target| target.value.copy_of).map(|copy| copy.cluster);
        let belongs = gone
            || self.context.settings.mode.owns_by_name()
            || origin.is_some() && origin == remote.source.cluster.uid()
            || remote.source.stores[kind].has(&source);
        self.enqueue(remote, kind, Some(canonical).filter(|_| belongs), urgent);
        belongs
    }

    /// Enqueues the pair of these canonical names, if its source's namespace is followed.
    pub(super) fn enqueue(
        &self,
        remote: &RemoteSync,
        kind: KindIndex,
        canonical: Option<(&str, &str)>,
        urgent: bool,
    ) {
        let followed = &self.context.settings.source_namespaces;
        let follows = |namespace: &str| {
            namespace.is_empty()
                || followed.is_empty()
                || followed.iter().any(|followed| followed == namespace)
        };
        if let Some((namespace, name)) = canonical.filter(|(namespace, _)| follows(namespace)) {
            let key = key::of(namespace, name).into();
            remote.queue.add(Pair { kind, key }, urgent);
        }
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
