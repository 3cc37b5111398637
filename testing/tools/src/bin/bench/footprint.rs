//! What an agent needs on each cluster, OCM's compared with ours: the same two real servers and the same tasks, joined
//! to the same hub one after the other.

use std::{fs, path::Path};

use serde_json::json;
use suite::{
    ocm::{self, AVAILABLE, Bootstrap},
    pause,
    sidecar::program,
    spoke::{Spoke, go::go, klusterlet::operate},
    sync::load::Room,
};
use tools::{
    figures,
    measure::{grouped, machine},
};

use crate::table::{self, mib};

/// Memory is stable after this, in milliseconds.
const SETTLING: u64 = 60_000;
/// The number of clusters in a fleet, for the total.
const FLEET: u64 = 500;
/// As an operator starts it: feature gates, and the period of health checks.
pub(crate) const GO_FLAGS: [&str; 2] =
    ["--feature-gates=AddonManagement=true,ClusterClaim=true", "--cluster-healthcheck-period=60s"];
const FLAGS: [&str; 4] = ["-cluster-healthcheck-period", "60s", "-v", "0"];

pub(crate) fn measure() -> bool {
    let go_spoke = Spoke::for_go("footprint-go", Bootstrap::Auto);
    ocm::serve_claims(&go_spoke.managed);
    ocm::serve_applied_works(&go_spoke.managed);
    let registration = go_spoke.start_go_agent(&GO_FLAGS);
    let singleton_spoke = Spoke::for_go("footprint-singleton", Bootstrap::Auto);
    let singleton = singleton_spoke.start_go_singleton(&GO_FLAGS);
    let agent_spoke = Spoke::for_go("footprint-agent", Bootstrap::Auto);
    let agent = agent_spoke.start_own_singleton(&[&GO_FLAGS[..], &["-v=0"]].concat());
    let spoke = Spoke::auto("footprint");
    let bootstrapper = spoke.start(&FLAGS);
    let (dumper, kubeconfig) = spoke.start_dumper(&[]);
    for spoke in [&go_spoke, &singleton_spoke, &agent_spoke, &spoke] {
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    }
    dumper.wait_for_code("/readyz", 200);
    let mut work = spoke.start_work_agent(&kubeconfig);
    // With one Klusterlet, as on each cluster.
    let operated = Spoke::for_klusterlet("footprint");
    operated.install(&operated.namespace, &json!({}));
    let operator = operate(&operated.managed);
    pause(SETTLING);
    assert!(work.alive(), "{}", work.log());
    let own = |name: &str, sidecar| row(name, &program(name), Room::of(sidecar));
    let rows = [
        head(),
        row("OCM's registration agent", &go("registration"), Room::of(&registration)),
        row("OCM's work agent", &go("work"), Room::of(&work)),
        row("both in one (Singleton)", &go("registration-operator"), Room::of(&singleton)),
        row("OCM's klusterlet operator", &go("registration-operator"), Room::of(operator)),
        own("klusterlet-agent", &agent),
        own("csr-bootstrapper", &bootstrapper),
        own("hub-kubeconfig-dumper", &dumper),
    ];
    table::print(&rows);
    let when = format!("{}, {}.\n\n", figures::today(), machine());
    figures::publish("footprint", &(when + &table::text(&rows)));
    true
}

fn head() -> Vec<String> {
    let fleet = format!("memory of {FLEET} clusters");
    ["", "program, bytes", "memory (RSS)", "anonymous", &fleet].map(str::to_owned).into()
}

fn row(name: &str, file: &Path, memory: Room) -> Vec<String> {
    let fleet = memory.resident * FLEET;
    vec![
        name.to_owned(),
        grouped(fs::metadata(file).expect("the program").len()),
        mib(memory.resident),
        mib(memory.anonymous),
        format!("{:.1} GiB", fleet as f64 / 1024.0 / 1024.0),
    ]
}
