//! ManifestWorks in mode Singleton, by OCM's klusterlet agent and by ours, one after the other on the same real servers:
//! from the start of an agent, with a hub full of works, until all are applied, and its memory then.

use std::{
    os::unix::fs::symlink,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use suite::{
    listing::list,
    ocm::{self, AVAILABLE, Bootstrap, works},
    pause,
    sidecar::{Sidecar, program},
    spoke::{Spoke, go::go},
    within,
};
use tools::{figures, measure};

use crate::table;

/// Works, manifests of each, and namespaces of these.
const SCENES: [(usize, usize, usize); 2] = [(500, 5, 100), (1000, 1, 1)];
/// Clients that create them.
const CLIENTS: usize = 8;
/// Seconds until all are applied, at most.
const PATIENCE: u64 = 600;
/// Memory is settled after this.
const SETTLING: u64 = 20_000;
const FLAGS: [&str; 2] =
    ["--feature-gates=AddonManagement=true,ClusterClaim=true", "--cluster-healthcheck-period=60s"];

pub(crate) fn measure() -> bool {
    let head = ["works", "agent", "s until all are applied", "memory (RSS)", "anonymous"];
    let mut rows = vec![table::row(head)];
    for scene in SCENES {
        for (agent, is_own) in [("OCM's klusterlet agent", false), ("klusterlet-agent", true)] {
            let (time, memory) = run(scene, is_own);
            let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
            rows.push(vec![
                format!("{} of {} in {} namespaces", scene.0, scene.1, scene.2),
                agent.to_owned(),
                format!("{:.1}", time.as_secs_f64()),
                mib(memory.resident),
                mib(memory.anonymous),
            ]);
        }
    }
    table::print(&rows);
    let when = format!("{}, {}.\n\n", figures::today(), measure::machine());
    figures::publish("works", &(when + &table::text(&rows)));
    true
}

fn run(scene: (usize, usize, usize), is_own: bool) -> (Duration, measure::Memory) {
    let spoke = Spoke::for_go(if is_own { "works-own" } else { "works-go" }, Bootstrap::Auto);
    ocm::serve_claims(&spoke.managed);
    ocm::serve_applied_works(&spoke.managed);
    let mut joining = start(&spoke, is_own);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    joining.kill();
    create(&spoke, scene);
    // The server is done with them.
    pause(2000);
    let begun = Instant::now();
    let agent = start(&spoke, is_own);
    within(PATIENCE, "all works are applied", || {
        pause(250);
        (all(&spoke).iter().filter(|work| is_applied(work)).count() == scene.0).then_some(())
    });
    let time = begun.elapsed();
    pause(SETTLING);
    let memory = measure::memory(&agent);
    // The next agent has none of them.
    for work in all(&spoke) {
        let name = work["metadata"]["name"].as_str().expect("a name");
        spoke.hub.cluster.delete(&works().object(&spoke.cluster, name));
    }
    within(PATIENCE, "all works are gone", || all(&spoke).is_empty().then_some(()));
    (time, memory)
}

fn start(spoke: &Spoke, is_own: bool) -> Sidecar {
    if !is_own {
        return spoke.start_singleton(&go("registration-operator"), &FLAGS);
    }
    // By this name it takes the operator's command line.
    let file = spoke.directory.path().join("registration-operator");
    let _ = symlink(program("klusterlet-agent"), &file);
    let namespace = format!("--namespace={}", spoke.namespace);
    spoke.start_singleton(&file, &[&FLAGS[..], &[&namespace, "--metrics-port=0", "-v=0"]].concat())
}

fn create(spoke: &Spoke, (count, manifests, namespaces): (usize, usize, usize)) {
    let namespaces: Vec<_> =
        (0..namespaces).map(|_| spoke.managed.new_namespace("applied")).collect();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let namespaces = &namespaces;
            scope.spawn(move || {
                for work in (client..count).step_by(CLIENTS) {
                    let manifests: Vec<_> = (0..manifests)
                        .map(|index| {
                            let namespace = &namespaces[work % namespaces.len()];
                            json!({
                                "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
                                "metadata": {"name": format!("{work}-{index}"), "namespace": namespace},
                            })
                        })
                        .collect();
                    let name = format!("{}-{work}", spoke.cluster);
                    let object = json!({
                        "apiVersion": works().api_version(), "kind": "ManifestWork",
                        "metadata": {"name": name, "namespace": spoke.cluster},
                        "spec": {"workload": {"manifests": manifests}},
                    });
                    spoke.hub.cluster.create(&works().collection(&spoke.cluster), &object);
                }
            });
        }
    });
}

fn all(spoke: &Spoke) -> Vec<Value> {
    let found = list(&spoke.hub.cluster.client, &works().collection(&spoke.cluster), "");
    found.expect("the works are listed")
}

fn is_applied(work: &Value) -> bool {
    let mut conditions = work["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Applied" && condition["status"] == "True")
}
