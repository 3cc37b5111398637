//! The registry of resources: built-in ones, and those that CustomResourceDefinitions add at runtime.

use std::sync::{Arc, RwLock};

use serde_json::{Value, json};

use crate::schema;

/// A resource and its rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// Served versions, the preferred one first.
    pub versions: Vec<String>,
    /// Plural lower-case name, as in the path.
    pub plural: String,
    /// Kind, as in the objects.
    pub kind: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// Whether it has a `/status` subresource.
    pub status: bool,
    /// Whether `metadata.generation` counts changes of the content; otherwise objects have no generation.
    pub generation: bool,
    /// Whether a PUT creates an object that does not exist.
    pub create_on_update: bool,
    /// Whether a PUT may omit `metadata.resourceVersion`.
    pub unconditional_update: bool,
    /// A structural schema, as in a CustomResourceDefinition: unknown fields are pruned, and defaults are added.
    pub schema: Option<Value>,
    /// Whether its definition is being deleted, so that no object can be created.
    pub terminating: bool,
    /// Whether it is built in, not from a CustomResourceDefinition.
    pub builtin: bool,
}

impl Resource {
    /// Returns a custom resource with a status subresource.
    pub fn custom(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> Self {
        Self {
            group: group.into(),
            versions: vec![version.into()],
            plural: plural.into(),
            kind: kind.into(),
            namespaced,
            status: true,
            generation: true,
            create_on_update: false,
            unconditional_update: false,
            schema: None,
            terminating: false,
            builtin: false,
        }
    }

    /// Adds a default for a field of the spec; all other fields stay unchanged.
    #[must_use]
    pub fn with_default(self, field: &str, value: Value) -> Self {
        let keep = json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {}});
        let (mut spec, mut schema) = (keep.clone(), keep);
        spec["properties"][field] = json!({"default": value});
        schema["properties"]["spec"] = spec;
        Self { schema: Some(schema), ..self }
    }

    /// Returns the resource that a CustomResourceDefinition declares; None if a required field is missing.
    pub(crate) fn from_definition(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let served = spec["versions"].as_array()?.iter().filter(|v| v["served"] != false);
        let versions = served.clone().filter_map(|v| Some(v["name"].as_str()?.into())).collect();
        Some(Self {
            group: spec["group"].as_str()?.into(),
            versions,
            plural: spec["names"]["plural"].as_str()?.into(),
            kind: spec["names"]["kind"].as_str()?.into(),
            namespaced: spec["scope"] == "Namespaced",
            status: served.clone().any(|v| v.pointer("/subresources/status").is_some()),
            generation: true,
            create_on_update: false,
            unconditional_update: false,
            schema: served.clone().find_map(|v| v.pointer("/schema/openAPIV3Schema").cloned()),
            terminating: !definition["metadata"]["deletionTimestamp"].is_null(),
            builtin: false,
        })
    }

    /// Prunes and defaults an object by the schema. A real server does so for received and stored objects, so that a
    /// new schema also applies to old objects.
    pub(crate) fn shape(&self, object: &mut Value) {
        if let Some(schema) = &self.schema {
            schema::shape(schema, object);
        }
    }

    /// Returns `leases.coordination.k8s.io`, or `secrets` for the core group.
    pub(crate) fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// The resource under which objects are stored; both groups of Events share one.
    pub(crate) fn storage(&self) -> String {
        match (self.group.as_str(), self.plural.as_str()) {
            ("events.k8s.io", "events") => "events".into(),
            _ => self.qualified(),
        }
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        match self.group.as_str() {
            "" => version.into(),
            group => format!("{group}/{version}"),
        }
    }

    pub(crate) fn is(&self, plural: &str) -> bool {
        self.builtin && self.plural == plural
    }
}

/// All resources, in the order of their registration.
#[derive(Debug)]
pub(crate) struct Registry(RwLock<Vec<Arc<Resource>>>);

impl Registry {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(BUILTIN.iter().map(|row| Arc::new(builtin(row))).collect()))
    }

    /// Adds a resource; replaces and returns the one with the same group and name, if any.
    pub(crate) fn add(&self, resource: Resource) -> Option<Arc<Resource>> {
        let mut all = self.0.write().unwrap_or_else(|e| e.into_inner());
        let same = |r: &Arc<Resource>| r.group == resource.group && r.plural == resource.plural;
        match all.iter().position(same) {
            Some(index) => Some(std::mem::replace(&mut all[index], Arc::new(resource))),
            None => {
                all.push(Arc::new(resource));
                None
            }
        }
    }

    pub(crate) fn remove(&self, resource: &Resource) -> Option<Arc<Resource>> {
        let mut all = self.0.write().unwrap_or_else(|e| e.into_inner());
        let is_it = |r: &Arc<Resource>| !r.builtin && r.qualified() == resource.qualified();
        all.iter().position(is_it).map(|index| all.remove(index))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Resource>> {
        self.0.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.all().into_iter().find(|r| {
            r.group == group && r.plural == plural && r.versions.iter().any(|v| v == version)
        })
    }

    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.all()
            .into_iter()
            .find(|r| r.group == group && r.kind == kind && r.versions.iter().any(|v| v == version))
    }

    /// Returns the resource with this storage name, for example `leases.coordination.k8s.io`.
    pub(crate) fn stored_as(&self, storage: &str) -> Option<Arc<Resource>> {
        self.all().into_iter().find(|r| r.storage() == storage)
    }
}

/// group, version, plural, kind, flags: n namespaced, s status, g generation, c create on update,
/// u unconditional update. From the strategies in `pkg/registry` of Kubernetes 1.34.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const BUILTIN: &[Row] = &[
    ("", "v1", "namespaces", "Namespace", "su"),
    ("", "v1", "secrets", "Secret", "nu"),
    ("", "v1", "configmaps", "ConfigMap", "nu"),
    ("", "v1", "pods", "Pod", "nsgu"),
    ("", "v1", "nodes", "Node", "su"),
    ("", "v1", "serviceaccounts", "ServiceAccount", "nu"),
    ("", "v1", "services", "Service", "nsu"),
    ("", "v1", "events", "Event", "ncu"),
    ("events.k8s.io", "v1", "events", "Event", "ncu"),
    ("coordination.k8s.io", "v1", "leases", "Lease", "nc"),
    ("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "su"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "nsg"),
    ("apps", "v1", "deployments", "Deployment", "nsgu"),
    ("apps", "v1", "replicasets", "ReplicaSet", "nsgu"),
    ("apps", "v1", "statefulsets", "StatefulSet", "nsgu"),
    ("apps", "v1", "daemonsets", "DaemonSet", "nsgu"),
    ("batch", "v1", "jobs", "Job", "nsgu"),
    ("batch", "v1", "cronjobs", "CronJob", "nsgu"),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", "ncu"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", "ncu"),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "cu"),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", "cu"),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "sg"),
];

fn builtin((group, version, plural, kind, flags): &Row) -> Resource {
    Resource {
        group: (*group).into(),
        versions: vec![(*version).into()],
        plural: (*plural).into(),
        kind: (*kind).into(),
        namespaced: flags.contains('n'),
        status: flags.contains('s'),
        generation: flags.contains('g'),
        create_on_update: flags.contains('c'),
        unconditional_update: flags.contains('u'),
        schema: None,
        terminating: false,
        builtin: true,
    }
}

/// Returns `leases.coordination.k8s.io`, or `secrets` for the core group.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    match group {
        "" => name.into(),
        group => format!("{name}.{group}"),
    }
}
