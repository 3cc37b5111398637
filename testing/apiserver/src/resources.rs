//! The registry of resources: the built-in ones, and those that CustomResourceDefinitions add while
//! the server runs.

use std::sync::{Arc, RwLock};

use serde_json::Value;

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
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// True if there is a `/status` subresource.
    pub status: bool,
    /// True if `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// True if a PUT creates an object that does not exist.
    pub create_on_update: bool,
    /// True if a PUT may omit `metadata.resourceVersion`.
    pub unconditional_update: bool,
    /// Defaults of omitted fields, by JSON pointer, as in a CustomResourceDefinition's schema. As
    /// there, a field whose parent is absent stays absent.
    pub defaults: Vec<(String, Value)>,
    /// True if it is built in and does not come from a CustomResourceDefinition.
    pub builtin: bool,
}

impl Resource {
    /// A custom resource with a status subresource.
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
            defaults: Vec::new(),
            builtin: false,
        }
    }

    /// The resource that a CustomResourceDefinition declares; None if it lacks something essential.
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
            defaults: Vec::new(),
            builtin: false,
        })
    }

    /// Fills in the defaults of fields that `object` omits.
    pub(crate) fn fill_in(&self, object: &mut Value) {
        for (pointer, value) in &self.defaults {
            let Some((parent, field)) = pointer.rsplit_once('/') else { continue };
            if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
                parent.entry(field).or_insert_with(|| value.clone());
            }
        }
    }

    /// `leases.coordination.k8s.io`, or `secrets` for the core group.
    pub(crate) fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// The resource under which objects are stored; Events of both groups share one.
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

    pub(crate) fn add(&self, resource: Resource) {
        let mut all = self.0.write().unwrap_or_else(|e| e.into_inner());
        let same = |r: &Arc<Resource>| r.group == resource.group && r.plural == resource.plural;
        match all.iter().position(same) {
            Some(index) => all[index] = Arc::new(resource),
            None => all.push(Arc::new(resource)),
        }
    }

    pub(crate) fn remove(&self, group: &str, plural: &str) {
        let mut all = self.0.write().unwrap_or_else(|e| e.into_inner());
        all.retain(|r| r.builtin || r.group != group || r.plural != plural);
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

    /// The resource of a storage name, for example `leases.coordination.k8s.io`.
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
        defaults: Vec::new(),
        builtin: true,
    }
}

/// `leases.coordination.k8s.io`, or `secrets` for the core group.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    match group {
        "" => name.into(),
        group => format!("{name}.{group}"),
    }
}
