//! Direct access to the objects, for setting a scene and looking at the outcome without HTTP.

use serde_json::{Value, json};

use crate::controllers;
use crate::delete;
use crate::identity::User;
use crate::kinds;
use crate::metadata::{count_generation, keep_metadata, stamp, text};
use crate::resources::Resource;
use crate::signer;
use crate::status::Status;
use crate::store::{Key, Outcome};
use crate::{Handle, Server};

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
        delete::delete(&self.cluster, &resource, &key, &delete::Options::default()).is_ok()
    }

    /// Creates a namespace; does nothing where it exists.
    pub fn create_namespace(&self, name: &str) {
        if self.cluster.namespace(name).is_none() {
            self.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
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

    fn resource(&self, api_version: &str, plural: &str) -> (std::sync::Arc<Resource>, String) {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let found = self.cluster.registry.find(group, version, plural);
        (found.expect("the resource is served"), version.into())
    }
}

impl Handle {
    pub(crate) fn put(&self, mut object: Value) -> Result<Value, Status> {
        let (version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        let resource = self.cluster.registry.of_kind(version, kind).ok_or_else(|| {
            Status::bad_request(format!("no kind {kind:?} is registered for version {version:?}"))
        })?;
        let version = version.rsplit('/').next().unwrap_or_default().to_string();
        kinds::to_stored(&resource, &mut object);
        kinds::decode(&resource, &mut object)?;
        let name = text(&object, "/metadata/name").to_string();
        if name.is_empty() {
            return Err(Status::bad_request("metadata.name is missing"));
        }
        let namespace = text(&object, "/metadata/namespace");
        if resource.namespaced && namespace.is_empty() {
            return Err(Status::bad_request("metadata.namespace is missing"));
        }
        let key = self.cluster.key(&resource, namespace, &name);
        let stored = self.cluster.transact(&key, |current| {
            Ok::<_, Status>(Outcome::Put(place(&resource, current, object)))
        })?;
        Ok(kinds::present(&resource, &version, stored))
    }

    /// Adds a condition to a signing request, as `kubectl certificate` does.
    pub(crate) fn decide(&self, name: &str, condition: &str) -> bool {
        let key = Key {
            resource: "certificatesigningrequests.certificates.k8s.io".into(),
            namespace: String::new(),
            name: name.into(),
        };
        let decided = self.cluster.transact(&key, |current| {
            let mut next = current.ok_or(())?.clone();
            if signer::has(&next, condition) {
                return Ok::<_, ()>(Outcome::Answer(next));
            }
            signer::add(&mut next, condition, "ByTest", "decided by the test");
            Ok(Outcome::Put(next))
        });
        decided.is_ok()
    }
}

/// The object with the metadata that the server sets; a given status survives.
fn place(resource: &Resource, current: Option<&Value>, mut object: Value) -> Value {
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
