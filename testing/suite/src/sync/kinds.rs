//! Various kinds: built in or not, with or without a status subresource, namespaced or not.

use apiclient::{error::Error, resource::Resource};
use serde_json::{Value, json};

use crate::{cluster::Cluster, eventually, listing::list, pause, real};

/// A kind, and the form of its objects.
#[derive(Debug)]
pub struct Kind {
    pub resource: Resource,
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub status: bool,
    /// The field with the content, and its member that `content` sets.
    field: &'static str,
    member: &'static str,
    /// The member of the status that `health` sets.
    health: &'static str,
}

/// Built in; upstream's tests use it.
pub static BUDGETS: Kind = Kind {
    resource: Resource::v1("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
    namespaced: true,
    status: true,
    field: "spec",
    member: "minAvailable",
    health: "currentHealthy",
};
pub static WIDGETS: Kind = Kind {
    resource: Resource::v1("sync.example.com", "widgets", "Widget"),
    namespaced: true,
    status: true,
    field: "spec",
    member: "size",
    health: "ready",
};
/// Without status and spec.
pub static SETTINGS: Kind = Kind {
    resource: Resource::v1("sync.example.com", "plainsettings", "PlainSetting"),
    namespaced: true,
    status: false,
    field: "data",
    member: "size",
    health: "",
};
pub static CONFIGS: Kind = Kind {
    resource: Resource::v1("", "configmaps", "ConfigMap"),
    namespaced: true,
    status: false,
    field: "data",
    member: "size",
    health: "",
};
/// Cluster-scoped.
pub static REGIONS: Kind = Kind {
    resource: Resource::v1("sync.example.com", "regions", "Region"),
    namespaced: false,
    status: true,
    field: "spec",
    member: "size",
    health: "ready",
};

/// Secrets, for the harness.
pub fn secrets() -> &'static Kind {
    static KIND: Kind = plain("", "secrets", "Secret", true);
    &KIND
}

/// CustomResourceDefinitions.
pub fn definitions() -> &'static Kind {
    static KIND: Kind = plain(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
    );
    &KIND
}

pub fn namespaces() -> &'static Kind {
    static KIND: Kind = plain("", "namespaces", "Namespace", false);
    &KIND
}

/// Returns a built-in kind.
pub(super) const fn plain(
    group: &'static str,
    plural: &'static str,
    name: &'static str,
    namespaced: bool,
) -> Kind {
    let resource = Resource::v1(group, plural, name);
    Kind { resource, namespaced, status: false, field: "data", member: "data", health: "" }
}

impl Kind {
    /// Returns the value of -resource: `plural.group`.
    pub fn flag(&self) -> String {
        let Resource { group, plural, .. } = &self.resource;
        if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
    }

    /// Returns content with this number.
    pub fn content(&self, number: u64) -> Value {
        match self.field {
            "data" => json!({self.field: {self.member: number.to_string()}}),
            _ => json!({self.field: {self.member: number}}),
        }
    }

    /// Returns the number in an object's content.
    pub fn number(&self, object: &Value) -> Option<u64> {
        let value = &object[self.field][self.member];
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Returns a status with this number.
    pub fn health(&self, number: u64) -> Value {
        json!({"status": {self.health: number}})
    }

    /// Returns the number in an object's status.
    pub fn healthy(&self, object: &Value) -> Option<u64> {
        object["status"][self.health].as_u64()
    }
}

/// Makes a server serve the kinds that are not built in.
pub fn ensure(cluster: &Cluster) {
    for kind in [&WIDGETS, &SETTINGS, &REGIONS] {
        install(cluster, kind);
    }
    for kind in [&WIDGETS, &SETTINGS, &REGIONS] {
        served(cluster, kind);
    }
}

/// Installs a kind if it does not exist.
pub fn install(cluster: &Cluster, kind: &Kind) {
    let target = definitions().resource.cluster_object("").siblings();
    match cluster.client.create(&target, &definition(kind, &any_content())) {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

fn served(cluster: &Cluster, kind: &Kind) {
    let all = kind.resource.cluster_object("").siblings();
    eventually(&format!("{} are served", kind.flag()), || list(&cluster.client, &all, "").ok());
}

/// Returns a schema that accepts any content, and keeps it unchanged.
pub fn any_content() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Replaces a kind's schema, like an upgrade of its definition: unknown fields are pruned, and defaults are added.
pub fn reshape(cluster: &Cluster, kind: &Kind, schema: &Value) {
    let name = kind.flag();
    let target = definitions().resource.cluster_object(&name);
    let versions = definition(kind, schema)["spec"]["versions"].clone();
    cluster.merge(&target, &json!({"spec": {"versions": versions}}));
    if real() {
        // The server notices definitions by a watch, without reporting when.
        pause(1000);
    }
}

fn definition(kind: &Kind, schema: &Value) -> Value {
    let Resource { group, version, plural, kind: name } = &kind.resource;
    let schema = json!({"openAPIV3Schema": schema});
    let mut served = json!({"name": version, "served": true, "storage": true, "schema": schema});
    if kind.status {
        served["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.flag()},
        "spec": {
            "group": group,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": {"plural": plural, "singular": name.to_lowercase(), "kind": name},
            "versions": [served],
        },
    })
}
