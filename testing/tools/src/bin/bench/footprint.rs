//! What an agent takes on each cluster, OCM's own beside ours: the same two real servers, the same tasks, one after
//! the other joined to the same hub.

use std::path::Path;

use suite::{
    ocm::{self, AVAILABLE, Bootstrap},
    pause,
    sidecar::program,
    spoke::{Spoke, go::go},
};
use tools::{
    figures,
    measure::{self, Memory, grouped, machine},
};

use crate::table;

/// Memory is settled after this.
const SETTLING: u64 = 60_000;
/// A fleet, for what it takes in all.
const FLEET: u64 = 500;
/// As an operator starts it: gates and the period of its health checks.
const GO_FLAGS: [&str; 2] =
    ["--feature-gates=AddonManagement=true,ClusterClaim=true", "--cluster-healthcheck-period=60s"];
const FLAGS: [&str; 4] = ["-cluster-healthcheck-period", "60s", "-v", "0"];

pub(crate) fn measure() -> bool {
    let go_spoke = Spoke::for_go("footprint-go", Bootstrap::Auto);
    ocm::serve_claims(&go_spoke.managed);
    ocm::serve_applied_works(&go_spoke.managed);
    let registration = go_spoke.start_go_agent(&GO_FLAGS);
    let single_spoke = Spoke::for_go("footprint-single", Bootstrap::Auto);
    let singleton = single_spoke.start_go_singleton(&GO_FLAGS);
    let spoke = Spoke::auto("footprint");
    let bootstrapper = spoke.start(&FLAGS);
    let (dumper, kubeconfig) = spoke.start_dumper(&[]);
    let joined = [Some(&go_spoke), singleton.is_some().then_some(&single_spoke), Some(&spoke)];
    for spoke in joined.into_iter().flatten() {
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    }
    dumper.wait_for_code("/readyz", 200);
    let mut work = spoke.start_work_agent(&kubeconfig);
    pause(SETTLING);
    let mut rows = vec![head()];
    rows.push(row("registration agent", &go("registration"), measure::memory(&registration)));
    if let Some(singleton) = &singleton {
        let name = "registration and work agent in one (`--singleton`)";
        rows.push(row(name, &go("registration-operator"), measure::memory(singleton)));
    }
    for (name, sidecar) in [("csr-bootstrapper", &bootstrapper), ("hub-kubeconfig-dumper", &dumper)]
    {
        rows.push(row(name, &program(name), measure::memory(sidecar)));
    }
    assert!(work.alive(), "{}", work.log());
    rows.push(row("work agent", &go("work"), measure::memory(&work)));
    table::print(&rows);
    let when = format!("{}, {}.\n\n", figures::today(), machine());
    figures::publish("footprint", &(when + &table::text(&rows)));
    true
}

fn head() -> Vec<String> {
    let fleet = format!("memory of {FLEET} clusters");
    ["", "program, bytes", "memory (RSS)", "anonymous", &fleet].map(str::to_owned).into()
}

fn row(name: &str, file: &Path, memory: Memory) -> Vec<String> {
    let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    let fleet = memory.resident * FLEET;
    vec![
        name.to_owned(),
        grouped(measure::binary(file).bytes),
        mib(memory.resident),
        mib(memory.anonymous),
        format!("{:.1} GiB", fleet as f64 / 1024.0 / 1024.0),
    ]
}
