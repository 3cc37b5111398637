//! Capacity of the spoke: what all its nodes have together, for Placements to choose by.

mod quantity;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Write,
};

use apiclient::{api::Node, reflector::Store, resource::Resource, watch::Selection};
use serde_json::{Map, Value, json};

use self::quantity::{Quantity, same};
use crate::agent::Agent;

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// More nodes than Kubernetes is made for (5,000) cost more memory than the sum is worth.
const MAX_NODES: usize = 20_000;
/// Memory limit for the resources of all nodes, in bytes; those of one need some 200.
const MAX_TOTAL_LENGTH: usize = 8 << 20;
/// Names of resources in a sum; nodes without special devices have six.
const MAX_RESOURCES: usize = 256;

/// Quantities by name of the resource.
type ResourceList = BTreeMap<String, String>;

/// Capacity and allocatable of a node, a line each of names and quantities: a tenth of the maps' memory.
pub(crate) type NodeResources = Box<str>;

/// The resources of all nodes together, in canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Of all nodes.
    capacity: ResourceList,
    /// Of those that pods can be scheduled to.
    allocatable: ResourceList,
}

pub(crate) fn store() -> Store<NodeResources> {
    Store::new(MAX_NODES).weighing_at_most(MAX_TOTAL_LENGTH, |node| node.len())
}

/// Keeps what each of the spoke's nodes has, until the end of the process.
pub(crate) fn follow(agent: &Agent) {
    let selection = Selection::all(NODES.everywhere());
    agent.reflect(&agent.nodes, agent.spoke(), &selection, &agent.stop, resources);
}

/// The resources of `node`; `None` if they cannot be read. One that takes no pods has nothing allocatable.
fn resources(node: Node) -> Option<NodeResources> {
    let mut text = String::new();
    append(&mut text, &node.status.capacity)?;
    text.push('\n');
    if !node.spec.unschedulable {
        append(&mut text, &node.status.allocatable)?;
    }
    Some(text.into())
}

fn append(text: &mut String, list: &ResourceList) -> Option<()> {
    for (name, quantity) in list {
        Quantity::parse(quantity)?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        write!(text, "{name} {quantity} ").ok()?;
    }
    Some(())
}

/// The sum over all nodes; `None` if one is invalid, or they have too many resources.
fn sum(nodes: &BTreeMap<String, Option<NodeResources>>) -> Option<Capacity> {
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    for node in nodes.values() {
        let (all, schedulable) = node.as_ref()?.split_once('\n')?;
        add(&mut capacity, all)?;
        add(&mut allocatable, schedulable)?;
    }
    let list = |sums: BTreeMap<&str, Quantity>| -> ResourceList {
        sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.to_string())).collect()
    };
    Some(Capacity { capacity: list(capacity), allocatable: list(allocatable) })
}

fn add<'a>(sums: &mut BTreeMap<&'a str, Quantity>, list: &'a str) -> Option<()> {
    let mut words = list.split_whitespace();
    while let (Some(name), Some(quantity)) = (words.next(), words.next()) {
        let (quantity, count) = (Quantity::parse(quantity)?, sums.len());
        match sums.entry(name) {
            Entry::Occupied(mut sum) => *sum.get_mut() = (*sum.get()).plus(quantity),
            Entry::Vacant(_) if count == MAX_RESOURCES => return None,
            Entry::Vacant(entry) => drop(entry.insert(quantity)),
        }
    }
    Some(())
}

impl Capacity {
    /// What all nodes have together; `None` while that is not known.
    pub(crate) fn of(nodes: &Store<NodeResources>) -> Option<Self> {
        nodes.read(sum)?.filter(|_| nodes.is_complete())
    }

    /// The changes to the reported status. Other components have resources of their own in `capacity`, but not in `allocatable` (ocm
    /// `pkg/registration/spoke/managedcluster/resource_reconcile.go`, reconcile).
    pub(crate) fn differences(&self, reported: &Value) -> Map<String, Value> {
        let capacity = changed(&self.capacity, &reported["capacity"]);
        let mut allocatable = changed(&self.allocatable, &reported["allocatable"]);
        let names = reported["allocatable"].as_object().into_iter().flat_map(Map::keys);
        let gone = names.filter(|name| !self.allocatable.contains_key(*name));
        allocatable.extend(gone.map(|name| (name.clone(), Value::Null)));
        let lists = [("capacity", capacity), ("allocatable", allocatable)];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        lists.map(|(field, list)| (field.to_owned(), Value::Object(list))).collect()
    }
}

fn changed(ours: &ResourceList, reported: &Value) -> Map<String, Value> {
    let differs = |(name, ours): &(&String, &String)| !same(&reported[name.as_str()], ours);
    ours.iter().filter(differs).map(|(name, ours)| (name.clone(), json!(ours))).collect()
}

#[cfg(test)]
mod tests {
    use apiclient::api::{NodeSpec, NodeStatus};

    use super::*;

    fn list(resources: &[(&str, &str)]) -> ResourceList {
        resources.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn node(capacity: &[(&str, &str)], allocatable: &[(&str, &str)]) -> Node {
        let status = NodeStatus { capacity: list(capacity), allocatable: list(allocatable) };
        Node { status, ..Node::default() }
    }

    /// Upstream's node of the row: 32 CPUs and 64 Mi, half of it allocatable.
    fn half() -> Node {
        node(&[("cpu", "32"), ("memory", "64Mi")], &[("cpu", "16"), ("memory", "32Mi")])
    }

    fn sum_of(nodes: Vec<Node>) -> Option<Capacity> {
        let nodes = nodes.into_iter().enumerate();
        sum(&nodes.map(|(name, node)| (name.to_string(), resources(node))).collect())
    }

    #[test]
    fn status_kube_apiserver_is_ok() {
        let sum = sum_of(vec![half(), half()]).unwrap();
        assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "128Mi")]));
        assert_eq!(sum.allocatable, list(&[("cpu", "32"), ("memory", "64Mi")]));
        assert_eq!(sum_of(vec![Node::default()]), Some(Capacity::default()));
    }

    #[test]
    fn status_a_node_that_takes_no_pods_has_only_capacity() {
        let cordoned = Node { spec: NodeSpec { unschedulable: true }, ..half() };
        let sum = sum_of(vec![half(), cordoned]).unwrap();
        assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "128Mi")]));
        assert_eq!(sum.allocatable, list(&[("cpu", "16"), ("memory", "32Mi")]));
    }

    #[test]
    fn a_sum_without_one_of_them_is_not_told() {
        for odd in
            [("cpu", "many"), ("c p u", "1"), ("", "1"), ("c\u{a0}", "1"), ("cpu", "1 memory 2")]
        {
            assert_eq!(sum_of(vec![half(), node(&[odd], &[])]), None, "{odd:?}");
        }
    }

    #[test]
    fn resources_of_a_sum_are_bounded() {
        for (count, is_told) in [(MAX_RESOURCES, true), (MAX_RESOURCES + 1, false)] {
            let nodes = (0..count).map(|number| node(&[(&format!("r{number}"), "1")], &[]));
            assert_eq!(sum_of(nodes.collect()).is_some(), is_told, "{count}");
        }
    }

    fn differences(reported: &Value) -> Value {
        let capacity = list(&[("cpu", "64"), ("memory", "128Mi")]);
        let allocatable = list(&[("cpu", "32"), ("memory", "64Mi")]);
        Value::Object(Capacity { capacity, allocatable }.differences(reported))
    }

    #[test]
    fn status_merge_managed_cluster_status() {
        // Upstream's row: others' resources stay in the capacity.
        let reported = json!({
            "capacity": {"sockets": "1200", "cores": "128"},
            "allocatable": {"cpu": "16", "memory": "32Mi"},
        });
        let expected = json!({
            "capacity": {"cpu": "64", "memory": "128Mi"},
            "allocatable": {"cpu": "32", "memory": "64Mi"},
        });
        assert_eq!(differences(&reported), expected);
    }

    #[test]
    fn status_says_only_what_differs() {
        for (reported, expected) in [
            (
                json!({}),
                json!({"capacity": {"cpu": "64", "memory": "128Mi"}, "allocatable": {"cpu": "32", "memory": "64Mi"}}),
            ),
            (
                json!({"capacity": {"cpu": "64", "memory": "128Mi"}, "allocatable": {"cpu": "31", "memory": "64Mi"}}),
                json!({"allocatable": {"cpu": "32"}}),
            ),
            (
                json!({"capacity": {"cpu": 64, "memory": "131072Ki"}, "allocatable": {"cpu": "32e0", "memory": "64Mi"}}),
                json!({}),
            ),
            (
                json!({"capacity": {"cpu": "64", "memory": "128Mi", "gpu": "1"}, "allocatable": {"cpu": "32", "memory": "64Mi", "gpu": "1"}}),
                json!({"allocatable": {"gpu": null}}),
            ),
        ] {
            assert_eq!(differences(&reported), expected, "{reported}");
        }
    }
}
