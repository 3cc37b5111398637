//! Direct access to the objects, for setting a scene and looking at the outcome without HTTP.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    controllers,
    delete::{self, DeleteOptions},
    kinds,
    metadata::count_generation,
    resources::Resource,
    server::Server,
};

impl Server {
    /// Creates or replaces an object, status included, without validation. Its resource comes
    /// from `apiVersion` and `kind` and must be served; `metadata.resourceVersion` is ignored.
    pub fn put(&self, object: Value) -> Value {
        self.handle().put(object).expect("the object is of a served kind and has a name")
    }

    /// An object as the store has it. `api_version` is for example `coordination.k8s.io/v1`.
    pub fn get(
        &self,
        api_version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let (resource, version) = self.resource(api_version, plural);
        let key = self.cluster.key(&resource, namespace, name);
        let object = self.cluster.store.get(&key)?;
        Some(kinds::present(&resource, &version, (*object).clone()))
    }

    /// The objects of a resource; an empty namespace stands for all.
    pub fn list(&self, api_version: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let (resource, version) = self.resource(api_version, plural);
        let objects = self.cluster.store.snapshot(&resource.storage(), namespace).objects;
        let present = |object: &Value| kinds::present(&resource, &version, object.clone());
        objects.iter().map(|(_, object)| present(object)).collect()
    }

    /// Changes an object in one step, status included and without validation, as a controller of
    /// this cluster would; `change` says whether there is something to change. False where there
    /// was not, or no such object.
    pub fn alter(
        &self,
        api_version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value) -> bool,
    ) -> bool {
        let (resource, _) = self.resource(api_version, plural);
        let key = self.cluster.key(&resource, namespace, name);
        controllers::alter(&self.cluster, &key, |object| {
            let before = object.clone();
            let changed = change(object);
            count_generation(&resource, &before, object);
            changed
        })
    }

    /// Deletes an object by the rules (finalizers, owners); false where it isn't there.
    pub fn delete(&self, api_version: &str, plural: &str, namespace: &str, name: &str) -> bool {
        let (resource, _) = self.resource(api_version, plural);
        let key = self.cluster.key(&resource, namespace, name);
        delete::delete(&self.cluster, &resource, &key, &DeleteOptions::default()).is_ok()
    }

    /// Creates a namespace; does nothing where it exists.
    pub fn create_namespace(&self, name: &str) {
        self.handle().create_namespace(name);
    }

    /// Approves a signing request; false where it isn't there.
    pub fn approve_csr(&self, name: &str) -> bool {
        self.handle().decide(name, "Approved")
    }

    /// Denies a signing request; false where it isn't there.
    pub fn deny_csr(&self, name: &str) -> bool {
        self.handle().decide(name, "Denied")
    }

    /// The version of the last change.
    pub fn resource_version(&self) -> String {
        self.cluster.store.version().to_string()
    }

    fn resource(&self, api_version: &str, plural: &str) -> (Arc<Resource>, String) {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let found = self.cluster.registry.find(group, version, plural);
        (found.expect("the resource is served"), version.into())
    }
}
