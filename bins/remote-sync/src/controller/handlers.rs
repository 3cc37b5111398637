//! What the streams tell: which pairs have to be looked at.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    cache::reflector::Change,
    controller::{Controller, OwnCluster},
    model::{
        key::{self, Pair},
        mode::Mode,
        object::controller_of,
    },
    sync::remote::RemoteSync,
};

impl Controller {
    /// Something happened to a source.
    pub(crate) fn on_source(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: usize,
        change: &Change<'_>,
    ) {
        let Some((key, urgent)) = change.object() else { return self.stop.wake() };
        let (namespace, name) = key::split(key);
        let mut meant = false;
        for remote in remotes {
            let source = remote.names.canonical_of_source(namespace, name);
            meant |= source.is_some();
            if let (Change::Gone { .. }, Some((namespace, name))) = (change, source)
                && self.context.settings.is_selective()
            {
                remote.set_unlisted(&Pair { kind, key: key::of(namespace, name).into() }, true);
            }
            self.enqueue(remote, kind, source, urgent);
            self.start_workers(remote);
        }
        // The room for documents is for those that somebody takes.
        if let (false, OwnCluster::Source(site)) = (meant, &self.own) {
            site.stores[kind].drop_document(key);
        }
    }

    /// Something happened to a target.
    pub(crate) fn on_target(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: usize,
        change: &Change<'_>,
    ) {
        let Some((key, urgent)) = change.object() else { return self.stop.wake() };
        let mut meant = false;
        for remote in remotes {
            meant |= self.enqueue_target(remote, kind, key, urgent);
            self.start_workers(remote);
        }
        let site = match &self.own {
            OwnCluster::Target(site) => Some(site),
            OwnCluster::Source(_) => remotes.first().map(|remote| &remote.target),
        };
        if let (false, Some(site)) = (meant, site) {
            site.stores[kind].drop_document(key);
        }
    }

    /// Something happened to a namespace of the target: its owner may have to go on, and whatever waits
    /// for it.
    pub(crate) fn on_namespace(self: &Arc<Self>, remotes: &[Arc<RemoteSync>], change: &Change<'_>) {
        let Some((key, urgent)) = change.object() else { return self.stop.wake() };
        let (_, namespace) = key::split(key);
        let owner = match change {
            Change::Put { object, .. } => {
                object["metadata"]["annotations"][&self.context.settings.keys.owner].as_str()
            }
            Change::TooLarge { .. } | Change::Gone { .. } | Change::State => None,
        };
        let owner = owner.unwrap_or_default();
        for remote in remotes {
            // Upstream follows owned namespaces without the suffix, too; of many remotes each would.
            let owned = match self.context.settings.mode {
                Mode::Compat => remote.names.canonical_of_namespace(namespace, owner),
                Mode::Safe => remote.names.canonical_of_target(namespace, owner),
            };
            let owned = owned.filter(|_| !owner.is_empty());
            let inside = remote.names.canonical_of_target(namespace, "").map(|(inside, _)| inside);
            for kind in 0..self.context.settings.resources.len() {
                self.enqueue(remote, kind, owned, urgent);
                for key in inside.map(|ns| remote.source.stores[kind].keys_in(ns)).iter().flatten()
                {
                    let (namespace, name) = key::split(key);
                    let source = remote.names.canonical_of_source(namespace, name);
                    self.enqueue(remote, kind, source, urgent);
                }
            }
            self.start_workers(remote);
        }
    }

    /// Something happened to a Secret of the target: the object that controls it is looked at.
    pub(crate) fn on_secret(self: &Arc<Self>, remotes: &[Arc<RemoteSync>], change: &Change<'_>) {
        let (key, object) = match change {
            Change::Put { key, object, .. } => (key, *object),
            Change::TooLarge { .. } | Change::Gone { .. } => return,
            Change::State => return self.stop.wake(),
        };
        let Some(owner) = controller_of(object) else { return };
        let (namespace, _) = key::split(key);
        for remote in remotes {
            let is_owner = |kind: &usize| {
                let kind = remote.target.stores[*kind].kind();
                kind.is_some_and(|kind| is_of(owner, &kind.resource.group, &kind.resource.kind))
            };
            for kind in (0..self.context.settings.resources.len()).filter(is_owner) {
                let name = owner["name"].as_str().unwrap_or_default();
                self.enqueue(remote, kind, remote.names.canonical_of_target(namespace, name), true);
            }
            self.start_workers(remote);
        }
    }
}

/// Whether an ownerReference is about this kind, in whatever version.
fn is_of(owner: &Value, group: &str, kind: &str) -> bool {
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    let of = version.split_once('/').map_or("", |(group, _)| group);
    of == group && owner["kind"] == *kind
}
