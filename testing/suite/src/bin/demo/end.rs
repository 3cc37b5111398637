//! What it cost, and how to go on.

use std::time::Duration;

use serde_json::Value;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use suite::{
    cluster::Cluster,
    measure::{self, Memory, grouped},
    scene::ADDON,
    sidecar::{Sidecar, program},
    term::{bold, milliseconds},
};

use crate::{
    addon::Addon,
    agent::Agent,
    stage::{ADDON_NAMESPACE, AGENT_NAMESPACE, CLUSTER, Stage},
};

/// Memory of the three programs, in the order of the table.
pub struct Used([Memory; 3]);

impl Used {
    pub fn by(agent: &Agent, addon: &Addon) -> Self {
        Self([&addon.sidecar, &agent.bootstrapper, &agent.dumper].map(measure::memory))
    }
}

pub fn stopped(agent: &mut Agent, addon: &mut Addon) -> String {
    let mut slowest = Duration::ZERO;
    for sidecar in [&mut addon.sidecar, &mut agent.bootstrapper, &mut agent.dumper] {
        let (code, time) = measure::terminate(sidecar);
        assert_eq!(code, Some(0), "{}", sidecar.log());
        slowest = slowest.max(time);
    }
    format!("ended with exit code 0, within {}", milliseconds(slowest))
}

/// What a user of the hub sees: the columns of the kinds' definitions.
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
    println!("\n{}", bold("kubectl get managedclusters,managedclusteraddons -A"));
    println!("{:15}{:10}{:15}{:9}AVAILABLE", "", "NAME", "HUB ACCEPTED", "JOINED");
    println!("{:15}{CLUSTER:10}{accepted:<15}{joined:9}{available}", "managedcluster");
    println!("\n{:21}{:12}{:12}AVAILABLE", "", "NAMESPACE", "NAME");
    let available = status(&addon, "Available");
    println!("{:21}{CLUSTER:12}{ADDON:12}{available}", "managedclusteraddon");
}

pub fn table(agent: &Agent, addon: &Addon, used: &Used) {
    let programs = ["addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper"];
    let size = programs.map(|name| {
        let file = measure::binary(&program(name));
        assert!(file.is_static, "{name} is not static: make dist");
        megabytes(file.bytes)
    });
    let memory =
        |part: fn(&Memory) -> u64| used.0.each_ref().map(|used| megabytes(part(used) << 10));
    let (wire, nothing) = (addon.wire(), String::new);
    let requests = format!("{:.0}", wire.requests_per_renewal());
    let bytes = grouped(wire.bytes_per_renewal() as u64);
    let header = line(
        "Measured just now",
        &programs.map(|name| name.replace("hub-kubeconfig-", "")),
        "in Go*",
        "both in Go**",
    );
    println!("\n{}", bold(header));
    row("size of the static binary", &size, "30.8 MB", "96 MB");
    row("resident memory", &memory(|used| used.resident), "31 MB", "85 MB");
    row("  of it anonymous", &memory(|used| used.anonymous), "", "");
    row("requests per renewal", &[requests, nothing(), nothing()], "2", "");
    row("bytes per renewal with TLS", &[bytes, nothing(), nothing()], "1,968", "");
    let crash = agent.requests_per_crash.to_string();
    row("more CSRs with each crash", &[nothing(), crash, nothing()], "", "1");
    println!(
        "* klusterlet-addon-lease-controller, ** OCM's registration agent; both measured earlier."
    );
}

fn row(figure: &str, ours: &[String; 3], lease: &str, agent: &str) {
    println!("{}", line(figure, ours, lease, agent));
}

fn line(
    figure: &str,
    [sidecar, bootstrapper, dumper]: &[String; 3],
    lease: &str,
    agent: &str,
) -> String {
    let line =
        format!("{figure:26}{sidecar:>23}{lease:>9}{bootstrapper:>18}{dumper:>9}{agent:>14}");
    line.trim_end().to_owned()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

pub fn next_steps() {
    let [keep, sync, test] = ["make demo KEEP=1", "make demo-sync", "make test"].map(bold);
    println!(
        "Next: {keep} leaves it running for kubectl and curl; {sync} shows remote-sync;\n\
         {test} plays much more; see README.md."
    );
}

pub fn keep(stage: &Stage, agent: &mut Agent, addon: &mut Addon) {
    println!("\n{}", bold("It goes on until Ctrl-C. Look at it from another terminal:"));
    objects(stage);
    println!("  ls -la {}", stage.directory().display());
    for sidecar in [&addon.sidecar, &agent.bootstrapper, &agent.dumper] {
        println!("  curl localhost:{}/metrics    # also /readyz and /healthz", sidecar.port);
    }
    println!("  SHOW_LOG=1 make demo KEEP=1    # the same with the programs' logs");
    let mut signals = Signals::new([SIGINT, SIGTERM]).expect("signals");
    signals.forever().next();
    println!();
    end("addon-lease-controller", &mut addon.sidecar);
    end("csr-bootstrapper", &mut agent.bootstrapper);
    end("hub-kubeconfig-dumper", &mut agent.dumper);
}

/// The commands that show what is on the servers.
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

/// Ctrl-C has reached the sidecar as well: it may have ended already.
fn end(name: &str, sidecar: &mut Sidecar) {
    let _ = sidecar.alive() && measure::terminate(sidecar).0.is_some();
    let log = sidecar.log();
    println!("The last line of {name}'s log: {}", log.lines().last().unwrap_or_default());
}
