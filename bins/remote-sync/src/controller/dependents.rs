//! Event handlers for the Namespaces and Secrets of targets: a change enqueues the pairs that depend on the
//! object.

use apiclient::{
    error::Result,
    resource::{NAMESPACES, SECRETS},
};
use serde_json::Value;

use crate::{
    cache::watched::{Change, Watched},
    connection::ClusterSession,
    controller::handlers::WatchedCluster,
    model::{
        discovery::ApiResource,
        key::{self, KindIndex},
        object::controller_of,
        object::{Cached, TargetNamespace, TargetSecret},
    },
};

/// Watches the targets' Namespaces.
pub(super) struct NamespaceWatch {
    pub(super) cluster: WatchedCluster,
}

impl Watched for NamespaceWatch {
    type Object = TargetNamespace;
    const IN_PAIRS: bool = false;

    fn kind_name(&self) -> String {
        NAMESPACES.plural.to_string()
    }

    fn find_kind(&self, _session: &ClusterSession) -> Result<ApiResource> {
        Ok(ApiResource { resource: NAMESPACES.clone(), namespaced: false, status: true })
    }

    fn covers(&self, _namespace: &str, name: &str) -> bool {
        self.cluster.names.covers_target(name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetNamespace>> {
        self.cluster.reader().namespace(object)
    }

    /// Enqueues the pair that owns the namespace, and those whose targets are in it.
    fn handle(&self, change: &Change<'_>) {
        let (controller, remotes) = (&self.cluster.controller, self.cluster.remotes());
        let Some((key, urgent)) = change.object() else { return self.cluster.handle_state() };
        let (_, namespace) = key::split(key);
        let owner = match change {
            Change::Put { object, .. } => {
                object["metadata"]["annotations"][&controller.context.settings.keys.owner].as_str()
            }
            Change::TooLarge { .. } | Change::Gone { .. } | Change::State | Change::Kind => None,
        };
        let owner = owner.unwrap_or_default();
        for remote in remotes.iter() {
            let owned = remote.names.canonical_of_target(namespace, owner);
            let owned = owned.filter(|_| !owner.is_empty());
            let inside = remote.names.canonical_of_target(namespace, "").map(|(inside, _)| inside);
            for kind in controller.context.settings.resources.kinds() {
                controller.enqueue(remote, kind, owned, urgent);
                let sources = inside.map(|inside| remote.source.stores[kind].keys_in(inside));
                for key in sources.iter().flatten() {
                    let source = remote.names.canonical_of_source_key(key);
                    // All that wait in a new namespace must not overtake an edit of one of them.
                    controller.enqueue(remote, kind, source, false);
                }
            }
        }
    }
}

/// Watches the targets' Secrets of one name.
pub(super) struct SecretWatch {
    pub(super) cluster: WatchedCluster,
}

impl Watched for SecretWatch {
    type Object = TargetSecret;
    const IN_PAIRS: bool = false;

    fn kind_name(&self) -> String {
        SECRETS.plural.to_string()
    }

    fn find_kind(&self, _session: &ClusterSession) -> Result<ApiResource> {
        Ok(ApiResource { resource: SECRETS.clone(), namespaced: true, status: false })
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        self.cluster.is_target(namespace, name)
    }

    fn read(&self, object: &Value) -> Option<Cached<TargetSecret>> {
        self.cluster.reader().upload(object)
    }

    /// Enqueues the pair whose target controls the Secret.
    fn handle(&self, change: &Change<'_>) {
        let (controller, remotes) = (&self.cluster.controller, self.cluster.remotes());
        let (key, object) = match change {
            Change::Put { key, object, .. } => (key, *object),
            Change::TooLarge { .. } | Change::Gone { .. } => return,
            Change::State | Change::Kind => return self.cluster.handle_state(),
        };
        let Some(owner) = controller_of(object) else { return };
        let (namespace, _) = key::split(key);
        let Some(first) = remotes.first() else { return };
        let is_owner = |kind: &KindIndex| {
            let kind = first.target.stores[*kind].kind();
            kind.is_some_and(|kind| is_of(owner, &kind.resource.group, &kind.resource.kind))
        };
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
