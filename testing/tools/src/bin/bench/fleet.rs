//! What one process needs with 10, 100 and 300 remotes.

use std::time::{Duration, Instant};

use suite::{
    cluster::Cluster,
    pause,
    sidecar::Sidecar,
    sync::{Stage, load::Room},
};

use crate::{
    between,
    table::{self, row},
};

const FLEETS: [usize; 3] = [10, 100, 300];
const LIMIT: Duration = Duration::from_secs(120);
const FLAGS: [&str; 3] = ["-qps", "0", "-leader-election=false"];
/// How long requests are counted, in milliseconds, after half as long to settle.
const MINUTE: u64 = 60_000;

pub(crate) fn measure() -> bool {
    let names: Vec<String> = (0..FLEETS[2]).map(|index| format!("r{index:03}")).collect();
    let remotes = names.iter().map(|name| (&**name, Cluster::embedded(name))).collect();
    at_rest(&between(Cluster::embedded("own"), remotes));
    true
}

/// Returns the program, and the wall and CPU time until all remotes were ready.
fn start(stage: &Stage, remotes: usize) -> (Sidecar, [Duration; 2]) {
    let begun = Instant::now();
    let sidecar = stage.start_deployed_for(remotes, &FLAGS);
    let ready = || sidecar.ask("/metrics").1.matches("remote_sync_resource_ready{").count();
    let open =
        || sidecar.ask("/metrics").1.matches("\",resource=\"widgets.sync.example.com\"} 1").count();
    while ready() < remotes || open() < remotes {
        assert!(begun.elapsed() < LIMIT, "not ready: {}", sidecar.ask("/readyz").1);
        pause(20);
    }
    let took = [begun.elapsed(), sidecar.cpu_time()];
    (sidecar, took)
}

fn at_rest(stage: &Stage) {
    let mut rows = vec![row([
        "remotes, at rest",
        "ready s",
        "CPU s",
        "RSS MiB",
        "threads",
        "descriptors",
        "requests a minute",
    ])];
    for remotes in FLEETS {
        let (sidecar, [ready, cpu]) = start(stage, remotes);
        pause(MINUTE / 2);
        stage.forget_requests();
        pause(MINUTE);
        let (requests, _) = stage.counted();
        let room = Room::of(&sidecar);
        rows.push(vec![
            remotes.to_string(),
            format!("{:.1}", ready.as_secs_f64()),
            format!("{:.1}", cpu.as_secs_f64()),
            format!("{:.1}", room.resident as f64 / 1024.0),
            room.threads.to_string(),
            sidecar.descriptors().to_string(),
            requests.to_string(),
        ]);
    }
    table::print(&rows);
}
