//! Direct access to objects, to set up tests and check results without HTTP.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    controllers,
    delete::{self, DeleteOptions},
    kinds, managed_fields,
    metadata::{count_generation, keep_metadata, stamp, text},
    resources::Resource,
    server::Server,
    status::Status,
    store::Outcome,
    user::User,
};

impl Server {
    /// Creates or replaces an object, including its status, without validation. `apiVersion` and `kind` must name a
    /// served resource; `metadata.resourceVersion` is ignored.
    pub fn put(&self, object: Value) -> Value {
        self.try_put(object).expect("the object is of a served kind and has a name")
    }

    fn try_put(&self, mut object: Value) -> Result<Value, Status> {
        let (version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        let resource = self.cluster.registry.of_kind(version, kind).ok_or_else(|| {
            Status::bad_request(format!("no kind {kind:?} is registered for version {version:?}"))
        })?;
        let version = version.rsplit('/').next().unwrap_or_default().to_string();
        kinds::to_stored(&resource, &mut object);
        kinds::decode(&resource, &mut object)?;
        let name = text(&object, "/metadata/name").to_string();
        let namespace = text(&object, "/metadata/namespace");
        if name.is_empty() || resource.namespaced && namespace.is_empty() {
            return Err(Status::bad_request("metadata has no name or namespace"));
        }
        let key = self.cluster.key(&resource, namespace, &name);
        let stored = self.cluster.transact(&key, |current| {
            Ok::<_, Status>(Outcome::Put(with_server_metadata(&resource, current, object)))
        })?;
        Ok(kinds::present(&resource, &version, stored))
    }

    /// Returns an object as stored; None if it does not exist or its kind is not served. `api_version` is, for example,
    /// `coordination.k8s.io/v1`.
    pub fn get(
        &self,
        api_version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let (resource, version) = self.resource(api_version, plural)?;
        let key = self.cluster.key(&resource, namespace, name);
        let object = self.cluster.store.get(&key)?;
        Some(kinds::present(&resource, &version, (*object).clone()))
    }

    /// Returns the objects of a resource; an empty namespace means all namespaces.
    pub fn list(&self, api_version: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let Some((resource, version)) = self.resource(api_version, plural) else {
            return Vec::new();
        };
        let objects = self.cluster.store.snapshot(&resource.storage(), namespace).objects;
        let present = |object: &Value| kinds::present(&resource, &version, object.clone());
        objects.iter().map(|(_, object)| present(object)).collect()
    }

    /// Changes an object atomically, including its status, without validation, like a controller of this cluster.
    /// `change` returns whether it changed anything. Returns false if it did not, or if the object does not exist.
    pub fn alter(
        &self,
        api_version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value) -> bool,
    ) -> bool {
        let Some((resource, _)) = self.resource(api_version, plural) else { return false };
        let key = self.cluster.key(&resource, namespace, name);
        controllers::alter(&self.cluster, &key, |object| {
            let before = object.clone();
            let changed = change(object);
            count_generation(&resource, &before, object);
            if object["metadata"]["managedFields"].is_array() {
                managed_fields::update(Some(&before), object, "test");
            }
            changed
        })
    }

    /// Deletes an object according to the rules for finalizers and owners; returns false if it does not exist.
    pub fn delete(&self, api_version: &str, plural: &str, namespace: &str, name: &str) -> bool {
        let Some((resource, _)) = self.resource(api_version, plural) else { return false };
        let key = self.cluster.key(&resource, namespace, name);
        delete::delete(&self.cluster, &resource, &key, &DeleteOptions::default()).is_ok()
    }

    /// Creates a namespace if it does not exist.
    pub fn create_namespace(&self, name: &str) {
        if self.cluster.namespace(name).is_none() {
            let metadata = json!({"name": name});
            self.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        }
    }

    fn resource(&self, api_version: &str, plural: &str) -> Option<(Arc<Resource>, String)> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let found = self.cluster.registry.find(group, version, plural);
        found.map(|resource| (resource, version.into()))
    }
}

/// Returns the object with the metadata that the server sets; keeps a given status.
fn with_server_metadata(resource: &Resource, current: Option<&Value>, mut object: Value) -> Value {
    match current {
        Some(current) => {
            keep_metadata(current, &mut object);
            count_generation(resource, current, &mut object);
        }
        None => {
            let status = object.get("status").cloned();
            let spec = object.get("spec").cloned();
            kinds::prepare(resource, &mut object, &User::default());
            if let (true, Some(spec)) = (resource.is("certificatesigningrequests"), spec) {
                object["spec"] = spec;
            }
            if let Some(status) = status {
                object["status"] = status;
            }
            stamp(resource, &mut object);
        }
    }
    object
}
