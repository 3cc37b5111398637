//! One object on one cluster, as its users see and change it.

use std::sync::Arc;

use apiclient::{client::Patch, error::Error, resource::Target};
use serde_json::{Value, json};

use super::{FINALIZER, kinds::Kind};
use crate::{cluster::Cluster, eventually};

/// Where an object is or will be.
#[derive(Clone)]
pub struct Place {
    pub cluster: Arc<Cluster>,
    pub kind: &'static Kind,
    pub namespace: Option<String>,
    pub name: String,
}

impl Place {
    pub fn new(cluster: &Arc<Cluster>, kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            kind,
            namespace: kind.namespaced.then(|| namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// Returns another object on the same cluster, in the same namespace if any.
    pub fn sibling(&self, kind: &'static Kind, name: &str) -> Self {
        Self::new(&self.cluster, kind, self.namespace.as_deref().unwrap_or_default(), name)
    }

    pub fn target(&self) -> Target<'_> {
        Target {
            resource: &self.kind.resource,
            namespace: self.namespace.as_deref(),
            name: Some(&self.name),
            subresource: None,
        }
    }

    // --- reading ---

    /// Returns the server's object; without a request on an embedded server.
    pub fn stored(&self) -> Option<Value> {
        let Some(server) = &self.cluster.embedded else { return self.get() };
        let resource = &self.kind.resource;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        server.get(&resource.api_version(), &resource.plural, namespace, &self.name)
    }

    pub fn get(&self) -> Option<Value> {
        self.cluster.get(&self.target())
    }

    /// Returns the object, which must exist.
    #[track_caller]
    pub fn read(&self) -> Value {
        self.get().unwrap_or_else(|| panic!("no {}", self.target()))
    }

    #[track_caller]
    pub fn uid(&self) -> Value {
        self.read()["metadata"]["uid"].clone()
    }

    /// Returns the number in its content.
    pub fn number(&self) -> Option<u64> {
        self.kind.number(&self.get()?)
    }

    /// Returns the number in its status.
    pub fn healthy(&self) -> Option<u64> {
        self.kind.healthy(&self.get()?)
    }

    pub fn annotation(&self, key: &str) -> Option<String> {
        self.get()?["metadata"]["annotations"][key].as_str().map(str::to_owned)
    }

    pub fn finalizers(&self) -> Vec<String> {
        let object = self.get().unwrap_or_default();
        let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    }

    pub fn is_claimed(&self) -> bool {
        self.finalizers().iter().any(|one| one == FINALIZER)
    }

    pub fn is_terminating(&self) -> bool {
        self.get().is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
    }

    pub fn generation(&self) -> Option<String> {
        Some(self.get()?["metadata"]["generation"].as_u64()?.to_string())
    }

    // --- waiting ---

    /// Waits until the object exists and `holds`.
    #[track_caller]
    pub fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{}: {what}", self.target()), || self.get().filter(|it| holds(it)))
    }

    #[track_caller]
    pub fn wait_for_number(&self, number: u64) -> Value {
        self.wait(&format!("content {number}"), |it| self.kind.number(it) == Some(number))
    }

    #[track_caller]
    pub fn wait_for_health(&self, number: u64) -> Value {
        self.wait(&format!("status {number}"), |it| self.kind.healthy(it) == Some(number))
    }

    #[track_caller]
    pub fn wait_until_gone(&self) {
        let what = format!("{} is gone", self.target());
        eventually(&what, || self.get().is_none());
    }

    // --- changing ---

    /// Creates it from these fields; adds apiVersion, kind and name, and writes a status to its subresource.
    #[track_caller]
    pub fn create(&self, object: &Value) -> Value {
        let mut new = object.clone();
        new["apiVersion"] = json!(self.kind.resource.api_version());
        new["kind"] = json!(self.kind.resource.kind);
        new["metadata"]["name"] = json!(self.name);
        let created = self.cluster.create(&self.target().siblings(), &new);
        match object.get("status") {
            Some(status) if self.kind.status => self.set_status(&json!({"status": status})),
            _ => created,
        }
    }

    /// Creates it with content of this number.
    #[track_caller]
    pub fn create_number(&self, number: u64) -> Value {
        self.create(&self.kind.content(number))
    }

    #[track_caller]
    pub fn merge(&self, patch: &Value) -> Value {
        self.cluster.merge(&self.target(), patch)
    }

    #[track_caller]
    pub fn set_number(&self, number: u64) -> Value {
        self.merge(&self.kind.content(number))
    }

    /// Merges into the status.
    #[track_caller]
    pub fn set_status(&self, patch: &Value) -> Value {
        self.cluster.merge(&self.target().status(), patch)
    }

    #[track_caller]
    pub fn set_health(&self, number: u64) -> Value {
        self.set_status(&self.kind.health(number))
    }

    /// Sets an annotation; `None` removes it.
    #[track_caller]
    pub fn annotate(&self, key: &str, value: Option<&str>) -> Value {
        self.merge(&json!({"metadata": {"annotations": {key: value}}}))
    }

    /// Replaces all its finalizers, like `kubectl patch` to remove them.
    #[track_caller]
    pub fn set_finalizers(&self, finalizers: &[&str]) {
        self.merge(&json!({"metadata": {"finalizers": finalizers}}));
    }

    pub fn delete(&self) {
        self.cluster.delete(&self.target());
    }

    /// Reads it, changes it and writes it back; retries on conflicts.
    #[track_caller]
    pub fn alter(&self, change: impl Fn(&mut Value)) -> Value {
        eventually(&format!("{} is changed", self.target()), || {
            let mut object = self.read();
            change(&mut object);
            match self.cluster.client.replace(&self.target(), &object) {
                Err(Error::Conflict(_)) => None,
                answer => Some(answer.unwrap_or_else(|error| panic!("{error}"))),
            }
        })
    }

    /// Deletes it despite its finalizers, so that nobody sees it being deleted: atomically on an embedded server,
    /// otherwise as fast as possible.
    pub fn delete_by_force(&self) {
        if let Some(server) = &self.cluster.embedded {
            let version = self.kind.resource.api_version();
            let namespace = self.namespace.as_deref().unwrap_or_default();
            server.alter(&version, &self.kind.resource.plural, namespace, &self.name, |object| {
                object["metadata"]["finalizers"] = json!([]);
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                true
            });
        } else {
            let freed = json!({"metadata": {"finalizers": null}});
            match self.cluster.client.patch(&self.target(), Patch::Merge, &freed) {
                Ok(_) | Err(Error::NotFound(_)) => self.delete(),
                Err(error) => panic!("{error}"),
            }
        }
        self.wait_until_gone();
    }
}
