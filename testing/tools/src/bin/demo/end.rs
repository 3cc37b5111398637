//! What it cost, and how to continue.

use std::fs;

use serde_json::Value;
use suite::{
    cluster::Cluster,
    scene::ADDON,
    sidecar::{Sidecar, program},
    sync::load::Room,
};
use tools::{
    demo,
    measure::grouped,
    term::{bold, spoken},
};

use crate::{
    addon::Addon,
    agent::Agent,
    stage::{ADDON_NAMESPACE, AGENT_NAMESPACE, CLUSTER, Stage},
    sync::Sync,
};

/// The programs, in the order of the table.
const PROGRAMS: [&str; 4] =
    ["csr-bootstrapper", "hub-kubeconfig-dumper", "addon-lease-controller", "remote-sync"];

/// Their memory.
pub struct Used([Room; 4]);

impl Used {
    pub fn by(agent: &Agent, addon: &Addon, sync: &Sync) -> Self {
        let all = [&agent.bootstrapper, &agent.dumper, &addon.sidecar, &sync.sidecar];
        Self(all.map(Room::of))
    }
}

fn all<'a>(agent: &'a mut Agent, addon: &'a mut Addon, sync: &'a mut Sync) -> [&'a mut Sidecar; 4] {
    [&mut agent.bootstrapper, &mut agent.dumper, &mut addon.sidecar, &mut sync.sidecar]
}

pub fn stopped(agent: &mut Agent, addon: &mut Addon, sync: &mut Sync) -> String {
    format!("exit code 0 within {}", spoken(demo::stop(&mut all(agent, addon, sync))))
}

/// Prints what a user of the hub sees: the columns of the kinds' definitions.
pub fn hub_view(stage: &Stage) {
    let hub = &stage.spoke.hub;
    let cluster = hub.managed_cluster(CLUSTER).expect("the ManagedCluster");
    let addon = hub.addon(CLUSTER, ADDON).expect("the add-on");
    let status = |object: &Value, kind: &str| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind);
        found.and_then(|it| it["status"].as_str()).unwrap_or_default().to_owned()
    };
    let accepted = cluster["spec"]["hubAcceptsClient"].as_bool().unwrap_or_default();
    let kinds = ["ManagedClusterJoined", "ManagedClusterConditionAvailable"];
    let [joined, available] = kinds.map(|kind| status(&cluster, kind));
    println!("\n{}", bold("The hub's view"));
    println!("{:15}{:10}{:15}{:9}AVAILABLE", "", "NAME", "HUB ACCEPTED", "JOINED");
    println!("{:15}{CLUSTER:10}{accepted:<15}{joined:9}{available}", "managedcluster");
    println!("\n{:21}{:12}{:12}AVAILABLE", "", "NAMESPACE", "NAME");
    let available = status(&addon, "Available");
    println!("{:21}{CLUSTER:12}{ADDON:12}{available}", "managedclusteraddon");
}

pub fn table(agent: &Agent, addon: &Addon, used: &Used) {
    println!("\n{}", bold(line("Measured just now", "binary", "memory", "anonymous")));
    for (name, used) in PROGRAMS.iter().zip(&used.0) {
        let bytes = fs::metadata(program(name)).expect("the program").len();
        let memory = |kib: u64| format!("{:.2} MiB", kib as f64 / 1024.0);
        let size = format!("{:.2} MB", bytes as f64 / 1e6);
        println!("{}", line(name, &size, &memory(used.resident), &memory(used.anonymous)));
    }
    let wire = addon.wire();
    println!(
        "A renewal of the Lease: {:.0} request, {} bytes with TLS.\n\
         More CSRs with each crash: {}.",
        wire.requests_per_renewal(),
        grouped(wire.bytes_per_renewal() as u64),
        agent.requests_per_crash,
    );
}

fn line(name: &str, size: &str, memory: &str, anonymous: &str) -> String {
    format!("{name:26}{size:>16}{memory:>16}{anonymous:>16}")
}

pub fn next_steps() {
    let [keep, sync, test] = ["make demo KEEP=1", "make demo-sync", "make test"].map(bold);
    println!(
        "Next: {keep} leaves it running for kubectl and curl;\n\
         {sync} shows remote-sync in doubt; {test} plays much more."
    );
}

pub fn keep(stage: &Stage, agent: &mut Agent, addon: &mut Addon, sync: &mut Sync) {
    let programs = all(agent, addon, sync);
    let ports = programs.each_ref().map(|sidecar| sidecar.port);
    let mut programs: Vec<_> = PROGRAMS.into_iter().zip(programs).collect();
    demo::keep(&mut programs, || {
        objects(stage);
        println!("  ls -la {}", stage.directory().display());
        for port in ports {
            println!("  curl localhost:{port}/metrics    # also /readyz and /healthz");
        }
        println!("  SHOW_LOG=1 make demo KEEP=1    # the same with the programs' logs");
    });
}

/// Prints commands that show the objects on the servers.
fn objects(stage: &Stage) {
    let show = |cluster: &Cluster, what: &str, columns: &str| {
        let kubeconfig = cluster.kubeconfig.display();
        let columns = columns.replace(' ', ",");
        println!("  kubectl --kubeconfig {kubeconfig} {what} -o custom-columns='{columns}'");
    };
    let (hub, managed) = (&stage.scene.hub, &stage.scene.managed);
    let conditions = "TRUE:.status.conditions[?(@.status==\"True\")].type";
    show(hub, "get managedclusters", &format!("CLUSTER:.metadata.name {conditions}"));
    show(hub, "get csr", "CSR:.metadata.name APPROVED:.status.conditions[*].reason");
    let leases = format!("-n {CLUSTER} get leases -w");
    show(hub, &leases, "LEASE:.metadata.name RENEWED:.spec.renewTime");
    let events = format!("-n {AGENT_NAMESPACE} get events --sort-by=.metadata.creationTimestamp");
    show(managed, &events, "REASON:.reason WHAT:.message");
    show(managed, "get secrets -A", "NAMESPACE:.metadata.namespace SECRET:.metadata.name");
    let pods = format!("-n {ADDON_NAMESPACE} get pods");
    show(managed, &pods, "POD:.metadata.name READY:.status.conditions[*].status");
}
