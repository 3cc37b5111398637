//! Capacity and allocatable of the spoke's nodes in the ManagedCluster's status.

use apiclient::resource::{Resource, Target};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    needs::{Need, needs},
    ocm::{clusters, serve_claims},
    spoke::Spoke,
    stays, within,
};

use crate::{
    claim,
    support::{cluster, joins},
};

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// Creates a node with this capacity, all of it allocatable.
pub(crate) fn create(cluster: &Cluster, name: &str, resources: &Value) {
    let target = NODES.cluster_object(name);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    cluster.create(&target.siblings(), &node);
    let status = json!({"capacity": resources, "allocatable": resources});
    cluster.merge(&target.status(), &json!({"status": status}));
}

/// A node of this spoke, under a name of its own.
pub(crate) struct Node<'a> {
    spoke: &'a Spoke,
    name: String,
}

impl<'a> Node<'a> {
    pub(crate) fn new(spoke: &'a Spoke, name: &str, resources: &Value) -> Self {
        let node = Self { spoke, name: format!("{}-{name}", spoke.namespace) };
        create(&spoke.managed, &node.name, resources);
        node
    }

    fn target(&self) -> Target<'_> {
        NODES.cluster_object(&self.name)
    }

    fn set(&self, capacity: &Value, allocatable: &Value) {
        let status = json!({"capacity": capacity, "allocatable": allocatable});
        self.spoke.managed.merge(&self.target().status(), &json!({"status": status}));
    }

    fn cordon(&self, unschedulable: bool) {
        let spec = json!({"unschedulable": unschedulable});
        self.spoke.managed.merge(&self.target(), &json!({"spec": spec}));
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        self.spoke.managed.delete(&self.target());
    }
}

/// What the hub has of a resource: capacity and allocatable.
fn told(spoke: &Spoke, resource: &str) -> [Option<String>; 2] {
    let cluster = cluster(spoke);
    ["capacity", "allocatable"]
        .map(|list| Some(cluster["status"][list].get(resource)?.as_str()?.to_owned()))
}

/// Waits longer than elsewhere: one change after the other is written at growing intervals.
#[track_caller]
fn becomes(spoke: &Spoke, resource: &str, expected: [Option<&str>; 2]) {
    let expected = expected.map(|text| text.map(str::to_owned));
    within(60, &format!("{resource} is {expected:?}"), || told(spoke, resource) == expected);
}

#[test]
fn resources_of_all_nodes_are_reported() {
    let spoke = Spoke::auto("capacity");
    // On real servers, the nodes of other tests have CPUs too.
    let widgets = format!("example.com/{}", spoke.namespace);
    let first = Node::new(&spoke, "a", &json!({"cpu": "4", "memory": "1Gi", &*widgets: "1500"}));
    let _agent = joins(&spoke, &[]);
    becomes(&spoke, &widgets, [Some("1500"), Some("1500")]);
    let second = Node::new(&spoke, "b", &json!({&*widgets: "1500"}));
    second.set(&json!({&*widgets: "1500"}), &json!({&*widgets: "500"}));
    becomes(&spoke, &widgets, [Some("3000"), Some("2000")]);
    second.cordon(true);
    becomes(&spoke, &widgets, [Some("3000"), Some("1500")]);
    // Others have a word in it, too.
    let (clusters, others) = (clusters(), json!({"capacity": {"sockets": "1200"}}));
    let target = clusters.cluster_object(&spoke.cluster);
    spoke.hub.cluster.merge(&target.status(), &json!({"status": others}));
    drop(first);
    second.cordon(false);
    becomes(&spoke, &widgets, [Some("1500"), Some("500")]);
    assert_eq!(told(&spoke, "sockets"), [Some("1200".into()), None]);
    if needs(Need::Embedded, "the nodes of other tests change too") {
        let version = || cluster(&spoke)["metadata"]["resourceVersion"].clone();
        let before = version();
        let beat = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        spoke.managed.merge(&second.target().status(), &beat);
        stays("nothing is written", || version() == before);
    }
}

/// Nor do claims, next to them.
#[test]
fn unreadable_resources_and_claims_stay() {
    if !needs(Need::Embedded, "a right is taken away for a moment") {
        return;
    }
    let spoke = Spoke::auto("capacity-refused");
    serve_claims(&spoke.managed);
    let node = Node::new(&spoke, "a", &json!({"cpu": "4"}));
    claim::put(&spoke, "a", "1", &json!({}));
    let mut agent = joins(&spoke, &[]);
    becomes(&spoke, "cpu", [Some("4"), Some("4")]);
    claim::becomes(&spoke, "a", Some("1"));
    agent.kill();
    let faults = spoke.managed.faults();
    let kinds = ["nodes", "clusterclaims"];
    let rules = kinds.map(|kind| faults.deny("list", kind, ""));
    node.set(&json!({"cpu": "8"}), &json!({"cpu": "8"}));
    claim::put(&spoke, "a", "2", &json!({}));
    let agent = joins(&spoke, &[]);
    kinds.iter().for_each(|kind| agent.wait_for(&format!("list {kind}")));
    stays("nothing is said of them", || {
        let claim = claim::told(&spoke, "a");
        told(&spoke, "cpu")[0].as_deref() == Some("4") && claim.as_deref() == Some("1")
    });
    let ready = agent.ask("/readyz");
    assert!(kinds.iter().all(|kind| ready.1.contains(kind)), "{ready:?}");
    rules.iter().for_each(|rule| faults.remove(*rule));
    becomes(&spoke, "cpu", [Some("8"), Some("8")]);
    claim::becomes(&spoke, "a", Some("2"));
}
