//! The Open Cluster Management hub that a cluster joins: OCM's own controllers on the real control plane, emulated ones
//! on the embedded server.
//!
//! Behavior of the real one that is easy to overlook:
//!
//! - With the gate ManagedClusterAutoApproval, it accepts *every* new cluster, whoever created it; the list of users
//!   only applies to CSRs. Here, both hubs accept only clusters whose name begins with [`AUTO`]; an admission policy
//!   enforces that on the real one.
//! - It creates the heartbeat's Lease without `leaseDurationSeconds`, and sets `ManagedClusterConditionClockSynced`
//!   only after the first renewal of that Lease.
//! - It writes the agent's object often: an annotation, two finalizers, a taint while the cluster is unavailable, its
//!   own conditions. A status patch with a resourceVersion often gets a 409.
//! - Its API server's signer encodes the O's of a subject as one set: the shortest comes first.
//! - A denied cluster keeps its namespace and its Lease, and its availability still expires.
//! - It never changes a cluster's `spec.leaseDurationSeconds`; 60 is the definition's default.

mod kinds;
mod played;
mod real;

use std::sync::Arc;

use apiclient::{
    error::Error,
    resource::{LEASES, Resource, Target},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, resource},
    eventually, identity,
    listing::list,
    real,
};

pub use self::kinds::{
    addons, applied_works, claims, clusters, properties, requests, serve_applied_works,
    serve_claims, serve_properties, sets, works,
};

/// Conditions of a ManagedCluster, by their types.
pub const ACCEPTED: &str = "HubAcceptedManagedCluster";
pub const JOINED: &str = "ManagedClusterJoined";
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
pub const SYNCED: &str = "ManagedClusterConditionClockSynced";
pub const ROTATED: &str = "ClusterCertificateRotated";

/// Clusters whose names begin with this are accepted automatically.
pub const AUTO: &str = "auto-";
pub const CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";
pub const HEARTBEAT: &str = "managed-cluster-lease";
/// The prefix of CN and O's of a cluster's agents.
pub const PREFIX: &str = "system:open-cluster-management:";
const NAMESPACE: &str = "open-cluster-management";
const GROUP: &str = "cluster.open-cluster-management.io";
/// On an add-on: the cluster that its agent runs on, if not the add-on's own cluster.
pub const HOSTING_CLUSTER: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// On a cluster: its ManagedClusterSet.
pub const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// Group and version of ManagedClusterAddOns.
const ADDONS: (&str, &str) = ("addon.open-cluster-management.io", "v1alpha1");

/// The identity with which a cluster requests to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// A person approves its request.
    Manual,
    /// The hub approves its request.
    Auto,
}

impl Bootstrap {
    fn account(self) -> &'static str {
        match self {
            Self::Manual => "agent-registration-bootstrap",
            Self::Auto => "agent-registration-auto",
        }
    }

    /// Returns its user on the hub.
    pub fn user(self) -> String {
        format!("system:serviceaccount:{NAMESPACE}:{}", self.account())
    }
}

/// A hub, with its administrator's access.
pub struct Hub {
    pub cluster: Arc<Cluster>,
}

impl Hub {
    /// Returns the hub of the real control plane, or a new one on an embedded server.
    pub fn new() -> Arc<Self> {
        if !real() {
            return Self::on(Cluster::embedded("hub"));
        }
        let cluster = Cluster::real("hub");
        real::ensure(&cluster);
        Arc::new(Self { cluster })
    }

    /// Creates a hub on the caller's embedded server.
    pub fn on(cluster: Arc<Cluster>) -> Arc<Self> {
        played::start(&cluster);
        give_bootstrap_rights(&cluster);
        Arc::new(Self { cluster })
    }

    // --- clusters ---

    pub fn managed_cluster(&self, name: &str) -> Option<Value> {
        self.cluster.get(&global(&clusters(), name))
    }

    /// Accepts a cluster, like a person.
    pub fn accept(&self, name: &str) {
        self.change(name, &json!({"spec": {"hubAcceptsClient": true}}));
    }

    pub fn deny(&self, name: &str) {
        self.change(name, &json!({"spec": {"hubAcceptsClient": false}}));
    }

    /// Sets the interval of heartbeats; the cluster counts as lost after five of them.
    pub fn set_lease_duration(&self, name: &str, seconds: u32) {
        self.change(name, &json!({"spec": {"leaseDurationSeconds": seconds}}));
    }

    /// Merges `patch` into a cluster.
    pub fn change(&self, name: &str, patch: &Value) {
        self.cluster.merge(&global(&clusters(), name), patch);
    }

    pub fn delete(&self, name: &str) {
        self.cluster.delete(&global(&clusters(), name));
    }

    /// Returns status, reason and message of a condition.
    pub fn condition(&self, name: &str, kind: &str) -> Option<(String, String, String)> {
        let cluster = self.managed_cluster(name)?;
        let condition = condition(&cluster, kind)?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Waits until a condition has this status; returns its reason.
    #[track_caller]
    pub fn wait_for_condition(&self, name: &str, kind: &str, status: &str) -> String {
        eventually(&format!("{kind} of {name} is {status}"), || {
            let (current, reason, _) = self.condition(name, kind)?;
            (current == status).then_some(reason)
        })
    }

    /// Returns the Lease of the cluster's heartbeat.
    pub fn heartbeat(&self, name: &str) -> Option<Value> {
        self.cluster.get(&LEASES.object(name, HEARTBEAT))
    }

    // --- add-ons ---

    /// Installs an add-on on a cluster, in this namespace, like `clusteradm addon enable`.
    pub fn add_addon(&self, cluster: &str, name: &str, namespace: &str) {
        self.add_annotated_addon(cluster, name, namespace, &json!({}));
    }

    /// Installs an add-on with these annotations.
    pub fn add_annotated_addon(
        &self,
        cluster: &str,
        name: &str,
        namespace: &str,
        annotations: &Value,
    ) {
        self.cluster.create(
            &addons().collection(cluster),
            &json!({
                "apiVersion": addons().api_version(), "kind": "ManagedClusterAddOn",
                "metadata": {"name": name, "namespace": cluster, "annotations": annotations},
                "spec": {"installNamespace": namespace},
            }),
        );
    }

    pub fn addon(&self, cluster: &str, name: &str) -> Option<Value> {
        self.cluster.get(&addons().object(cluster, name))
    }

    /// Merges into the status of an add-on, like its manager on the hub.
    pub fn set_addon_status(&self, cluster: &str, name: &str, status: &Value) {
        let (addons, patch) = (addons(), json!({"status": status}));
        self.cluster.merge(&addons.object(cluster, name).status(), &patch);
    }

    pub fn delete_addon(&self, cluster: &str, name: &str) {
        self.cluster.delete(&addons().object(cluster, name));
    }

    /// Waits until an add-on's condition Available has this status; returns the condition.
    #[track_caller]
    pub fn wait_for_addon(&self, cluster: &str, name: &str, status: &str) -> Value {
        eventually(&format!("the add-on {name} is {status}"), || {
            let addon = self.addon(cluster, name)?;
            condition(&addon, "Available").filter(|it| it["status"] == status).cloned()
        })
    }

    // --- certificate requests ---

    /// Returns the CSRs with the cluster's label, including those of add-ons, oldest first (to the second).
    pub fn csrs_of(&self, name: &str) -> Vec<Value> {
        let all = requests();
        let target = Target { resource: &all, namespace: None, name: None, subresource: None };
        let labels = format!("{CLUSTER_LABEL}={name}");
        let found = list(&self.cluster.client, &target, &labels);
        let mut found = found.expect("the requests are listed");
        found.sort_by_key(|request| {
            request["metadata"]["creationTimestamp"].as_str().map(str::to_owned)
        });
        found
    }

    pub fn approve_csr(&self, name: &str) {
        self.decide(name, "Approved");
    }

    pub fn deny_csr(&self, name: &str) {
        self.decide(name, "Denied");
    }

    /// Waits for an undecided CSR of the cluster, and approves it; returns its name.
    #[track_caller]
    pub fn approve_next(&self, cluster: &str) -> String {
        let name = self.next_csr(cluster);
        self.approve_csr(&name);
        name
    }

    /// Waits for an undecided CSR of the cluster; returns its name.
    #[track_caller]
    pub fn next_csr(&self, cluster: &str) -> String {
        eventually(&format!("{cluster} asks for a certificate"), || self.open_csr(cluster))
    }

    /// Returns the name of an undecided CSR, if any.
    pub fn open_csr(&self, cluster: &str) -> Option<String> {
        let open = self.csrs_of(cluster).into_iter().rfind(|request| reasons(request).is_empty());
        Some(open?["metadata"]["name"].as_str()?.to_owned())
    }

    fn decide(&self, name: &str, condition: &str) {
        let all = requests();
        let target = global(&all, name);
        let approval = Target { subresource: Some("approval"), ..target };
        eventually(&format!("{name} is {condition}"), || {
            let mut request = self.cluster.get(&target).expect("the request is there");
            let decision = json!({"type": condition, "status": "True", "reason": "Suite", "message": "by a person"});
            match request["status"]["conditions"].as_array_mut() {
                Some(conditions) => conditions.push(decision),
                None => request["status"]["conditions"] = json!([decision]),
            }
            match self.cluster.client.replace(&approval, &request) {
                Err(Error::Conflict(_)) => None,
                answer => Some(answer.unwrap_or_else(|error| panic!("{error}"))),
            }
        });
    }

    // --- bootstrap identities ---

    /// Requests a token of a bootstrap identity.
    pub fn bootstrap_token(&self, how: Bootstrap) -> String {
        identity::token(&self.cluster, NAMESPACE, how.account())
    }

    /// Returns a kubeconfig with such a token; `address` is the hub's or a relay's.
    pub fn bootstrap_kubeconfig(&self, address: &str, how: Bootstrap) -> String {
        let user = json!({"token": self.bootstrap_token(how)});
        identity::kubeconfig(address, &self.cluster.ca, &user).to_string()
    }
}

/// Returns the condition of this type in an object's status.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut all = object["status"]["conditions"].as_array()?.iter();
    all.find(|condition| condition["type"] == kind)
}

/// Returns whether the object's condition of this type is true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Returns the reasons of a CSR's conditions: none while it is undecided.
pub fn reasons(request: &Value) -> Vec<String> {
    let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter_map(|condition| condition["reason"].as_str().map(str::to_owned)).collect()
}

/// Returns the PEM certificate of a signed CSR.
pub fn certificate(request: &Value) -> Option<String> {
    let certificate = BASE64_STANDARD.decode(request["status"]["certificate"].as_str()?).ok()?;
    String::from_utf8(certificate).ok()
}

/// Returns a cluster-scoped object.
pub fn global<'a>(resource: &'a Resource, name: &'a str) -> Target<'a> {
    Target { resource, namespace: None, name: Some(name), subresource: None }
}

/// Grants the rights that OCM's installer gives to joining clusters, and no more.
fn give_bootstrap_rights(hub: &Cluster) {
    let group = "rbac.authorization.k8s.io";
    let rbac = |plural, kind| resource(group, plural, kind);
    let role = "open-cluster-management:bootstrap";
    let account = |name| json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE});
    let rule = |group, resource, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    ensure(
        hub,
        &resource("", "namespaces", "Namespace"),
        None,
        json!({"metadata": {"name": NAMESPACE}}),
    );
    let accounts = [Bootstrap::Manual, Bootstrap::Auto].map(Bootstrap::account);
    for name in accounts {
        let kind = resource("", "serviceaccounts", "ServiceAccount");
        ensure(
            hub,
            &kind,
            Some(NAMESPACE),
            json!({"metadata": {"name": name, "namespace": NAMESPACE}}),
        );
    }
    ensure(
        hub,
        &rbac("clusterroles", "ClusterRole"),
        None,
        json!({
            "metadata": {"name": role},
            "rules": [
                rule("", "configmaps", &["get"]),
                rule("certificates.k8s.io", "certificatesigningrequests", &["create", "get", "list", "watch"]),
                rule(GROUP, "managedclusters", &["get", "create", "list", "watch"]),
                rule(GROUP, "managedclustersets/join", &["create"]),
            ],
        }),
    );
    ensure(
        hub,
        &rbac("clusterrolebindings", "ClusterRoleBinding"),
        None,
        json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [
                {"apiGroup": group, "kind": "Group", "name": "system:bootstrappers:managedcluster"},
                account(accounts[0]), account(accounts[1]),
            ],
        }),
    );
}

/// Creates an object if it does not exist.
fn ensure(cluster: &Cluster, resource: &Resource, namespace: Option<&str>, mut object: Value) {
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    let target = Target { resource, namespace, name: None, subresource: None };
    match cluster.client.create(&target, &object) {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
