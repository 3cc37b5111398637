//! What the nodes have, and the sum of it: pure. Nodes that have the same share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use apiclient::api::Node;

use super::{
    Capacity, ResourceList,
    quantity::{Quantity, Sum},
};

/// Names of resources in all; nodes without special devices have six.
const MAX_NAMES: usize = 256;
/// Quantities of all kinds of nodes together: 8 MiB.
const MAX_QUANTITIES: usize = 256 << 10;
/// A qualified name is a DNS subdomain, a slash and 63 characters (apimachinery `pkg/util/validation/validation.go`).
const MAX_NAME: usize = 253 + 1 + 63;

/// The quantities of a list, by name of the resource.
type Quantities = Box<[(Arc<str>, Quantity)]>;

/// The resources of a node.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeResources {
    capacity: Quantities,
    /// Nothing of a node that takes no pods.
    allocatable: Quantities,
}

/// The names and resources of nodes, each once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    /// Most nodes are of a few kinds.
    kinds: BTreeSet<Arc<NodeResources>>,
    names: BTreeSet<Arc<str>>,
    /// Quantities of all kinds.
    quantities: usize,
}

impl NodeResources {
    fn quantities(&self) -> usize {
        self.capacity.len() + self.allocatable.len()
    }
}

impl Interner {
    /// The resources of `node`; `None` if they cannot be read, or are too many.
    pub(super) fn resources(&mut self, node: &Node) -> Option<Arc<NodeResources>> {
        let capacity = self.list(&node.status.capacity)?;
        let allocatable = match node.spec.unschedulable {
            true => Box::default(),
            false => self.list(&node.status.allocatable)?,
        };
        let resources = NodeResources { capacity, allocatable };
        if let Some(kind) = self.kinds.get(&resources) {
            return Some(kind.clone());
        }
        if self.quantities + resources.quantities() > MAX_QUANTITIES {
            self.forget_unused();
        }
        if self.quantities + resources.quantities() > MAX_QUANTITIES {
            return None;
        }
        self.quantities += resources.quantities();
        let kind = Arc::new(resources);
        self.kinds.insert(kind.clone());
        Some(kind)
    }

    fn list(&mut self, list: &BTreeMap<String, String>) -> Option<Quantities> {
        list.iter().map(|(name, text)| Some((self.name(name)?, Quantity::parse(text)?))).collect()
    }

    fn name(&mut self, name: &str) -> Option<Arc<str>> {
        if let Some(known) = self.names.get(name) {
            return Some(known.clone());
        }
        if self.names.len() == MAX_NAMES {
            self.forget_unused();
        }
        if self.names.len() == MAX_NAMES || name.len() > MAX_NAME {
            return None;
        }
        let new: Arc<str> = name.into();
        self.names.insert(new.clone());
        Some(new)
    }

    fn forget_unused(&mut self) {
        self.kinds.retain(|kind| Arc::strong_count(kind) > 1);
        self.names.retain(|name| Arc::strong_count(name) > 1);
        self.quantities = self.kinds.iter().map(|kind| kind.quantities()).sum();
    }
}

/// The sum over all nodes; `None` if one is invalid.
pub(super) fn sum(nodes: &BTreeMap<String, Option<Arc<NodeResources>>>) -> Option<Capacity> {
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    for node in nodes.values() {
        let node = node.as_ref()?;
        add(&mut capacity, &node.capacity);
        add(&mut allocatable, &node.allocatable);
    }
    let list = |sums: BTreeMap<&str, Sum>| -> ResourceList {
        sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.to_string())).collect()
    };
    Some(Capacity { capacity: list(capacity), allocatable: list(allocatable) })
}

fn add<'a>(sums: &mut BTreeMap<&'a str, Sum>, resources: &'a [(Arc<str>, Quantity)]) {
    for (name, quantity) in resources {
        let sum = sums.entry(name).or_insert(Sum::ZERO);
        *sum = sum.plus(*quantity);
    }
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

    fn sum_of(nodes: &[Node]) -> Option<Capacity> {
        let mut interner = Interner::default();
        let nodes = nodes.iter().enumerate();
        sum(&nodes.map(|(name, node)| (name.to_string(), interner.resources(node))).collect())
    }

    #[test]
    fn status_kube_apiserver_is_ok() {
        let sum = sum_of(&[half(), half()]).unwrap();
        assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "128Mi")]));
        assert_eq!(sum.allocatable, list(&[("cpu", "32"), ("memory", "64Mi")]));
        assert_eq!(sum_of(&[Node::default()]), Some(Capacity::default()));
    }

    #[test]
    fn status_a_node_that_takes_no_pods_has_only_capacity() {
        let cordoned = Node { spec: NodeSpec { unschedulable: true }, ..half() };
        let sum = sum_of(&[half(), cordoned]).unwrap();
        assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "128Mi")]));
        assert_eq!(sum.allocatable, list(&[("cpu", "16"), ("memory", "32Mi")]));
    }

    #[test]
    fn a_sum_without_one_of_them_is_not_told() {
        let long = "x".repeat(MAX_NAME + 1);
        for odd in [node(&[("cpu", "many")], &[]), node(&[(&long, "1")], &[])] {
            assert_eq!(sum_of(&[half(), odd]), None);
        }
    }

    #[test]
    fn equal_resources_are_shared() {
        let mut interner = Interner::default();
        let (first, second) = (interner.resources(&half()), interner.resources(&half()));
        assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
        assert_eq!((interner.kinds.len(), interner.quantities), (1, 4));
    }

    #[test]
    fn names_and_quantities_are_bounded_and_unused_ones_forgotten() {
        let resources = |names: std::ops::Range<usize>, first: &str| {
            let mut all: ResourceList =
                names.map(|name| (format!("r{name}"), "1".into())).collect();
            all.insert("r0".into(), first.into());
            Node {
                status: NodeStatus { capacity: all, ..NodeStatus::default() },
                ..Node::default()
            }
        };
        let mut interner = Interner::default();
        assert_eq!(interner.resources(&resources(0..MAX_NAMES + 1, "1")), None);
        assert_eq!(interner.names.len(), MAX_NAMES);
        let others = interner.resources(&resources(1000..1000 + MAX_NAMES - 1, "1"));
        assert!(others.is_some(), "of other names");
        drop(others);
        let mut kept = Vec::new();
        for number in 0..MAX_QUANTITIES / MAX_NAMES + 1 {
            kept.push(interner.resources(&resources(0..MAX_NAMES, &number.to_string())));
        }
        assert_eq!(kept.iter().filter(|kind| kind.is_none()).count(), 1);
        assert_eq!(interner.quantities, MAX_QUANTITIES);
        kept.clear();
        assert!(interner.resources(&resources(0..MAX_NAMES, "7777")).is_some());
    }
}
