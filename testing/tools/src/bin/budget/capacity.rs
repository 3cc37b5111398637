//! csr-bootstrapper in a cluster with ten thousand nodes.

use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    ocm::{AVAILABLE, Bootstrap, Hub},
    pause,
    spoke::Spoke,
    sync::load::Room,
    within,
};
use tools::measure::grouped;

use crate::table::{Table, note};

/// Twice the number that Kubernetes is designed for.
const NODES: u64 = 10_000;
/// All lists are read after this, in milliseconds.
const SETTLING: u64 = 3_000;

impl Table {
    /// Measures the memory that the nodes need: the difference to a joined agent without nodes.
    pub(crate) fn capacity(&mut self) {
        let (hub, managed) = (Hub::on(Cluster::embedded("hub")), Cluster::embedded("managed"));
        let spoke = Spoke::between(hub, managed, "nodes", Bootstrap::Auto);
        let joined = || {
            let agent = spoke.start(&[]);
            spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
            pause(SETTLING);
            agent
        };
        // This agent takes over from another, like the one with nodes.
        drop(joined());
        let without = Room::of(&joined());
        for index in 0..NODES {
            spoke.managed.server().put(node(index));
        }
        let agent = joined();
        let cpus = (NODES * 16).to_string();
        within(120, "the capacity is told", || {
            let cluster = spoke.hub.managed_cluster(&spoke.cluster).expect("the cluster");
            cluster["status"]["capacity"]["cpu"] == *cpus
        });
        let room = Room::of(&agent);
        let more = room.resident.saturating_sub(without.resident);
        let figure = format!("memory for {} nodes", grouped(NODES));
        self.at_most(&figure, 4096.0, more as f64, "KiB");
        note(&format!("at most {} KiB while they are listed, in pages of 500", grouped(room.peak)));
    }
}

/// Returns a node like a cloud's: six resources, conditions, and the names of images.
fn node(index: u64) -> Value {
    let resources = |memory: u64| {
        json!({
            "cpu": "16", "ephemeral-storage": "203056560Ki", "hugepages-1Gi": "0",
            "hugepages-2Mi": "0", "memory": format!("{}Ki", memory + index % 97 * 4), "pods": "234",
        })
    };
    let image = |number: u64| {
        let name = format!("registry.example.com/team-{number}/service@sha256:{number:064x}");
        json!({"names": [name], "sizeBytes": 100_000_000 + number})
    };
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "reason": "KubeletHasSufficientMemory",
            "message": "kubelet has sufficient memory available",
            "lastHeartbeatTime": "2026-11-23T10:00:00Z", "lastTransitionTime": "2026-11-01T10:00:00Z",
        })
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
    let (high, low) = (index / 256, index % 256);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("ip-10-0-{high}-{low}.eu-central-1.compute.internal")},
        "status": {
            "capacity": resources(32_823_456),
            "allocatable": resources(31_774_880),
            "conditions": conditions,
            "images": (0..20).map(image).collect::<Vec<_>>(),
        },
    })
}
