//! Capacity of the spoke: what all its nodes have together, for Placements to choose by.

mod nodes;
mod quantity;

use std::{collections::BTreeMap, mem};

use apiclient::{api::Node, log_object, resource::Resource, watch::Selection};
use log::Level;
use serde_json::{Map, Value, json};

pub(crate) use self::nodes::NodeResources;
use self::{
    nodes::{Interner, sum},
    quantity::same,
};
use crate::agent::{Agent, PAGE};

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// More nodes than Kubernetes is made for (5,000) cost more memory than the sum is worth.
pub(crate) const MAX_NODES: usize = 20_000;

/// Quantities in canonical form, by name of the resource.
type ResourceList = BTreeMap<String, String>;

/// The resources of all nodes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Of all nodes.
    capacity: ResourceList,
    /// Of those that pods can be scheduled to.
    allocatable: ResourceList,
}

/// Keeps the resources of the spoke's nodes up to date, until the end of the process.
pub(crate) fn follow(agent: &Agent) {
    let selection = Selection { page: PAGE, ..Selection::all(NODES.everywhere()) };
    let mut interner = Interner::default();
    let mut parse = |node: Node| interner.resources(&node);
    let mut wake = || agent.stop.wake();
    agent.nodes.run(agent.spoke(), &selection, &agent.stop, &mut parse, &mut wake);
}

/// The capacity as of a revision of the nodes.
#[derive(Default)]
pub(crate) struct CapacityCache {
    revision: u64,
    capacity: Option<Capacity>,
    is_unknown: bool,
}

impl CapacityCache {
    /// The sum over all nodes; `None` while one is not known, which is logged when it begins.
    pub(crate) fn get(&mut self, agent: &Agent) -> Option<&Capacity> {
        let revision = agent.nodes.revision();
        if self.revision != revision {
            self.revision = revision;
            self.capacity = agent.nodes.read(sum).flatten().filter(|_| agent.nodes.is_complete());
            let was_unknown = mem::replace(&mut self.is_unknown, self.capacity.is_none());
            if self.is_unknown && !was_unknown {
                log_unknown(agent);
            }
        }
        self.capacity.as_ref()
    }
}

fn log_unknown(agent: &Agent) {
    match agent.nodes.first_invalid() {
        Some(name) => log_object!(
            Level::Warn, NODES.cluster_object(&name);
            "a node cannot be read: the cluster's capacity is not reported"
        ),
        None => log::warn!("there are too many nodes: the cluster's capacity is not reported"),
    }
}

impl Capacity {
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
    use super::*;

    fn list(resources: &[(&str, &str)]) -> ResourceList {
        resources.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
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
