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
/// A qualified name is a DNS subdomain, a slash and 63 characters (apimachinery `pkg/util/validation/validation.go`).
const LONGEST_NAME: usize = 253 + 1 + 63;

/// The nodes of a cluster. A list of all of them replaces what is known without a second copy.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<Box<str>, Node>,
    /// What any of them has; most are of a few kinds.
    kinds: BTreeSet<Rc<Resources>>,
    /// Names of resources, which nodes refer to by their index.
    names: Vec<String>,
    list: u32,
    too_many: bool,
}

/// A node that is known.
#[derive(Debug)]
struct Node {
    /// The last list that it was in.
    list: u32,
    /// `None` if they cannot be read.
    resources: Option<Rc<Resources>>,
}

/// The first `capacity` are those of the node's capacity, the others are allocatable.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Resources {
    capacity: usize,
    names: Box<[u16]>,
    quantities: Box<[Quantity]>,
}

impl Nodes {
    /// Begins a list: nodes that are not put before its end are gone.
    pub(super) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.too_many = false;
    }

    /// Ends the list that has begun.
    pub(super) fn end_list(&mut self) {
        let list = self.list;
        self.nodes.retain(|_, node| node.list == list);
        self.kinds.retain(|kind| Rc::strong_count(kind) > 1);
    }

    /// Puts a node; `None` is one that cannot be read. Returns whether the sum may be another now.
    pub(super) fn put(&mut self, name: &str, node: Option<&Value>) -> bool {
        if self.nodes.len() == MOST_NODES && !self.nodes.contains_key(name) {
            return !std::mem::replace(&mut self.too_many, true);
        }
        let resources =
            node.and_then(|node| self.read(node)).map(|resources| self.shared(resources));
        let node = Node { list: self.list, resources };
        if let Some(known) = self.nodes.get_mut(name) {
            let before = std::mem::replace(known, node);
            let changed = before.resources != known.resources;
            self.forget(before);
            return changed;
        }
        self.nodes.insert(name.into(), node);
        true
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let removed = self.nodes.remove(name);
        removed.map(|node| self.forget(node)).is_some()
    }

    fn shared(&mut self, resources: Resources) -> Rc<Resources> {
        if let Some(kind) = self.kinds.get(&resources) {
            return kind.clone();
        }
        let kind = Rc::new(resources);
        self.kinds.insert(kind.clone());
        kind
    }

    /// Forgets the kind of a former node if it was the last.
    fn forget(&mut self, node: Node) {
        if let Some(kind) = node.resources.filter(|kind| Rc::strong_count(kind) == 2) {
            self.kinds.remove(&kind);
        }
    }

    /// The nodes that cannot be read.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &str> {
        let unreadable = self.nodes.iter().filter(|(_, node)| node.resources.is_none());
        unreadable.map(|(name, _)| &**name)
    }

    /// The resources of all nodes; `None` if those of one are not known.
    pub(super) fn sum(&self) -> Option<Capacity> {
        if self.too_many {
            return None;
        }
        let none = || vec![None; self.names.len()];
        let (mut capacity, mut allocatable) = (none(), none());
        for node in self.nodes.values() {
            let Resources { capacity: first, names, quantities } = node.resources.as_deref()?;
            for (index, (name, quantity)) in names.iter().zip(quantities).enumerate() {
                let sums = if index < *first { &mut capacity } else { &mut allocatable };
                let sum = &mut sums[usize::from(*name)];
                *sum = Some(sum.unwrap_or(Sum::ZERO).plus(*quantity)?);
            }
        }
        let list = |sums: Vec<Option<Sum>>| -> ResourceList {
            let named = self.names.iter().zip(sums);
            named.filter_map(|(name, sum)| Some((name.clone(), sum?.to_string()))).collect()
        };
        Some(Capacity { capacity: list(capacity), allocatable: list(allocatable) })
    }

    /// Nothing of a node that takes no pods is allocatable.
    fn read(&mut self, node: &Value) -> Option<Resources> {
        let (mut names, mut quantities) = (Vec::new(), Vec::new());
        self.read_list(&node["status"]["capacity"], &mut names, &mut quantities)?;
        let capacity = names.len();
        if node["spec"]["unschedulable"] != true {
            self.read_list(&node["status"]["allocatable"], &mut names, &mut quantities)?;
        }
        Some(Resources { capacity, names: names.into(), quantities: quantities.into() })
    }

    fn read_list(
        &mut self,
        list: &Value,
        names: &mut Vec<u16>,
        quantities: &mut Vec<Quantity>,
    ) -> Option<()> {
        for (name, quantity) in list.as_object().into_iter().flatten() {
            quantities.push(Quantity::parse(quantity.as_str()?)?);
            names.push(self.index(name)?);
        }
        Some(())
    }

    fn index(&mut self, name: &str) -> Option<u16> {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or(self.names.len());
        if known.is_none() {
            if index == MOST_NAMES || name.len() > LONGEST_NAME {
                return None;
            }
            self.names.push(name.to_owned());
        }
        index.try_into().ok()
    }
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
    fn nodes_that_have_the_same_share_it_and_what_nobody_has_is_forgotten() {
        let mut nodes = Nodes::default();
        for name in ["a", "b", "c"] {
            nodes.put(name, Some(&half()));
        }
        assert_eq!(nodes.kinds.len(), 1);
        nodes.put("a", Some(&node("1", "1Gi")));
        assert_eq!(nodes.kinds.len(), 2);
        nodes.put("a", Some(&half()));
        assert_eq!(nodes.kinds.len(), 1);
        nodes.remove("a");
        nodes.remove("b");
        assert_eq!(nodes.kinds.len(), 1, "c has it");
        nodes.begin_list();
        nodes.end_list();
        assert!(nodes.kinds.is_empty());
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
    fn what_is_not_in_the_next_list_is_gone_at_its_end() {
        let mut nodes = Nodes::default();
        nodes.begin_list();
        nodes.put("a", Some(&node("1", "1Gi")));
        nodes.put("b", Some(&node("2", "1Gi")));
        nodes.end_list();
        nodes.begin_list();
        nodes.put("b", Some(&node("2", "1Gi")));
        nodes.begin_list();
        nodes.put("c", Some(&node("4", "1Gi")));
        nodes.end_list();
        assert_eq!(nodes.sum().unwrap().capacity["cpu"], "4", "the list of b was not completed");
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
            assert_eq!(nodes.sum(), None, "{odd:?}");
            assert_eq!(nodes.unreadable().collect::<Vec<_>>(), ["b"]);
            assert!(nodes.put("b", Some(&node("1", "1Gi"))));
            assert_eq!(nodes.sum().unwrap().capacity["cpu"], "2");
        }
    }

    #[test]
    fn nodes_and_names_beyond_the_most_cost_nothing() {
        let mut nodes = Nodes::default();
        for number in 0..MOST_NODES {
            nodes.put(&format!("n{number}"), Some(&node("1", "1Gi")));
        }
        assert_eq!(nodes.sum().unwrap().capacity["cpu"], "20k");
        assert!(nodes.put("one-more", Some(&node("1", "1Gi"))));
        assert!(!nodes.put("another", Some(&node("1", "1Gi"))));
        assert_eq!((nodes.sum(), nodes.nodes.len()), (None, MOST_NODES));
        nodes.begin_list();
        nodes.put("n1", Some(&node("1", "1Gi")));
        nodes.end_list();
        assert_eq!(nodes.sum().unwrap().capacity["cpu"], "1");
        let many: serde_json::Map<_, _> =
            (0..300).map(|number| (format!("r{number}"), json!("1"))).collect();
        nodes.put("n1", Some(&json!({"status": {"capacity": many}})));
        assert_eq!((nodes.sum(), nodes.names.len()), (None, MOST_NAMES));
    }

    #[test]
    fn a_node_without_a_status_has_nothing() {
        let mut nodes = Nodes::default();
        nodes.put("new", Some(&json!({"metadata": {"name": "new"}})));
        assert_eq!(nodes.sum(), Some(Capacity::default()));
    }
}
