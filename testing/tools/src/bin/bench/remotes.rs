//! A hundred remotes, of which twenty are dead: what that does to the others.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use dev_apiserver::State;
use serde_json::Value;
use suite::{
    cluster::Cluster,
    pause,
    sidecar::Sidecar,
    sync::{
        Stage, WIDGETS,
        load::{self, Room},
    },
};

use crate::{
    between,
    echo::{Echo, What},
    table::{self, quantile, row},
};

const HEALTHY: usize = 80;
/// Half of them refuse connections, half let them time out.
const DEAD: usize = 20;
const PAIRS: usize = 10;
const SAMPLES: u64 = 240;
const LIMIT: Duration = Duration::from_secs(240);
/// A dead one is tried again after 30 s and a fifth of that at most.
const RETRY: f64 = 36.0;
/// In milliseconds, for a machine that is busier in the one run than in the other; who waits for a dead
/// remote waits for seconds.
const SLACK: f64 = 50.0;

pub(crate) fn measure() -> bool {
    let names: Vec<String> = (0..HEALTHY).map(|index| format!("r{index:02}")).collect();
    let remotes = names.iter().map(|name| (&**name, Cluster::embedded(name))).collect();
    let stage = between(Cluster::embedded("own"), remotes);
    for (index, remote) in stage.remotes.iter().enumerate() {
        // The first one has it from the stage.
        if index > 0 {
            remote.cluster.create_namespace(&stage.namespace);
        }
        stage.put_sources(index, 0..PAIRS);
    }
    let mut rows = vec![row([
        "remotes",
        "spec lag P50 ms",
        "P99",
        "all in sync s",
        "threads",
        "RSS MiB",
        "at rest: threads",
        "RSS MiB",
        "connected",
    ])];
    let alone = run(&stage, &[], 1, &mut rows);
    let hole = Cluster::embedded("hole");
    hole.faults().set_state(State::Partition);
    let refusing = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let refusing = refusing.expect("a free port").to_string();
    let dead: Vec<String> = (0..DEAD)
        .map(|index| {
            let address = if index % 2 == 0 { &refusing } else { &hole.address };
            let sick = &stage.remotes[0];
            let file = sick.direct_kubeconfig().replace(&sick.cluster.address, address);
            let file = stage.write(&format!("dead{index}"), &file);
            format!("-remote-kubeconfig=dead{index:02}={}", file.display())
        })
        .collect();
    let dead: Vec<&str> = dead.iter().map(String::as_str).collect();
    let beside = run(&stage, &dead, SAMPLES + 1, &mut rows);
    table::print(&rows);
    let slowed = beside > alone * 1.5 + SLACK;
    if slowed {
        println!("MISSED: the dead ones slow the others, {alone:.1} ms became {beside:.1} ms.\n");
    }
    !slowed
}

/// One run with these flags; the median lag in milliseconds.
fn run(stage: &Stage, dead: &[&str], first: u64, rows: &mut Vec<Vec<String>>) -> f64 {
    let begun = Instant::now();
    let flags = [&["-qps", "0", "-leader-election=false"], dead].concat();
    let sidecar = stage.start_deployed(&flags);
    load::wait_for_pairs(&sidecar, HEALTHY * PAIRS, LIMIT);
    let in_step = begun.elapsed();
    let target = Echo::of(&stage.own.cluster, What::Spec);
    let lags: Vec<f64> = (first..first + SAMPLES)
        .map(|number| {
            let remote = number as usize % HEALTHY;
            let name = load::nth(number as usize % PAIRS);
            let source = stage.source_in(remote, &WIDGETS, &stage.namespace, &name);
            let copy = stage.target_in(remote, &WIDGETS, &stage.namespace, &name);
            let begun = Instant::now();
            source.set_number(number + 100);
            let key = format!("{}/{}", copy.namespace.as_deref().unwrap_or_default(), copy.name);
            let lag = target.wait_for(&key, number + 100) - begun;
            pause(5);
            lag.as_secs_f64() * 1000.0
        })
        .collect();
    let busy = Room::of(&sidecar);
    let connected = if dead.is_empty() { at_rest(&sidecar) } else { tried(&sidecar) };
    let rest = Room::of(&sidecar);
    let mib = |room: Room| format!("{:.1}", room.resident as f64 / 1024.0);
    rows.push(vec![
        match dead.len() {
            0 => format!("{HEALTHY}"),
            dead => format!("{}, of which {dead} dead", HEALTHY + dead),
        },
        format!("{:.1}", quantile(&lags, 0.5)),
        format!("{:.1}", quantile(&lags, 0.99)),
        format!("{:.1}", in_step.as_secs_f64()),
        busy.threads.to_string(),
        mib(busy),
        rest.threads.to_string(),
        mib(rest),
        connected.to_string(),
    ]);
    quantile(&lags, 0.5)
}

fn states(sidecar: &Sidecar) -> Vec<(String, Value)> {
    let (_, text) = sidecar.ask("/debug/state");
    let state: Value = serde_json::from_str(&text).unwrap_or_default();
    let remotes = state["remotes"].as_object().into_iter().flatten();
    remotes.map(|(name, state)| (name.clone(), state["connection"].clone())).collect()
}

fn connected(sidecar: &Sidecar) -> usize {
    let states = states(sidecar);
    let healthy = states.iter().filter(|(_, it)| it["state"] == "Connected");
    healthy.filter(|(_, it)| it["failures"] == 0).count()
}

/// A worker without work ends after 20 s.
fn at_rest(sidecar: &Sidecar) -> usize {
    pause(25_000);
    connected(sidecar)
}

/// The assertions of Cluster API's TestClusterCacheConcurrency: whoever is well is connected and stays so,
/// whoever is not has an error that is no older than the next try.
fn tried(sidecar: &Sidecar) -> usize {
    let failures = |states: &[(String, Value)]| -> Vec<u64> {
        let dead = states.iter().filter(|(name, _)| name.starts_with("dead"));
        dead.map(|(_, it)| it["failures"].as_u64().unwrap_or(0)).collect()
    };
    let before = failures(&states(sidecar));
    pause((RETRY * 1000.0) as u64 + 6000);
    let after = states(sidecar);
    let again = failures(&after).iter().zip(&before).filter(|(now, then)| now > then).count();
    let errors = after.iter().filter(|(name, it)| {
        name.starts_with("dead") && it["state"] != "Connected" && it["error"].is_string()
    });
    assert_eq!(errors.count(), DEAD, "dead ones with an error");
    assert_eq!(again, DEAD, "dead ones that were tried again within {RETRY} s");
    let connected = connected(sidecar);
    assert_eq!(connected, HEALTHY, "healthy ones that are connected");
    connected
}
