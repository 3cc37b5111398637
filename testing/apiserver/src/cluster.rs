//! The server state that outlives connections.

use std::{
    sync::{Arc, Mutex},
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
}

impl Cluster {
    /// The key of an object; cluster-scoped resources have no namespace, although the path of a
    /// Namespace seems to contain one.
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
        if key.resource == DEFINITIONS {
            match (Resource::from_definition(&object), self.store.get(key)) {
                (Some(resource), Some(_)) => self.registry.add(resource),
                (Some(resource), None) => self.registry.remove(&resource.group, &resource.plural),
                (None, _) => {}
            }
        }
        Ok(object)
    }

    pub(crate) fn date(&self) -> SystemTime {
        let offset = self.faults.date_offset();
        let now = SystemTime::now();
        let shift = Duration::from_secs(offset.unsigned_abs());
        if offset < 0 { now - shift } else { now + shift }
    }
}
