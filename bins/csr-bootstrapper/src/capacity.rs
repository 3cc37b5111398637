//! Capacity of the spoke: the resources of all its nodes, by which Placements choose clusters.

use std::{collections::BTreeMap, fmt::Write};

use apiclient::{
    api::Node, client::Client, reflector::Store, resource::Resource, stop::Stop, watch::Selection,
};
use serde_json::{Map, Value, json};

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// Maximum number of nodes. Kubernetes supports 5,000; far more would cost more memory than the sum is worth.
const MAX_NODES: usize = 20_000;
/// Memory limit for the resources of all nodes, in bytes; a node needs some 200.
const MAX_TOTAL_LENGTH: usize = 8 << 20;

type ResourceList = BTreeMap<String, String>;

/// Capacity and allocatable of a node, each as a line of names and quantities: maps would take ten times the memory.
pub(crate) type NodeResources = Box<str>;

/// Suffixes of quantities: 10^-3 to 10^18, and 2^10 to 2^60.
const DECIMAL: [&str; 8] = ["m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    capacity: ResourceList,
    /// Only of schedulable nodes.
    allocatable: ResourceList,
}

pub(crate) fn store() -> Store<NodeResources> {
    Store::new(MAX_NODES)
        .weighing_at_most(MAX_TOTAL_LENGTH, |node: &NodeResources| node.len())
        .warning()
}

/// Keeps the resources of all nodes in `store`.
pub(crate) fn follow(store: &Store<NodeResources>, spoke: &Client, stop: &Stop) {
    let selection = Selection::all(NODES.everywhere());
    store.run(spoke, &selection, stop, &mut { resources }, &mut || stop.wake());
}

/// Returns the resources of `node`; `None` if they are invalid. An unschedulable node has nothing allocatable.
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
        milli(quantity)?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        write!(text, "{name} {quantity} ").ok()?;
    }
    Some(())
}

/// Returns the sum over all nodes; `None` if one is invalid.
fn sum(nodes: &BTreeMap<String, Option<NodeResources>>) -> Option<Capacity> {
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    for node in nodes.values() {
        let (all, schedulable) = node.as_ref()?.split_once('\n')?;
        add(&mut capacity, all)?;
        add(&mut allocatable, schedulable)?;
    }
    let list = |sums: BTreeMap<&str, i128>| -> ResourceList {
        sums.into_iter().map(|(name, sum)| (name.to_owned(), text(sum))).collect()
    };
    Some(Capacity { capacity: list(capacity), allocatable: list(allocatable) })
}

fn add<'a>(sums: &mut BTreeMap<&'a str, i128>, list: &'a str) -> Option<()> {
    let mut words = list.split_whitespace();
    while let (Some(name), Some(quantity)) = (words.next(), words.next()) {
        let sum = sums.entry(name).or_default();
        *sum = sum.checked_add(milli(quantity)?)?;
    }
    Some(())
}

/// Returns a quantity in thousandths, the finest unit of a node's resources. Servers use the canonical form: digits and
/// a suffix (apimachinery `pkg/api/resource/quantity.go`). `None` for any other text.
fn milli(quantity: &str) -> Option<i128> {
    let end = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    let (digits, suffix) = quantity.split_at(end);
    let power =
        |suffixes: &[&str]| u32::try_from(suffixes.iter().position(|it| *it == suffix)?).ok();
    let factor = match (power(&DECIMAL), power(&BINARY)) {
        (Some(power), _) => 1000i128.pow(power),
        (None, Some(power)) => 1000 * 1024i128.pow(power + 1),
        (None, None) => return None,
    };
    i128::from(digits.parse::<u64>().ok()?).checked_mul(factor)
}

/// Formats thousandths as a quantity: memory in Ki, like the kubelet.
fn text(milli: i128) -> String {
    match (milli / 1000, milli % 1000) {
        (whole, 0) if whole >= 1 << 20 && whole % 1024 == 0 => format!("{}Ki", whole / 1024),
        (whole, 0) => whole.to_string(),
        _ => format!("{milli}m"),
    }
}

impl Capacity {
    /// Returns the resources of all nodes; `None` while they are unknown.
    pub(crate) fn of(nodes: &Store<NodeResources>) -> Option<Self> {
        nodes.read(sum)?.filter(|_| nodes.is_complete())
    }

    /// Returns the changes to the reported status. Other components may add resources to `capacity`, but not to
    /// `allocatable` (ocm `pkg/registration/spoke/managedcluster/resource_reconcile.go`, reconcile).
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

/// Returns whether `reported` is the same quantity as `ours`, in any notation.
fn same(reported: &Value, ours: &str) -> bool {
    let reported = reported.as_str().map_or_else(|| reported.to_string(), str::to_owned);
    reported == ours || milli(&reported).is_some_and(|it| milli(ours) == Some(it))
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
    fn nodes_are_added_up_if_each_can_be_read() {
        let cordoned = Node { spec: NodeSpec { unschedulable: true }, ..half() };
        for (nodes, allocatable) in [
            (vec![half(), half()], [("cpu", "32"), ("memory", "65536Ki")]),
            // A node that takes no pods has only capacity.
            (vec![half(), cordoned], [("cpu", "16"), ("memory", "32768Ki")]),
        ] {
            let sum = sum_of(nodes).unwrap();
            assert_eq!(sum.capacity, list(&[("cpu", "64"), ("memory", "131072Ki")]));
            assert_eq!(sum.allocatable, list(&allocatable));
        }
        assert_eq!(sum_of(vec![Node::default()]), Some(Capacity::default()));
        for odd in [("cpu", "many"), ("c p u", "1"), ("", "1"), ("c\u{a0}", "1"), ("cpu", "1 x 2")]
        {
            assert_eq!(sum_of(vec![half(), node(&[odd], &[])]), None, "{odd:?}");
        }
    }

    #[test]
    fn quantities_are_read_added_and_written() {
        for (one, other, sum) in [
            ("4", "3920m", Some("7920m")),
            ("32823456Ki", "32823444Ki", Some("65646900Ki")),
            ("64Gi", "1", Some("68719476737")),
            ("1k", "110", Some("1110")),
            ("0", "7Pi", Some("7696581394432Ki")),
            ("18446744073709551615", "1", Some("18014398509481984Ki")),
            ("1", "18446744073709551615Ei", None),
            ("1", "18446744073709551616", None),
            ("1", "", None),
            ("1", "-1", None),
            ("1", "1.5", None),
            ("1", "1e3", None),
            ("1", "١", None),
        ] {
            let both = milli(one).zip(milli(other)).map(|(one, other)| text(one + other));
            assert_eq!(both.as_deref(), sum, "{one} {other}");
        }
    }

    #[test]
    fn status_says_only_what_differs() {
        let capacity = list(&[("cpu", "64"), ("memory", "131072Ki")]);
        let allocatable = list(&[("cpu", "32"), ("memory", "65536Ki")]);
        let all = json!({"capacity": capacity, "allocatable": allocatable});
        let ours = Capacity { capacity, allocatable };
        for (reported, expected) in [
            (json!({}), all.clone()),
            // Upstream's row: others' resources stay in the capacity.
            (json!({"capacity": {"sockets": "1200"}, "allocatable": {"cpu": "16"}}), all),
            // The Go agent's form, and a number.
            (
                json!({"capacity": {"cpu": 64, "memory": "128Mi"}, "allocatable": {"cpu": "32000m", "memory": "64Mi"}}),
                json!({}),
            ),
            (
                json!({"capacity": {"cpu": "64", "memory": "128Mi", "gpu": "1"}, "allocatable": {"cpu": "32", "memory": "odd", "gpu": "1"}}),
                json!({"allocatable": {"memory": "65536Ki", "gpu": null}}),
            ),
        ] {
            assert_eq!(Value::Object(ours.differences(&reported)), expected, "{reported}");
        }
    }
}
