//! Event handlers, as in client-go's informers: a changed object enqueues the pairs that it affects, and a complete
//! list enqueues all pairs of its kind.

use std::{marker::PhantomData, sync::Arc, time::Instant};

use apiclient::{
    discovery::ApiResource,
    error::{Error, Result},
    resource::SECRETS,
    stop::Stop,
};
use serde_json::Value;
use sidecar::runtime;

use crate::{
    cache::{
        ClusterSide, SideObject,
        reflector::{Reflector, Watched},
    },
    connection::ClusterSession,
    controller::Controller,
    model::{
        discovery,
        key::{self, KindIndex, NameMapping, Pair},
        object::{Cached, Role, TargetObject, TargetSecret, controller_of},
    },
    sync::{reconcile, remote::RemoteSync},
};

/// A watched cluster: a remote's, or the local one for all remotes.
#[derive(Clone)]
struct WatchedCluster {
    controller: Arc<Controller>,
    /// A remote's cluster affects the pairs of that alone; `None` for the local one.
    only: Option<Arc<Vec<Arc<RemoteSync>>>>,
    names: NameMapping,
}

/// Watches a kind on one side of pairs.
struct KindWatch<T>(WatchedCluster, KindIndex, PhantomData<T>);
/// Watches the targets' Secrets with one name.
struct SecretWatch(WatchedCluster);

/// Watches one side of pairs: the cluster of `remote`, or the local one for all remotes.
pub(super) fn watch<T: SideObject>(
    controller: &Arc<Controller>,
    side: &ClusterSide<T>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let settings = &controller.context.settings;
    let mapping = &settings.mapping;
    let names = remote.map_or_else(|| mapping.common(), |remote| remote.names.clone());
    let only = remote.map(|remote| Arc::new(vec![remote.clone()]));
    let all = WatchedCluster { controller: controller.clone(), only, names };
    let namespace = mapping.namespace(T::ROLE).map(str::to_owned);
    for (kind, store) in side.stores.iter().enumerate() {
        let reflector = Reflector {
            cluster: side.cluster.clone(),
            store: store.clone(),
            kind: settings.resources[kind].to_string(),
            namespace: namespace.clone(),
            name: None,
            supervisor: controller.stop.clone(),
            watched: KindWatch(all.clone(), kind, PhantomData),
        };
        reflector.start(stop)?;
    }
    for (name, store) in &side.secrets {
        let reflector = Reflector {
            cluster: side.cluster.clone(),
            store: store.clone(),
            kind: SECRETS.to_string(),
            namespace: namespace.clone(),
            // One watch per name, so that no permission for other Secrets is needed.
            name: Some(name.clone()),
            supervisor: controller.stop.clone(),
            watched: SecretWatch(all.clone()),
        };
        reflector.start(stop)?;
    }
    Ok(())
}

impl WatchedCluster {
    /// The remotes whose pairs a change can affect.
    fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        self.only.clone().unwrap_or_else(|| self.controller.remotes())
    }

    /// Resolves a kind on the cluster. The local cluster decides the version for both sides.
    fn find(&self, kind: KindIndex, session: &ClusterSession) -> Result<ApiResource> {
        let (controller, wanted) =
            (&self.controller, &self.controller.context.settings.resources[kind]);
        if self.only.is_none() {
            let known = controller.local_kind(kind);
            return discovery::resolve_again(&session.client, wanted, known.as_deref());
        }
        loop {
            let seen = controller.stop.wakes();
            if let Some(local) = controller.local_kind(kind) {
                return discovery::resolve(&session.client, &wanted.in_version_of(&local));
            }
            let until = Instant::now() + Stop::SLICE;
            if session.stop.raised() || controller.stop.wait_for_change(seen, until) {
                return Err(Error::Unreachable("the connection ended".into()));
            }
        }
    }
}

impl<T: SideObject> Watched for KindWatch<T> {
    type Object = T;

    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource> {
        self.0.find(self.1, session)
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.names.canonical(T::ROLE, namespace, name).is_some()
    }

    fn read(&self, object: &Value) -> Option<Cached<T>> {
        T::read(&self.0.controller.context.readers[self.1], object)
    }

    fn keeps_document(&self, object: &T, listed: bool) -> bool {
        object.keeps_document(listed)
    }

    fn changed(&self, key: &str, _object: Option<&Value>, urgent: bool) {
        let (controller, kind, remotes) = (&self.0.controller, self.1, self.0.remotes());
        match T::ROLE {
            Role::Source => controller.enqueue_source(&remotes, kind, key, urgent),
            Role::Target => controller.enqueue_target(&remotes, kind, key, urgent),
        }
    }

    fn listed(&self) {
        let Self(cluster, kind, _) = self;
        cluster.remotes().iter().for_each(|remote| cluster.controller.enqueue_kind(remote, *kind));
    }
}

impl Watched for SecretWatch {
    type Object = TargetSecret;

    /// Every cluster serves Secrets.
    fn find_kind(&self, _session: &ClusterSession) -> Result<ApiResource> {
        Ok(ApiResource { resource: SECRETS.clone(), namespaced: true, status: false })
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.names.canonical(Role::Target, namespace, name).is_some()
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetSecret>> {
        self.0.controller.context.reader.secret(object)
    }

    /// Enqueues the pair whose target controls the Secret.
    fn changed(&self, key: &str, object: Option<&Value>, _urgent: bool) {
        let (controller, remotes) = (&self.0.controller, self.0.remotes());
        let Some(owner) = object.and_then(controller_of) else { return };
        let (namespace, _) = key::split(key);
        let target = key::of(namespace, owner["name"].as_str().unwrap_or_default());
        // The pairs of all kinds: a pair that is in sync costs no request.
        for kind in 0..controller.context.settings.resources.len() {
            controller.enqueue_target(&remotes, kind, &target, true);
        }
    }
}

impl Controller {
    /// Enqueues all pairs of a kind, including those without a source.
    pub(super) fn enqueue_kind(self: &Arc<Self>, remote: &Arc<RemoteSync>, kind: KindIndex) {
        let (names, cluster) = (&remote.names, remote.source.cluster.identity());
        let of_source = |key: &str, _: Option<&_>| names.pair(Role::Source, kind, key);
        for pair in remote.source.stores[kind].filter_map(of_source) {
            self.enqueue(remote, pair, false);
        }
        let of_copy = |key: &str, target: Option<&TargetObject>| match &target?.copy_of {
            Some(copy) if cluster.has_mark(copy.cluster) => names.pair(Role::Target, kind, key),
            _ => None,
        };
        for pair in remote.target.stores[kind].filter_map(of_copy) {
            self.enqueue(remote, pair, false);
        }
    }

    fn enqueue_source(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: KindIndex,
        key: &str,
        urgent: bool,
    ) {
        for remote in remotes {
            if let Some(pair) = remote.names.pair(Role::Source, kind, key) {
                self.enqueue(remote, pair, urgent);
            }
        }
    }

    /// Enqueues a target's pair for each remote that has its source, or whose orphan the target may be. This is fast:
    /// with many remotes, most targets belong to another one.
    fn enqueue_target(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: KindIndex,
        key: &str,
        urgent: bool,
    ) {
        let Some(first) = remotes.first() else { return };
        // All remotes share this store: it belongs to the local cluster, or to the only remote.
        let store = &first.target.stores[kind];
        let gone = !store.has(key);
        let origin =
            store.get(key).and_then(|target| target.value.copy_of).map(|copy| copy.cluster);
        for remote in remotes {
            let Some(pair) = remote.names.pair(Role::Target, kind, key) else { continue };
            if origin.is_some_and(|origin| remote.source.cluster.identity().has_mark(origin))
                || remote.has_source(&pair)
                || gone && remote.knows(&pair)
            {
                self.enqueue(remote, pair, urgent);
            }
        }
    }

    fn enqueue(self: &Arc<Self>, remote: &Arc<RemoteSync>, pair: Pair, urgent: bool) {
        remote.queue.add(pair, urgent);
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
