//! The hub's registration controller, emulated on the embedded server. It bypasses the API, so that the log of requests
//! and a test's faults concern only the agent.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    thread,
    time::{Duration, SystemTime},
};

use apiclient::time::{micro_time, parse_micro_time};
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Bearer, Resource, Server};
use serde_json::{Value, json};

use super::{ADDONS, AUTO, Bootstrap, CLUSTER_LABEL, GROUP, HEARTBEAT, PREFIX, SET_LABEL, reasons};
use crate::{
    cluster::Cluster,
    ocm::{ACCEPTED, AVAILABLE, SYNCED},
    pause,
};

const FINALIZER: &str = "cluster.open-cluster-management.io/api-resource-cleanup";
const ACCEPTED_ON: &str = "open-cluster-management.io/automatically-accepted-on";
const CLUSTERS: (&str, &str) = ("cluster.open-cluster-management.io/v1", "managedclusters");
const SETS: (&str, &str) = ("cluster.open-cluster-management.io/v1beta2", "managedclustersets");
const LEASES: (&str, &str) = ("coordination.k8s.io/v1", "leases");
const REQUESTS: (&str, &str) = ("certificates.k8s.io/v1", "certificatesigningrequests");

/// Emulates the hub until the server is dropped.
pub(super) fn start(cluster: &Arc<Cluster>) {
    let server = cluster.server();
    server.register(managed_clusters());
    server.register(Resource::custom(
        ADDONS.0,
        ADDONS.1,
        "managedclusteraddons",
        "ManagedClusterAddOn",
        true,
    ));
    server.register(Resource::custom(
        GROUP,
        "v1beta2",
        "managedclustersets",
        "ManagedClusterSet",
        false,
    ));
    let cluster = Arc::downgrade(cluster);
    thread::spawn(move || play(&cluster));
}

fn managed_clusters() -> Resource {
    Resource::custom(GROUP, "v1", "managedclusters", "ManagedCluster", false)
        .with_default("leaseDurationSeconds", json!(60))
}

fn play(cluster: &Weak<Cluster>) {
    let mut seen = HashMap::new();
    while let Some(cluster) = cluster.upgrade() {
        let server = cluster.server();
        for object in server.list(CLUSTERS.0, CLUSTERS.1, "") {
            let name = text(&object, "/metadata/name");
            admit(server, &object, name);
            alter(server, name, taint);
            let managed = managed_namespaces(server, &object);
            alter(server, name, |cluster| list_namespaces(cluster, managed));
            watch_heartbeat(server, name, &mut seen);
        }
        for request in server.list(REQUESTS.0, REQUESTS.1, "") {
            judge(server, &request);
        }
        drop(cluster);
        pause(20);
    }
}

// --- acceptance ---

fn admit(server: &Server, object: &Value, name: &str) {
    if is_accepted(object) {
        add_namespace(server, name);
    }
    alter(server, name, |cluster| {
        let before = cluster.clone();
        if !cluster["metadata"]["deletionTimestamp"].is_null() {
            keep_finalizer(cluster, false);
        } else if !accept_by_name(cluster, name) {
            answer(cluster);
        }
        *cluster != before
    });
}

fn keep_finalizer(cluster: &mut Value, wanted: bool) {
    let mut all = cluster["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    all.retain(|finalizer| finalizer != FINALIZER);
    all.extend(wanted.then(|| json!(FINALIZER)));
    if !cluster["metadata"]["finalizers"].is_null() || wanted {
        cluster["metadata"]["finalizers"] = json!(all);
    }
}

/// Accepts a cluster only when it joins, because a person may deny it later. Returns whether it did.
fn accept_by_name(cluster: &mut Value, name: &str) -> bool {
    let is_new = cluster["metadata"]["annotations"][ACCEPTED_ON].is_null();
    let accepts = is_new && (name.starts_with(AUTO) || is_accepted(cluster));
    if accepts {
        cluster["metadata"]["annotations"][ACCEPTED_ON] = json!(now());
        cluster["spec"]["hubAcceptsClient"] = json!(true);
    }
    accepts
}

/// Applies the decision in the spec.
fn answer(cluster: &mut Value) {
    if is_accepted(cluster) {
        keep_finalizer(cluster, true);
        let message = "Accepted by hub cluster admin";
        set(cluster, ACCEPTED, "True", "HubClusterAdminAccepted", message);
    } else if status(cluster, ACCEPTED) == Some("True") {
        let message = "Denied by hub cluster admin";
        set(cluster, ACCEPTED, "False", "HubClusterAdminDenied", message);
    }
}

fn is_accepted(cluster: &Value) -> bool {
    cluster["spec"]["hubAcceptsClient"] == true
}

fn add_namespace(server: &Server, name: &str) {
    if server.get("v1", "namespaces", "", name).is_none() {
        let metadata = json!({"name": name, "labels": {CLUSTER_LABEL: name}});
        server.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    }
}

/// Returns the managed namespaces of the cluster's set.
fn managed_namespaces(server: &Server, cluster: &Value) -> Vec<Value> {
    let Some(set) = cluster["metadata"]["labels"][SET_LABEL].as_str() else { return Vec::new() };
    let managed = server.get(SETS.0, SETS.1, "", set).unwrap_or_default();
    let managed = managed["spec"]["managedNamespaces"].as_array().into_iter().flatten();
    managed.map(|namespace| json!({"name": namespace["name"], "clusterSet": set})).collect()
}

/// Lists them in the status without conditions, like the real controller.
fn list_namespaces(cluster: &mut Value, wanted: Vec<Value>) -> bool {
    let mut before = cluster["status"]["managedNamespaces"].as_array().cloned().unwrap_or_default();
    for namespace in before.iter_mut().filter_map(Value::as_object_mut) {
        namespace.remove("conditions");
    }
    let changed = before != wanted;
    if changed {
        cluster["status"]["managedNamespaces"] = Value::Array(wanted);
    }
    changed
}

/// Keeps workloads off an unreachable cluster. For the agent, this is another writer of its object.
fn taint(cluster: &mut Value) -> bool {
    let effect = |what| json!({"key": format!("{GROUP}/{what}"), "effect": "NoSelect"});
    let (unreachable, unavailable) = (effect("unreachable"), effect("unavailable"));
    let wanted = match status(cluster, AVAILABLE) {
        Some("True") => None,
        Some("False") => Some(unavailable.clone()),
        _ => Some(unreachable.clone()),
    };
    let before = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let mut taints = before.clone();
    taints.retain(|taint| {
        Some(taint) == wanted.as_ref() || ![&unreachable, &unavailable].contains(&taint)
    });
    taints.extend(wanted.filter(|wanted| !before.contains(wanted)));
    let changed = taints != before;
    if changed {
        cluster["spec"]["taints"] = json!(taints);
    }
    changed
}

// --- heartbeat ---

/// `seen` has each cluster's last `renewTime`. A new one proves that the cluster is alive, and shows its clock.
fn watch_heartbeat(
    server: &Server,
    name: &str,
    seen: &mut HashMap<String, SystemTime>,
) -> Option<()> {
    let cluster = server.get(CLUSTERS.0, CLUSTERS.1, "", name)?;
    status(&cluster, ACCEPTED)?;
    let Some(lease) = server.get(LEASES.0, LEASES.1, name, HEARTBEAT) else {
        let lease = server.put(new_lease(name));
        seen.insert(name.to_owned(), parse_micro_time(text(&lease, "/spec/renewTime"))?);
        return None;
    };
    let renewed = parse_micro_time(lease["spec"]["renewTime"].as_str()?)?;
    let grace = grace(&cluster);
    if seen.insert(name.to_owned(), renewed).is_some_and(|last| last != renewed) {
        alter(server, name, |cluster| tell_clock(cluster, distance(renewed) < grace));
    }
    let expired = SystemTime::now().duration_since(renewed).is_ok_and(|age| age >= grace);
    if expired {
        alter(server, name, lose);
    }
    Some(())
}

fn new_lease(cluster: &str) -> Value {
    json!({
        "apiVersion": LEASES.0, "kind": "Lease",
        "metadata": {
            "name": HEARTBEAT, "namespace": cluster, "labels": {CLUSTER_LABEL: cluster},
        },
        "spec": {"holderIdentity": HEARTBEAT, "renewTime": micro_time(SystemTime::now())},
    })
}

/// Returns after how long without a heartbeat a cluster is lost.
fn grace(cluster: &Value) -> Duration {
    let seconds = cluster["spec"]["leaseDurationSeconds"].as_u64().filter(|seconds| *seconds > 0);
    Duration::from_secs(5 * seconds.unwrap_or(60))
}

fn distance(time: SystemTime) -> Duration {
    let now = SystemTime::now();
    now.duration_since(time).unwrap_or_else(|ahead| ahead.duration())
}

fn tell_clock(cluster: &mut Value, synced: bool) -> bool {
    let (to, reason, message) = if synced {
        let message = "The clock of the managed cluster is synced with the hub.";
        ("True", "ManagedClusterClockSynced", message)
    } else {
        let message = "The clock of hub and agent is out of sync. This may cause the Unknown \
                       status and affect agent functionalities.";
        ("False", "ManagedClusterClockOutOfSync", message)
    };
    set(cluster, SYNCED, to, reason, message)
}

fn lose(cluster: &mut Value) -> bool {
    let message = "Registration agent stopped updating its lease.";
    set(cluster, AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", message)
}

// --- certificate requests ---

/// Approves what the real hub approves automatically.
fn judge(server: &Server, request: &Value) -> Option<()> {
    if !reasons(request).is_empty() {
        return None;
    }
    let (cluster, agent) = recognise(request)?;
    let user = text(request, "/spec/username");
    let may_renew = || {
        let cluster = server.get(CLUSTERS.0, CLUSTERS.1, "", &cluster);
        user == agent && cluster.is_some_and(|cluster| status(&cluster, ACCEPTED) == Some("True"))
    };
    if user == Bootstrap::Auto.user() || may_renew() {
        let name = text(request, "/metadata/name");
        server.alter(REQUESTS.0, REQUESTS.1, "", name, |request| {
            let open = reasons(request).is_empty();
            if open {
                approve(request);
            }
            open
        });
    }
    Some(())
}

fn approve(request: &mut Value) {
    request["status"]["conditions"] = json!([{
        "type": "Approved", "status": "True",
        "reason": "AutoApprovedByHubCSRApprovingController",
        "message": "Auto approving Managed cluster agent certificate after SubjectAccessReview.",
        "lastUpdateTime": now(), "lastTransitionTime": now(),
    }]);
}

/// Returns the cluster and the user of an agent's CSR; None for any other request.
fn recognise(request: &Value) -> Option<(String, String)> {
    let cluster = request["metadata"]["labels"][CLUSTER_LABEL].as_str()?;
    if request["spec"]["signerName"] != "kubernetes.io/kube-apiserver-client" {
        return None;
    }
    let pem = BASE64_STANDARD.decode(text(request, "/spec/request")).ok()?;
    let Bearer { common_name, mut organizations } = Bearer::of_request(&pem)?;
    organizations.retain(|organization| *organization != format!("{PREFIX}managed-clusters"));
    let own = format!("{PREFIX}{cluster}");
    let agent = common_name.strip_prefix(&own)?.strip_prefix(':')?;
    let valid = organizations == [own] && !agent.is_empty() && !agent.contains(':');
    valid.then(|| (cluster.to_owned(), common_name.clone()))
}

// --- objects ---

fn alter(server: &Server, name: &str, change: impl FnOnce(&mut Value) -> bool) {
    server.alter(CLUSTERS.0, CLUSTERS.1, "", name, change);
}

fn status<'a>(cluster: &'a Value, kind: &str) -> Option<&'a str> {
    let mut all = cluster["status"]["conditions"].as_array()?.iter();
    all.find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// Sets a condition unless it already has that status.
fn set(cluster: &mut Value, kind: &str, to: &str, reason: &str, message: &str) -> bool {
    if status(cluster, kind) == Some(to) {
        return false;
    }
    let condition = json!({
        "type": kind, "status": to, "reason": reason, "message": message,
        "lastTransitionTime": now(),
    });
    match cluster["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|known| known["type"] != kind);
            conditions.push(condition);
        }
        None => cluster["status"]["conditions"] = json!([condition]),
    }
    true
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the time in the format of objects other than Leases.
fn now() -> String {
    let time = micro_time(SystemTime::now());
    format!("{}Z", &time[..19])
}
