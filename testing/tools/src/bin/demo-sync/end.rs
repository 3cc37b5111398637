//! What it cost, and how to continue.

use std::fs;

use suite::{
    sidecar::{Sidecar, program},
    sync::load::Room,
};
use tools::{
    demo,
    term::{bold, spoken},
};

use crate::{
    play::{Seen, WRITES},
    stage::Stage,
};

pub fn stopped(sidecar: &mut Sidecar) -> String {
    format!("exit code 0 after {}", spoken(demo::stop(&mut [sidecar])))
}

pub fn table(seen: &Seen) {
    let bytes = fs::metadata(program("remote-sync")).expect("the program").len();
    println!("\n{}", bold("Measured just now"));
    row("size of the program", &format!("{:.2} MB", bytes as f64 / 1e6));
    let memory = |memory: Option<Room>| {
        format!("{:.2} MiB", memory.map_or(0, |it| it.resident) as f64 / 1024.0)
    };
    row("resident memory, one widget", &memory(seen.memory[0]));
    row("  with 1,001", &memory(seen.memory[1]));
    let [new, spec, status, secret, deletion] = WRITES;
    let writes = format!("{new}, {spec}, {status}, {secret}, {deletion}");
    row("writes: new, spec, status, Secret, deletion", &writes);
    row("requests when all is in sync, besides probes", &seen.idle.to_string());
    row("writes of a restart", &seen.restart.to_string());
    let lost = format!("{} of 1,001", seen.lost);
    row("deleted when started with an empty hub", &lost);
    println!("The Go original, sync-controller, deletes all of them at that start.");
}

fn row(figure: &str, measured: &str) {
    println!("{figure:48}{measured:>16}");
}

pub fn next_steps() {
    let (keep, test) = (bold("make demo-sync KEEP=1"), bold("make test"));
    println!(
        "Next: {keep} leaves it running for kubectl and curl;\n\
         {test} plays much more."
    );
}

pub fn keep(stage: &Stage, sidecar: &mut Sidecar) {
    let port = sidecar.port;
    demo::keep(&mut [("remote-sync", sidecar)], || {
        let namespace = &stage.sync.namespace;
        let clusters = [&stage.sync.remote().cluster, &stage.sync.own.cluster];
        for (cluster, name) in clusters.into_iter().zip(["w1-east", "w1"]) {
            let config = cluster.kubeconfig.display();
            println!("  kubectl --kubeconfig {config} -n {namespace} get widget {name} -o yaml");
        }
        println!("  curl localhost:{port}/debug/state    # also /metrics, /readyz and /healthz");
        println!("  SHOW_LOG=1 make demo-sync KEEP=1    # the same with the program's log");
    });
}
