//! The server state that outlives connections.

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::{
    ca::Ca,
    faults::Faults,
    identity::Identities,
    requests::Log,
    resources::{Registry, Resource},
    signer::SignerOptions,
    store::{Key, Outcome, Store},
};

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The server state that connections share.
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) ca: Ca,
    pub(crate) identities: Identities,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    pub(crate) signer: Mutex<SignerOptions>,
    pub(crate) bookmarks: Duration,
    /// Whether RBAC applies to users who are not administrators.
    pub(crate) rbac: AtomicBool,
}

impl Cluster {
    /// Returns the key of an object. Cluster-scoped resources have no namespace, although the path of a Namespace seems
    /// to have one.
    pub(crate) fn key(&self, resource: &Resource, namespace: &str, name: &str) -> Key {
        let namespace = if resource.namespaced { namespace } else { "" };
        Key { resource: resource.storage(), namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        let resource = "namespaces".into();
        self.store.get(&Key { resource, namespace: String::new(), name: name.into() })
    }

    /// Changes the store and keeps the registry in sync with the CustomResourceDefinitions.
    pub(crate) fn transact<E>(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Value>) -> Result<Outcome, E>,
    ) -> Result<Value, E> {
        let object = self.store.transact(key, decide)?;
        if key.resource == DEFINITIONS
            && let Some(resource) = Resource::from_definition(&object)
        {
            self.serve(resource, self.store.get(key).is_some());
        }
        Ok(object)
    }

    /// Serves a resource by its new definition, or no longer. A changed kind loses its watches, because the real server
    /// creates a new storage for it. A kind that starts to terminate keeps them.
    fn serve(&self, resource: Resource, exists: bool) {
        let old = match exists {
            true => self.registry.add(resource.clone()),
            false => self.registry.remove(&resource),
        };
        let is_same = |old: Arc<Resource>| {
            Resource { terminating: resource.terminating, ..(*old).clone() } == resource
        };
        if !exists || !old.is_some_and(is_same) {
            self.store.end_watches(&resource.storage());
        }
    }

    pub(crate) fn date(&self) -> SystemTime {
        let offset = self.faults.date_offset();
        let now = SystemTime::now();
        let shift = Duration::from_secs(offset.unsigned_abs());
        if offset < 0 { now - shift } else { now + shift }
    }
}
