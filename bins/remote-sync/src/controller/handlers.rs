//! Handlers, as client-go has them for its informers: which pairs have to be reconciled when an object
//! changed.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use shared::{
    error::{Error, Result},
    resource::{NAMESPACES, SECRETS},
};

use crate::{
    cache::watched::{Change, Watched},
    connection::ClusterSession,
    controller::{Controller, OwnCluster},
    model::{
        discovery::{self, ApiResource, ResourceArg},
        key::{self, Pair},
        mapping::NameMapping,
        mode::Mode,
        object::{
            Cached, ObjectReader, SourceObject, TargetNamespace, TargetObject, TargetSecret,
            controller_of,
        },
    },
    sync::remote::RemoteSync,
};

/// How long a thread sleeps that waits for another.
const POLL: Duration = Duration::from_millis(100);

/// One cluster that is followed: a remote, or the own one for all remotes.
#[derive(Clone)]
pub(super) struct WatchedCluster {
    controller: Arc<Controller>,
    remote: Option<Arc<RemoteSync>>,
    names: NameMapping,
}

impl WatchedCluster {
    pub(super) fn new(controller: &Arc<Controller>, remote: Option<&Arc<RemoteSync>>) -> Self {
        let common = || controller.context.settings.mapping.common();
        let names = remote.map_or_else(common, |remote| remote.names.clone());
        Self { controller: controller.clone(), remote: remote.cloned(), names }
    }

    /// The remotes that changes are for: of a remote itself, of the own cluster all.
    fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        let only = |remote: &Arc<RemoteSync>| Arc::new(vec![remote.clone()]);
        self.remote.as_ref().map_or_else(|| self.controller.remotes(), only)
    }

    fn reader(&self) -> &ObjectReader {
        &self.controller.context.reader
    }

    fn is_target(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_target(namespace, name).is_some()
    }

    /// Whether a kind is of the version that the own cluster has, as far as that is known.
    fn accepts(&self, kind: usize, found: &ApiResource) -> bool {
        let own = self.controller.own_kind(kind);
        own.is_none_or(|own| own.resource.version == found.resource.version)
    }

    /// The kind on a cluster. Of two clusters the own one says the version, for both.
    fn find(&self, kind: usize, session: &ClusterSession) -> Result<ApiResource> {
        let wanted = &self.controller.context.settings.resources[kind];
        if self.remote.is_none() {
            return discovery::resolve(&session.client, wanted);
        }
        loop {
            if let Some(own) = self.controller.own_kind(kind) {
                let version = Some(own.resource.version.to_string());
                return discovery::resolve(
                    &session.client,
                    &ResourceArg { version, ..wanted.clone() },
                );
            }
            if session.stop.wait(POLL) {
                return Err(Error::Unreachable("the connection ended".into()));
            }
        }
    }
}

/// The sources of a kind.
pub(super) struct SourceWatch {
    pub(super) of: WatchedCluster,
    pub(super) kind: usize,
}

impl Watched for SourceWatch {
    type Object = SourceObject;
    const IN_PAIRS: bool = true;

    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource> {
        self.of.find(self.kind, session)
    }

    fn accepts_kind(&self, kind: &ApiResource) -> bool {
        self.of.accepts(self.kind, kind)
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.of.names.canonical_of_source(namespace, name).is_some()
    }

    fn read(&self, object: &Value) -> Option<Cached<SourceObject>> {
        self.of.reader().source(object)
    }

    fn keeps_document(&self, object: &SourceObject, listed: bool) -> bool {
        !listed || !object.seems_done()
    }

    fn handle(&self, change: &Change<'_>) {
        let (controller, remotes, kind) = (&self.of.controller, self.of.remotes(), self.kind);
        let Some((key, urgent)) = change.object() else { return controller.stop.wake() };
        let (namespace, name) = key::split(key);
        let mut meant = false;
        for remote in remotes.iter() {
            let source = remote.names.canonical_of_source(namespace, name);
            meant |= source.is_some();
            if let (Change::Gone { .. }, Some((namespace, name))) = (change, source)
                && controller.context.settings.is_selective()
            {
                remote.set_unlisted(&Pair { kind, key: key::of(namespace, name).into() }, true);
            }
            controller.enqueue(remote, kind, source, urgent);
            controller.start_workers(remote);
        }
        // The room for documents is for those that somebody takes.
        if let (false, OwnCluster::Source(side)) = (meant, &controller.own) {
            side.stores[kind].drop_document(key);
        }
    }
}

/// The targets of a kind.
pub(super) struct TargetWatch {
    pub(super) of: WatchedCluster,
    pub(super) kind: usize,
}

impl Watched for TargetWatch {
    type Object = TargetObject;
    const IN_PAIRS: bool = true;

    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource> {
        self.of.find(self.kind, session)
    }

    fn accepts_kind(&self, kind: &ApiResource) -> bool {
        self.of.accepts(self.kind, kind)
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.of.is_target(namespace, name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetObject>> {
        self.of.reader().target(object)
    }

    fn keeps_document(&self, _object: &TargetObject, listed: bool) -> bool {
        !listed
    }

    fn handle(&self, change: &Change<'_>) {
        let (controller, remotes, kind) = (&self.of.controller, self.of.remotes(), self.kind);
        let Some((key, urgent)) = change.object() else { return controller.stop.wake() };
        let mut meant = false;
        for remote in remotes.iter() {
            meant |= controller.enqueue_target(remote, kind, key, urgent);
            controller.start_workers(remote);
        }
        let side = match &controller.own {
            OwnCluster::Target(side) => Some(side),
            OwnCluster::Source(_) => remotes.first().map(|remote| &remote.target),
        };
        if let (false, Some(side)) = (meant, side) {
            side.stores[kind].drop_document(key);
        }
    }
}

/// The namespaces of the targets.
pub(super) struct NamespaceWatch {
    pub(super) of: WatchedCluster,
}

impl Watched for NamespaceWatch {
    type Object = TargetNamespace;
    const IN_PAIRS: bool = false;

    fn find_kind(&self, _session: &ClusterSession) -> Result<ApiResource> {
        Ok(ApiResource { resource: NAMESPACES.clone(), namespaced: false, status: true })
    }

    fn covers(&self, _namespace: &str, name: &str) -> bool {
        self.of.names.covers(name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetNamespace>> {
        self.of.reader().namespace(object)
    }

    /// The owner of the namespace may have to go on, and whatever waits for it.
    fn handle(&self, change: &Change<'_>) {
        let (controller, remotes) = (&self.of.controller, self.of.remotes());
        let Some((key, urgent)) = change.object() else { return controller.stop.wake() };
        let (_, namespace) = key::split(key);
        let owner = match change {
            Change::Put { object, .. } => {
                object["metadata"]["annotations"][&controller.context.settings.keys.owner].as_str()
            }
            Change::TooLarge { .. } | Change::Gone { .. } | Change::State => None,
        };
        let owner = owner.unwrap_or_default();
        for remote in remotes.iter() {
            // Upstream follows owned namespaces without the suffix, too; of many remotes each would.
            let owned = match controller.context.settings.mode {
                Mode::Compat => remote.names.canonical_of_namespace(namespace, owner),
                Mode::Safe => remote.names.canonical_of_target(namespace, owner),
            };
            let owned = owned.filter(|_| !owner.is_empty());
            let inside = remote.names.canonical_of_target(namespace, "").map(|(inside, _)| inside);
            for kind in 0..controller.context.settings.resources.len() {
                controller.enqueue(remote, kind, owned, urgent);
                for key in inside.map(|ns| remote.source.stores[kind].keys_in(ns)).iter().flatten()
                {
                    let (namespace, name) = key::split(key);
                    let source = remote.names.canonical_of_source(namespace, name);
                    controller.enqueue(remote, kind, source, urgent);
                }
            }
            controller.start_workers(remote);
        }
    }
}

/// The targets' Secrets of one name.
pub(super) struct SecretWatch {
    pub(super) of: WatchedCluster,
}

impl Watched for SecretWatch {
    type Object = TargetSecret;
    const IN_PAIRS: bool = false;

    fn find_kind(&self, _session: &ClusterSession) -> Result<ApiResource> {
        Ok(ApiResource { resource: SECRETS.clone(), namespaced: true, status: false })
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.of.is_target(namespace, name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetSecret>> {
        self.of.reader().upload(object)
    }

    /// The object that controls the Secret is reconciled.
    fn handle(&self, change: &Change<'_>) {
        let (controller, remotes) = (&self.of.controller, self.of.remotes());
        let (key, object) = match change {
            Change::Put { key, object, .. } => (key, *object),
            Change::TooLarge { .. } | Change::Gone { .. } => return,
            Change::State => return controller.stop.wake(),
        };
        let Some(owner) = controller_of(object) else { return };
        let (namespace, _) = key::split(key);
        for remote in remotes.iter() {
            let is_owner = |kind: &usize| {
                let kind = remote.target.stores[*kind].kind();
                kind.is_some_and(|kind| is_of(owner, &kind.resource.group, &kind.resource.kind))
            };
            for kind in (0..controller.context.settings.resources.len()).filter(is_owner) {
                let name = owner["name"].as_str().unwrap_or_default();
                controller.enqueue(
                    remote,
                    kind,
                    remote.names.canonical_of_target(namespace, name),
                    true,
                );
            }
            controller.start_workers(remote);
        }
    }
}

/// Whether an ownerReference is about this kind, in whatever version.
fn is_of(owner: &Value, group: &str, kind: &str) -> bool {
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    let of = version.split_once('/').map_or("", |(group, _)| group);
    of == group && owner["kind"] == *kind
}
