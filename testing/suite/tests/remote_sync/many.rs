//! Three remotes with three kinds each: one flaps, one is a black hole, and the third is not slowed down by
//! them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use suite::{
    Stopwatch,
    cluster::Cluster,
    measure::median,
    needs::{Need, needs},
    pause,
    relay::Way,
    sync::{BUDGETS, Kind, REGIONS, SETTINGS, Setting, Stage, WIDGETS},
};

use crate::support::is_in_sync;

static KINDS: [&Kind; 3] = [&WIDGETS, &BUDGETS, &SETTINGS];
const REMOTES: [&str; 3] = ["well", "flapping", "hole"];

fn stage() -> Stage {
    let remotes = REMOTES.map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting {
        namespace_suffix: "-{cluster}".into(),
        suffix: String::new(),
        ..Setting::safe(&KINDS)
    };
    let stage = Stage::between(Cluster::embedded("own"), remotes, "many", setting);
    for remote in &stage.remotes[1..] {
        remote.cluster.create_namespace(&stage.namespace);
    }
    stage
}

/// How long a change of the healthy remote's takes to arrive, in milliseconds, many times over.
fn lags(stage: &Stage, rounds: std::ops::Range<u64>) -> Vec<f64> {
    let mut lags = Vec::new();
    for number in rounds {
        for kind in KINDS {
            let source = stage.source_in(0, kind, &stage.namespace, "one");
            let target = stage.target_in(0, kind, &stage.namespace, "one");
            let (start, watch) = (Instant::now(), Stopwatch::start());
            source.set_number(number);
            while target.number() != Some(number) {
                assert!(watch.is_within(Duration::from_secs(10)), "{}", target.target());
                thread::sleep(Duration::from_millis(1));
            }
            lags.push(start.elapsed().as_secs_f64() * 1e3);
        }
        for remote in 1..3 {
            // The sick ones have work, too.
            stage.source_in(remote, &WIDGETS, &stage.namespace, "one").set_number(number);
        }
    }
    lags
}

#[test]
fn sick_remotes_slow_no_healthy_one() {
    if !needs(Need::Embedded, "there are four servers") {
        return;
    }
    let stage = stage();
    for remote in 0..3 {
        for kind in KINDS {
            stage.source_in(remote, kind, &stage.namespace, "one").create_number(1);
        }
    }
    let sidecar = stage.start_served(&["-qps", "0"]);
    for remote in 0..3 {
        KINDS.iter().for_each(|kind| follows(&stage, remote, kind));
    }
    let before = median(lags(&stage, 2..12));
    stage.remotes[2].relay.set(Way::Silent);
    let during = while_one_flaps(&stage);
    let longest = during.iter().copied().fold(0.0, f64::max);
    let after = median(during);
    println!("spec lag: {before:.1} ms, with sick remotes {after:.1} ms, {longest:.1} ms at most");
    assert!(after < before * 2.0 + 20.0, "{before} ms became {after} ms");
    assert!(longest < 1000.0, "{longest} ms\n{}", sidecar.log());
    stage.remotes[2].relay.set(Way::Open);
    (1..3).for_each(|remote| follows(&stage, remote, &WIDGETS));
}

/// The lags while the second remote comes and goes.
fn while_one_flaps(stage: &Stage) -> Vec<f64> {
    let over = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let (flapping, end) = (&stage.remotes[1].relay, over.clone());
        scope.spawn(move || {
            while !end.load(SeqCst) {
                flapping.set(Way::Closed);
                pause(150);
                flapping.set(Way::Open);
                pause(250);
            }
        });
        let lags = lags(stage, 12..32);
        over.store(true, SeqCst);
        lags
    })
}

#[track_caller]
fn follows(stage: &Stage, remote: usize, kind: &'static Kind) {
    let source = stage.source_in(remote, kind, &stage.namespace, "one");
    is_in_sync(&source, &stage.target_in(remote, kind, &stage.namespace, "one"));
}

/// Outside of namespaces nothing but the name tells remotes apart.
#[test]
fn of_two_remotes_with_the_same_name_the_first_one_has_the_copy() {
    if !needs(Need::Embedded, "there are three servers") {
        return;
    }
    let remotes = ["a", "b"].map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting::safe(&[&REGIONS]).same_names();
    let stage = Stage::between(Cluster::embedded("own"), remotes, "same", setting);
    let place = |remote| stage.source_in(remote, &REGIONS, "", "one");
    place(0).create_number(1);
    let sidecar = stage.start_served(&[]);
    let target = stage.target_in(0, &REGIONS, "", "one");
    is_in_sync(&place(0), &target);
    place(1).create_number(2);
    pause(2500);
    assert_eq!(target.number(), Some(1), "{}", sidecar.log());
    place(0).set_number(5);
    target.wait_for_number(5);
    place(1).delete();
    pause(2000);
    assert_eq!(target.number(), Some(5));
}
