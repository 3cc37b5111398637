//! What the nodes have, and the sum of it: pure. Nodes that have the same share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use super::{
    Capacity, ResourceList,
    quantity::{Quantity, Sum},
};

/// More nodes than Kubernetes is made for (5,000) cost more memory than the sum is worth.
const MOST_NODES: usize = 20_000;
/// Names of resources in all; nodes without special devices have six.
const MOST_NAMES: usize = 256;
/// Quantities of all kinds of nodes together: 8 MiB.
const MOST_QUANTITIES: usize = 256 << 10;
/// A qualified name is a DNS subdomain, a slash and 63 characters (apimachinery `pkg/util/validation/validation.go`).
const LONGEST_NAME: usize = 253 + 1 + 63;

/// The nodes of a cluster.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// What each has; `None` if it cannot be read.
    nodes: BTreeMap<Box<str>, Option<Rc<Resources>>>,
    /// What any of them has; most are of a few kinds.
    kinds: BTreeSet<Rc<Resources>>,
    names: BTreeSet<Rc<str>>,
    /// Quantities of all kinds.
    quantities: usize,
    listing: bool,
    too_many: bool,
}

/// The quantities of a list, by name of the resource.
type Quantities = Box<[(Rc<str>, Quantity)]>;

/// The resources of a node.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Resources {
    capacity: Quantities,
    allocatable: Quantities,
}

impl Resources {
    fn quantities(&self) -> usize {
        self.capacity.len() + self.allocatable.len()
    }
}

impl Nodes {
    /// Begins a list of all nodes: what was known before is forgotten, and there is no sum until its end.
    pub(super) fn begin_list(&mut self) {
        *self = Self { listing: true, ..Self::default() };
    }

    /// Ends the list that has begun.
    pub(super) fn end_list(&mut self) {
        self.listing = false;
    }

    /// Puts a node; `None` is one that cannot be read. Returns whether the sum may be another now.
    pub(super) fn put(&mut self, name: &str, node: Option<&Value>) -> bool {
        if self.nodes.len() == MOST_NODES && !self.nodes.contains_key(name) {
            return !std::mem::replace(&mut self.too_many, true) && !self.listing;
        }
        let resources = node.and_then(|node| self.read(node)).and_then(|node| self.shared(node));
        let before = self.nodes.insert(name.into(), resources.clone());
        let changed = before.as_ref() != Some(&resources);
        self.forget(before.flatten());
        changed && !self.listing
    }

    /// Removes a node; returns whether the sum may be another now.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let node = self.nodes.remove(name);
        let changed = node.is_some();
        self.forget(node.flatten());
        changed && !self.listing
    }

    /// Returns whether nodes were left out that there may be room for now: only a list brings them.
    pub(super) fn needs_list(&self) -> bool {
        self.too_many && !self.listing && self.nodes.len() < MOST_NODES
    }

    /// The first node that cannot be read.
    pub(super) fn unreadable(&self) -> Option<&str> {
        let mut nodes = self.nodes.iter();
        nodes.find(|(_, resources)| resources.is_none()).map(|(name, _)| &**name)
    }

    /// The resources of all nodes; `None` if those of one are not known, or are more than can be counted.
    pub(super) fn sum(&self) -> Option<Capacity> {
        if self.too_many || self.unreadable().is_some() {
            return None;
        }
        let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
        for kind in &self.kinds {
            // The other reference is the set's own.
            let nodes = Rc::strong_count(kind) - 1;
            add(&mut capacity, &kind.capacity, nodes)?;
            add(&mut allocatable, &kind.allocatable, nodes)?;
        }
        let list = |sums: BTreeMap<&str, Sum>| -> ResourceList {
            sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.to_string())).collect()
        };
        Some(Capacity { capacity: list(capacity), allocatable: list(allocatable) })
    }

    /// Nothing of a node that takes no pods is allocatable.
    fn read(&mut self, node: &Value) -> Option<Resources> {
        let status = &node["status"];
        let allocatable = if node["spec"]["unschedulable"] == true {
            Box::default()
        } else {
            self.read_list(&status["allocatable"])?
        };
        Some(Resources { capacity: self.read_list(&status["capacity"])?, allocatable })
    }

    fn read_list(&mut self, list: &Value) -> Option<Quantities> {
        let all = list.as_object().into_iter().flatten();
        all.map(|(name, quantity)| Some((self.name(name)?, Quantity::parse(quantity.as_str()?)?)))
            .collect()
    }

    /// The one copy of a name; `None` if there are too many.
    fn name(&mut self, name: &str) -> Option<Rc<str>> {
        if let Some(known) = self.names.get(name) {
            return Some(known.clone());
        }
        if self.names.len() == MOST_NAMES {
            self.names.retain(|name| Rc::strong_count(name) > 1);
        }
        if self.names.len() == MOST_NAMES || name.len() > LONGEST_NAME {
            return None;
        }
        let new: Rc<str> = name.into();
        self.names.insert(new.clone());
        Some(new)
    }

    /// The one copy of a node's resources; `None` if there are too many.
    fn shared(&mut self, resources: Resources) -> Option<Rc<Resources>> {
        if let Some(kind) = self.kinds.get(&resources) {
            return Some(kind.clone());
        }
        let more = self.quantities + resources.quantities();
        if more > MOST_QUANTITIES {
            return None;
        }
        self.quantities = more;
        let kind = Rc::new(resources);
        self.kinds.insert(kind.clone());
        Some(kind)
    }

    /// Forgets what a former node had if it was the last to have it.
    fn forget(&mut self, resources: Option<Rc<Resources>>) {
        if let Some(kind) = resources.filter(|kind| Rc::strong_count(kind) == 2) {
            self.kinds.remove(&kind);
            self.quantities -= kind.quantities();
        }
    }
}

/// Adds what so many nodes have.
fn add<'a>(
    sums: &mut BTreeMap<&'a str, Sum>,
    resources: &'a [(Rc<str>, Quantity)],
    nodes: usize,
) -> Option<()> {
    for (name, quantity) in resources {
        let sum = sums.entry(name).or_insert(Sum::ZERO);
        *sum = sum.plus(*quantity, nodes)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(cpu: &str, memory: &str) -> Value {
        let list = json!({"cpu": cpu, "memory": memory});
        json!({"status": {"capacity": list, "allocatable": list}})
    }

    fn cordoned(mut node: Value) -> Value {
        node["spec"] = json!({"unschedulable": true});
        node
    }

    fn list(resources: &[(&str, &str)]) -> ResourceList {
        resources.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn cpus(nodes: &Nodes) -> Option<String> {
        nodes.sum().map(|sum| sum.capacity["cpu"].clone())
    }

    /// Upstream's node of the row: 32 CPUs and 64 Mi, half of it allocatable.
    fn half() -> Value {
        json!({"status": {
            "capacity": {"cpu": "32", "memory": "64Mi"},
            "allocatable": {"cpu": "16", "memory": "32Mi"},
        }})
    }

    #[test]
    fn status_kube_apiserver_is_ok() {
        let mut nodes = Nodes::default();
        assert!(nodes.put("testnode1", Some(&half())) && nodes.put("testnode2", Some(&half())));
        let sum = nodes.sum().unwrap();
        assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "128Mi")]));
        assert_eq!(sum.allocatable, list(&[("cpu", "32"), ("memory", "64Mi")]));
    }

    #[test]
    fn status_a_node_that_takes_no_pods_has_only_capacity() {
        let mut nodes = Nodes::default();
        nodes.put("a", Some(&half()));
        assert!(nodes.put("b", Some(&half())));
        assert!(nodes.put("b", Some(&cordoned(half()))), "cordoned");
        let sum = nodes.sum().unwrap();
        assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "128Mi")]));
        assert_eq!(sum.allocatable, list(&[("cpu", "16"), ("memory", "32Mi")]));
    }

    #[test]
    fn changes_and_heartbeats_are_told_apart() {
        let mut nodes = Nodes::default();
        assert!(nodes.put("a", Some(&node("1", "1Gi"))));
        let mut beat = node("1", "1Gi");
        beat["status"]["conditions"] = json!([{"type": "Ready"}]);
        assert!(!nodes.put("a", Some(&beat)));
        assert!(nodes.put("a", Some(&node("2", "1Gi"))));
        assert!(nodes.remove("a") && !nodes.remove("a"));
        assert_eq!(nodes.sum(), Some(Capacity::default()));
    }

    #[test]
    fn a_list_replaces_what_was_known() {
        let mut nodes = Nodes::default();
        nodes.put("a", Some(&node("1", "1Gi")));
        nodes.begin_list();
        assert!(!nodes.put("b", Some(&node("2", "1Gi"))), "it is not complete");
        nodes.begin_list();
        nodes.put("c", Some(&node("4", "1Gi")));
        nodes.end_list();
        assert_eq!(cpus(&nodes).as_deref(), Some("4"));
    }

    #[test]
    fn equal_quantities_are_shared_and_unused_ones_forgotten() {
        let mut nodes = Nodes::default();
        for name in ["a", "b", "c"] {
            nodes.put(name, Some(&half()));
        }
        assert_eq!((nodes.kinds.len(), nodes.quantities), (1, 4));
        nodes.put("a", Some(&node("1", "1Gi")));
        assert_eq!((nodes.kinds.len(), nodes.quantities), (2, 8));
        nodes.put("a", Some(&half()));
        nodes.remove("a");
        nodes.remove("b");
        assert_eq!((nodes.kinds.len(), nodes.quantities), (1, 4), "c has it");
        nodes.remove("c");
        assert_eq!((nodes.kinds.len(), nodes.quantities), (0, 0));
    }

    #[test]
    fn a_sum_without_one_of_them_is_not_told() {
        for odd in [
            None,
            Some(node("many", "1Gi")),
            Some(json!({"status": {"capacity": {"cpu": 1}}})),
            Some(json!({"status": {"capacity": {"x".repeat(LONGEST_NAME + 1): "1"}}})),
        ] {
            let mut nodes = Nodes::default();
            nodes.put("a", Some(&node("1", "1Gi")));
            assert!(nodes.put("b", odd.as_ref()));
            assert_eq!((nodes.sum(), nodes.unreadable()), (None, Some("b")), "{odd:?}");
            assert!(nodes.put("b", Some(&node("1", "1Gi"))));
            assert_eq!(cpus(&nodes).as_deref(), Some("2"));
        }
    }

    #[test]
    fn a_sum_beyond_all_numbers_is_not_told() {
        let mut nodes = Nodes::default();
        for name in 0..20 {
            nodes.put(&name.to_string(), Some(&node("9e27", "1Gi")));
        }
        assert_eq!((nodes.sum(), nodes.unreadable()), (None, None));
    }

    #[test]
    fn nodes_beyond_the_limit_cost_nothing() {
        let mut nodes = Nodes::default();
        for number in 0..MOST_NODES {
            nodes.put(&format!("n{number}"), Some(&node("1", "1Gi")));
        }
        assert_eq!(cpus(&nodes).as_deref(), Some("20k"));
        assert!(nodes.put("one-more", Some(&node("1", "1Gi"))));
        assert!(!nodes.put("another", Some(&node("1", "1Gi"))));
        assert_eq!((nodes.sum(), nodes.nodes.len()), (None, MOST_NODES));
        assert!(!nodes.needs_list());
        nodes.remove("n1");
        assert!(nodes.needs_list() && nodes.sum().is_none());
        nodes.begin_list();
        nodes.put("one-more", Some(&node("1", "1Gi")));
        nodes.end_list();
        assert_eq!((cpus(&nodes).as_deref(), nodes.needs_list()), (Some("1"), false));
    }

    #[test]
    fn names_and_quantities_are_bounded() {
        let resources = |names: std::ops::Range<usize>| {
            let all: serde_json::Map<_, _> =
                names.map(|number| (format!("r{number}"), json!("1"))).collect();
            json!({"status": {"capacity": all}})
        };
        let mut nodes = Nodes::default();
        nodes.put("a", Some(&resources(0..MOST_NAMES + 1)));
        assert_eq!((nodes.sum(), nodes.names.len()), (None, MOST_NAMES));
        nodes.put("a", Some(&resources(1000..1000 + MOST_NAMES)));
        assert_eq!(nodes.sum().unwrap().capacity.len(), MOST_NAMES, "of other names");
        nodes.begin_list();
        for number in 0..MOST_QUANTITIES / MOST_NAMES + 1 {
            let mut node = resources(0..MOST_NAMES);
            node["status"]["capacity"]["r0"] = json!(number.to_string());
            nodes.put(&number.to_string(), Some(&node));
        }
        nodes.end_list();
        assert_eq!((nodes.sum(), nodes.quantities), (None, MOST_QUANTITIES));
        assert!(nodes.unreadable().is_some());
    }

    #[test]
    fn a_node_without_a_status_has_nothing() {
        let mut nodes = Nodes::default();
        nodes.put("new", Some(&json!({"metadata": {"name": "new"}})));
        assert_eq!(nodes.sum(), Some(Capacity::default()));
    }
}
