//! What the spoke has, in the ManagedCluster's status: capacity of nodes, ClusterClaims and ClusterProperties.

use apiclient::resource::{LEASES, Resource};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    ocm::{claims, properties, serve_claims, serve_properties},
    spoke::Spoke,
    stays, within,
};

use crate::{
    addon_registration::support::{ADDON, put_lease, told},
    managed_namespace,
    support::{account, cluster, joins, sent},
};

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// Creates a node with this capacity, all of it allocatable.
pub(crate) fn create_node(cluster: &Cluster, name: &str, resources: &Value) {
    let target = NODES.cluster_object(name);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    cluster.create(&target.siblings(), &node);
    let status = json!({"capacity": resources, "allocatable": resources});
    cluster.merge(&target.status(), &json!({"status": status}));
}

fn cpu(spoke: &Spoke) -> [Value; 2] {
    ["capacity", "allocatable"].map(|list| cluster(spoke)["status"][list]["cpu"].clone())
}

/// Waits longer than elsewhere: one change after the other is written at growing intervals.
#[track_caller]
fn cpu_becomes(spoke: &Spoke, count: &str) {
    within(60, &format!("{count} CPUs"), || cpu(spoke) == [count, count]);
}

fn put(spoke: &Spoke, name: &str, value: &str, labels: &Value) {
    put_as(&claims(), &spoke.managed, (name, value), labels);
}

/// Creates or changes a claim or property of this name and value.
pub(crate) fn put_as(
    kind: &Resource,
    cluster: &Cluster,
    (name, value): (&str, &str),
    labels: &Value,
) {
    let (target, spec) = (kind.cluster_object(name), json!({"value": value}));
    if cluster.get(&target).is_some() {
        cluster.merge(&target, &json!({"spec": spec}));
        return;
    }
    let claim = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    });
    cluster.create(&target.siblings(), &claim);
}

/// What the hub has of a claim.
fn claimed(spoke: &Spoke, name: &str) -> Option<String> {
    let cluster = spoke.hub.managed_cluster(&spoke.cluster)?;
    let mut all = cluster["status"]["clusterClaims"].as_array()?.iter();
    Some(all.find(|claim| claim["name"] == name)?["value"].as_str()?.to_owned())
}

#[track_caller]
fn claim_becomes(spoke: &Spoke, name: &str, value: Option<&str>) {
    eventually(&format!("{name} is {value:?}"), || claimed(spoke, name).as_deref() == value);
}

#[test]
fn claims_and_properties_are_reported_updated_and_removed() {
    let spoke = Spoke::auto("claims");
    serve_claims(&spoke.managed);
    serve_properties(&spoke.managed);
    // On real servers, others have claims too.
    let [a, b, own] = ["a", "b", "own"].map(|name| format!("{name}.{}", spoke.namespace));
    put(&spoke, &a, "1", &json!({}));
    put(&spoke, &b, "claim", &json!({}));
    put_as(&properties(), &spoke.managed, (&b, "property"), &json!({}));
    put(&spoke, &own, "1", &json!({"open-cluster-management.io/spoke-only": ""}));
    let _agent = joins(&spoke, &["-feature-gates=ClusterProperty=true"]);
    claim_becomes(&spoke, &a, Some("1"));
    claim_becomes(&spoke, &b, Some("property"));
    put(&spoke, &a, "2", &json!({}));
    claim_becomes(&spoke, &a, Some("2"));
    spoke.managed.delete(&properties().cluster_object(&b));
    claim_becomes(&spoke, &b, Some("claim"));
    for name in [&a, &b] {
        spoke.managed.delete(&claims().cluster_object(name));
        claim_becomes(&spoke, name, None);
    }
    assert_eq!(claimed(&spoke, &own), None);
}

/// What cannot be read now was there before, and an add-on's Lease may have been renewed.
#[test]
fn unreadable_resources_claims_and_leases_change_nothing() {
    if !needs(Need::Embedded, "a right is taken away for a moment") {
        return;
    }
    let spoke = Spoke::auto("refused");
    let namespace = spoke.addon_namespace();
    serve_claims(&spoke.managed);
    create_node(&spoke.managed, "a", &json!({"cpu": "4"}));
    put(&spoke, "a", "1", &json!({}));
    let mut agent = joins(&spoke, &[]);
    cpu_becomes(&spoke, "4");
    claim_becomes(&spoke, "a", Some("1"));
    put_lease(&spoke.managed, &namespace);
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    told(&spoke, "Available", "True");
    agent.kill();
    let old = json!({"spec": {"renewTime": "2026-11-23T00:00:00.000000Z"}});
    spoke.managed.merge(&LEASES.object(&namespace, ADDON), &old);
    let faults = spoke.managed.faults();
    let kinds = ["nodes", "clusterclaims"];
    let lists = kinds.map(|kind| faults.deny("list", kind, ""));
    let lease = faults.deny("get", "leases", "");
    let more = json!({"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}});
    spoke.managed.merge(&NODES.cluster_object("a").status(), &json!({"status": more}));
    put(&spoke, "a", "2", &json!({}));
    let agent = joins(&spoke, &[]);
    agent.wait_for("the Lease of an add-on cannot be read");
    kinds.iter().for_each(|kind| agent.wait_for(&format!("list {kind}")));
    stays("nothing is said of them", || {
        cpu(&spoke) == ["4", "4"] && claimed(&spoke, "a").as_deref() == Some("1")
    });
    told(&spoke, "Available", "True");
    let ready = agent.ask("/readyz");
    assert!(kinds.iter().all(|kind| ready.1.contains(kind)), "{ready:?}");
    lists.iter().chain([&lease]).for_each(|rule| faults.remove(*rule));
    told(&spoke, "Available", "False");
    cpu_becomes(&spoke, "8");
    claim_becomes(&spoke, "a", Some("2"));
}

/// What a flag turns off costs neither cluster a request.
#[test]
fn features_that_are_off_ask_and_tell_nothing() {
    if !needs(Need::Embedded, "its log of requests is read") {
        return;
    }
    let spoke = Spoke::auto("off");
    serve_claims(&spoke.managed);
    put(&spoke, "a", "1", &json!({}));
    create_node(&spoke.managed, "a", &json!({"cpu": "4"}));
    let gates = "-feature-gates=AddonManagement=false,ClusterClaim=false";
    let _agent = joins(&spoke, &[gates, "-report-capacity=false", "-managed-namespaces=false"]);
    spoke.hub.add_addon(&spoke.cluster, "addon1", "addons");
    managed_namespace::manage(&spoke, &["never"]);
    let off = ["managedclusteraddons", "clusterclaims", "nodes", "namespaces"];
    stays("nothing is asked", || {
        let requests = [spoke.managed.requests_of(&account(&spoke)), sent(&spoke)].concat();
        !requests.iter().any(|request| off.contains(&&*request.resource))
    });
    for told in ["capacity", "clusterClaims"] {
        assert!(cluster(&spoke)["status"][told].is_null(), "{told}");
    }
}
