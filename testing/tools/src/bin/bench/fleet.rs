//! How much one process takes with 10, 100 and 300 remotes; how much work a target means that belongs to none
//! of them, and how long `/metrics` takes.

use std::time::{Duration, Instant};

use serde_json::json;
use suite::{
    cluster::Cluster,
    pause,
    sidecar::Sidecar,
    sync::{
        Setting, Stage, WIDGETS,
        load::{self, Room},
    },
};

use crate::{
    between,
    table::{self, row},
};

const FLEETS: [usize; 3] = [10, 100, 300];
const LIMIT: Duration = Duration::from_secs(120);
const FLAGS: [&str; 5] = ["-qps", "0", "-leader-election=false", "-max-objects", "200000"];
/// Until all is settled, and then counted for.
const MINUTE: u64 = 60_000;
/// Targets that nobody marked, and the changes of them.
const UNMARKED: usize = 4_000;
const CHANGES: usize = 200;
const SCRAPES: u32 = 5;

pub(crate) fn measure() -> bool {
    let names: Vec<String> = (0..FLEETS[2]).map(|index| format!("r{index:03}")).collect();
    let remotes = names.iter().map(|name| (&**name, Cluster::embedded(name))).collect();
    let mut stage = between(Cluster::embedded("own"), remotes);
    at_rest(&stage);
    stage.setting = Setting::safe(&[&WIDGETS]).same_names();
    put_unmarked(&stage);
    fan_out(&stage);
    stage.setting = Setting {
        suffix: ".{cluster}".into(),
        namespace_suffix: String::new(),
        ..Setting::push(&[&WIDGETS])
    };
    scrape(&stage);
    true
}

fn mib(room: Room) -> String {
    format!("{:.1}", room.resident as f64 / 1024.0)
}

fn start(stage: &Stage, remotes: usize) -> (Sidecar, Duration) {
    let begun = Instant::now();
    let sidecar = stage.start_deployed_for(remotes, &FLAGS);
    let ready = || sidecar.ask("/metrics").1.matches("remote_sync_resource_ready{").count();
    let open =
        || sidecar.ask("/metrics").1.matches("\",resource=\"widgets.sync.example.com\"} 1").count();
    while ready() < remotes || open() < remotes {
        assert!(begun.elapsed() < LIMIT, "not ready: {}", sidecar.ask("/readyz").1);
        pause(20);
    }
    let took = begun.elapsed();
    (sidecar, took)
}

fn at_rest(stage: &Stage) {
    let mut rows = vec![row([
        "remotes, at rest",
        "ready s",
        "RSS MiB",
        "threads",
        "descriptors",
        "requests a minute",
    ])];
    for remotes in FLEETS {
        let (sidecar, ready) = start(stage, remotes);
        pause(MINUTE / 2);
        stage.forget_requests();
        pause(MINUTE);
        let (requests, _) = stage.counted();
        let room = Room::of(&sidecar);
        rows.push(vec![
            remotes.to_string(),
            format!("{:.1}", ready.as_secs_f64()),
            mib(room),
            room.threads.to_string(),
            sidecar.descriptors().to_string(),
            requests.to_string(),
        ]);
    }
    table::print(&rows);
}

fn put_unmarked(stage: &Stage) {
    for index in 0..UNMARKED {
        stage.own.cluster.server().put(json!({
            "apiVersion": WIDGETS.resource.api_version(), "kind": WIDGETS.resource.kind,
            "metadata": {"namespace": stage.namespace, "name": load::nth(index)},
            "spec": {"size": 1},
        }));
    }
}

/// With the same names everywhere, any remote might have a source for each of them.
fn fan_out(stage: &Stage) {
    let mut rows = vec![row([
        "remotes, 4,000 objects of nobody's",
        "CPU s until ready",
        "CPU s, 200 changes of them",
    ])];
    for remotes in [1, 50, 200] {
        let (sidecar, _) = start(stage, remotes);
        pause(2000);
        let started = sidecar.cpu_time();
        stage.change_statuses(0, 0..CHANGES, remotes as u64);
        pause(2000);
        let changed = sidecar.cpu_time() - started;
        let cells = [started, changed].map(|time| format!("{:.2}", time.as_secs_f64()));
        rows.push([vec![remotes.to_string()], cells.into()].concat());
    }
    table::print(&rows);
}

/// Push, where the sources of all remotes are in one store.
fn scrape(stage: &Stage) {
    let mut rows = vec![row(["GET /metrics: remotes", "sources", "ms", "CPU ms"])];
    for (remotes, sources) in [(1, 5_000), (200, 5_000), (200, 20_000)] {
        for index in 0..sources {
            stage.own.cluster.server().put(json!({
                "apiVersion": WIDGETS.resource.api_version(), "kind": WIDGETS.resource.kind,
                "metadata": {"namespace": stage.namespace, "name": format!("{}.x", load::nth(index))},
                "spec": {"size": 1},
            }));
        }
        let (sidecar, _) = start(stage, remotes);
        pause(1000);
        let (begun, before) = (Instant::now(), sidecar.cpu_time());
        (0..SCRAPES).for_each(|_| drop(sidecar.ask("/metrics")));
        let (took, cpu) = (begun.elapsed() / SCRAPES, (sidecar.cpu_time() - before) / SCRAPES);
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
        rows.push(vec![remotes.to_string(), sources.to_string(), ms(took), ms(cpu)]);
    }
    table::print(&rows);
}
