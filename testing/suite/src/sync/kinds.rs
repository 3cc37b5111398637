//! Kinds of all sorts: built in or not, with a status of its own or not, inside of namespaces or not.

use apiclient::{error::Error, resource::Resource};
use serde_json::{Value, json};

use crate::{cluster::Cluster, eventually, listing::list, pause, real};

/// A kind and what its objects look like.
#[derive(Debug)]
pub struct Kind {
    pub resource: Resource,
    pub namespaced: bool,
    /// Whether the status is a thing of its own.
    pub status: bool,
    /// The field that is the content, and the member of it that `content` sets.
    field: &'static str,
    member: &'static str,
    /// The member of the status that `health` sets.
    health: &'static str,
}

/// Built in; what upstream tests with.
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
/// Without a status, and without a spec.
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
/// Outside of all namespaces.
pub static REGIONS: Kind = Kind {
    resource: Resource::v1("sync.example.com", "regions", "Region"),
    namespaced: false,
    status: true,
    field: "spec",
    member: "size",
    health: "ready",
};

/// Secrets as the harness handles them.
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

/// A kind of the servers' own.
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
    /// As -resource takes it: `plural.group`.
    pub fn flag(&self) -> String {
        let Resource { group, plural, .. } = &self.resource;
        if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
    }

    /// Content that differs by a number.
    pub fn content(&self, number: u64) -> Value {
        match self.field {
            "data" => json!({self.field: {self.member: number.to_string()}}),
            _ => json!({self.field: {self.member: number}}),
        }
    }

    /// The number in an object's content.
    pub fn number(&self, object: &Value) -> Option<u64> {
        let value = &object[self.field][self.member];
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }

    /// A status that differs by a number.
    pub fn health(&self, number: u64) -> Value {
        json!({"status": {self.health: number}})
    }

    /// The number in an object's status.
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

/// Installs a kind unless it is there.
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

/// The schema that takes any content, and keeps it as it is.
pub fn any_content() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Gives a kind another schema, as an upgrade of its definition does: what it does not name is dropped, what
/// it has a default for is added.
pub fn reshape(cluster: &Cluster, kind: &Kind, schema: &Value) {
    let name = kind.flag();
    let target = definitions().resource.cluster_object(&name);
    let versions = definition(kind, schema)["spec"]["versions"].clone();
    cluster.merge(&target, &json!({"spec": {"versions": versions}}));
    if real() {
        // The server that answers takes up a definition by a watch, and tells nobody.
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
