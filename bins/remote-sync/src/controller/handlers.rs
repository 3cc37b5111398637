//! Event handlers, as client-go has them for its informers: a change of an object enqueues the pairs that it affects.

use std::{sync::Arc, time::Instant};

use apiclient::{
    discovery::ApiResource,
    error::{Error, Result},
    resource::SECRETS,
    stop::Stop,
};
use serde_json::Value;

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        reflector::{FindKind, Reflector},
        watched::{Change, Watched},
    },
    connection::ClusterSession,
    controller::Controller,
    model::{
        discovery,
        key::{self, KindIndex},
        mapping::NameMapping,
        object::{Cached, SourceObject, TargetObject, TargetSecret, controller_of},
    },
    sync::remote::RemoteSync,
};

/// A cluster that is watched: a remote's, or the local one for all remotes.
#[derive(Clone)]
struct WatchedCluster {
    controller: Arc<Controller>,
    remote: Option<Arc<RemoteSync>>,
    names: NameMapping,
}

/// Watches the sources of a kind of `-resource`.
struct SourceWatch(WatchedCluster, KindIndex);
/// Watches the targets of a kind of `-resource`.
struct TargetWatch(WatchedCluster, KindIndex);
/// Watches the targets' Secrets of one name.
struct SecretWatch(WatchedCluster);

/// Watches a cluster with sources: that of `remote`, or the local one for all remotes.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(super) fn watch_sources(
    controller: &Arc<Controller>,
    side: &SourceSide,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let (watched, settings) =
        (WatchedCluster::new(controller, remote), &controller.context.settings);
    let namespace = settings.mapping.source_namespace.as_deref();
    settings.resources.kinds().try_for_each(|kind| {
        let (found, watch) = (watched.finds(kind), SourceWatch(watched.clone(), kind));
        Reflector::new(&side.cluster, &side.stores[kind], found, namespace, watch).start(stop)
    })
}

/// Watches a cluster with targets, and the Secrets there.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(super) fn watch_targets(
    controller: &Arc<Controller>,
    side: &TargetSide,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let (watched, settings) =
        (WatchedCluster::new(controller, remote), &controller.context.settings);
    let (cluster, namespace) = (&side.cluster, settings.mapping.target_namespace.as_deref());
    settings.resources.kinds().try_for_each(|kind| {
        let (found, watch) = (watched.finds(kind), TargetWatch(watched.clone(), kind));
        Reflector::new(cluster, &side.stores[kind], found, namespace, watch).start(stop)
    })?;
    // By name, so that no right to others is needed.
    side.secrets.iter().zip(&settings.secrets).try_for_each(|(store, name)| {
        let (found, watch) = (secrets(), SecretWatch(watched.clone()));
        let all = Reflector::new(cluster, store, found, namespace, watch);
        Reflector { name: Some(name.clone()), ..all }.start(stop)
    })
}

/// Secrets, which every cluster serves, by the name for the log.
fn secrets() -> (String, FindKind) {
    let kind = || ApiResource { resource: SECRETS.clone(), namespaced: true, status: false };
    (SECRETS.plural.to_string(), Box::new(move |_| Ok(kind())))
}

impl WatchedCluster {
    fn new(controller: &Arc<Controller>, remote: Option<&Arc<RemoteSync>>) -> Self {
        let common = || controller.context.settings.mapping.common();
        let names = remote.map_or_else(common, |remote| remote.names.clone());
        Self { controller: controller.clone(), remote: remote.cloned(), names }
    }

    /// The remotes whose pairs a change can affect: one for a remote's cluster, all for the local one.
    fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        let only = |remote: &Arc<RemoteSync>| Arc::new(vec![remote.clone()]);
        self.remote.as_ref().map_or_else(|| self.controller.remotes(), only)
    }

    fn is_target(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_target(namespace, name).is_some()
    }

    /// A kind of `-resource`, by the name for the log.
    fn finds(&self, kind: KindIndex) -> (String, FindKind) {
        let (watched, name) =
            (self.clone(), self.controller.context.settings.resources[kind].to_string());
        (name, Box::new(move |session| watched.find(kind, session)))
    }

    /// Finds a kind on the cluster; the local cluster decides the version for both sides.
    fn find(&self, kind: KindIndex, session: &ClusterSession) -> Result<ApiResource> {
        let (controller, wanted) =
            (&self.controller, &self.controller.context.settings.resources[kind]);
        if self.remote.is_none() {
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

    /// Handles a change that is not that of an object: of one kind, or of what the pairs of all kinds depend on.
    fn handle_state(&self, change: &Change<'_>, kind: Option<KindIndex>) {
        let kinds = &self.controller.context.settings.resources;
        for remote in self.remotes().iter() {
            for of in kinds.kinds().filter(|of| kind.is_none_or(|kind| kind == *of)) {
                match change {
                    Change::Kind => {
                        // What was refused may be accepted by now.
                        remote.retry(of);
                        self.controller.enqueue_kind(remote, of);
                    }
                    _ => remote.enqueue_answered(of),
                }
            }
        }
        self.controller.stop.wake();
    }
}

impl Watched for SourceWatch {
    type Object = SourceObject;

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.names.canonical_of_source(namespace, name).is_some()
    }

    fn read(&self, object: &Value) -> Option<Cached<SourceObject>> {
        self.0.controller.context.readers[self.1].source(object)
    }

    fn keeps_document(&self, object: &SourceObject, listed: bool) -> bool {
        !listed || !object.seems_synced()
    }

    fn handle(&self, change: &Change<'_>) {
        let Self(cluster, kind) = self;
        let Some((key, urgent)) = change.object() else {
            return cluster.handle_state(change, Some(*kind));
        };
        for remote in cluster.remotes().iter() {
            let source = remote.names.canonical_of_source_key(key);
            cluster.controller.enqueue(remote, *kind, source, urgent);
        }
    }
}

impl Watched for TargetWatch {
    type Object = TargetObject;

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.is_target(namespace, name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetObject>> {
        self.0.controller.context.readers[self.1].target(object)
    }

    fn keeps_document(&self, _object: &TargetObject, listed: bool) -> bool {
        !listed
    }

    fn handle(&self, change: &Change<'_>) {
        let Self(cluster, kind) = self;
        let Some((key, urgent)) = change.object() else {
            return cluster.handle_state(change, Some(*kind));
        };
        cluster.controller.enqueue_target(&cluster.remotes(), *kind, key, urgent);
    }
}

impl Watched for SecretWatch {
    type Object = TargetSecret;

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.0.is_target(namespace, name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetSecret>> {
        self.0.controller.context.reader.secret(object)
    }

    /// Enqueues the pair whose target controls the Secret.
    fn handle(&self, change: &Change<'_>) {
        let (key, object) = match change {
            Change::Put { key, object: Some(object), .. } => (key, object),
            Change::Put { .. } | Change::Gone { .. } => return,
            Change::State | Change::Kind => return self.0.handle_state(change, None),
        };
        let (controller, remotes) = (&self.0.controller, self.0.remotes());
        let (Some(owner), Some(first)) = (controller_of(object), remotes.first()) else { return };
        let is_owner = |kind: &KindIndex| {
            let kind = first.target.stores[*kind].kind();
            kind.is_some_and(|kind| is_of(owner, &kind.resource.group, &kind.resource.kind))
        };
        let (namespace, _) = key::split(key);
        let target = key::of(namespace, owner["name"].as_str().unwrap_or_default());
        for kind in controller.context.settings.resources.kinds().filter(is_owner) {
            controller.enqueue_target(&remotes, kind, &target, true);
        }
    }
}

/// Returns whether an ownerReference is to an object of this kind, in whatever version.
fn is_of(owner: &Value, group: &str, kind: &str) -> bool {
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    let of = version.split_once('/').map_or("", |(group, _)| group);
    of == group && owner["kind"] == *kind
}
