//! Faulty or misconfigured remotes do not affect healthy ones.

use suite::{
    cluster::Cluster,
    needs::{Need, needs},
    relay::Way,
    sync::{BUDGETS, Kind, SETTINGS, Setting, Stage, WIDGETS},
};

use crate::{faults::registry, support::is_in_sync};

/// Three remotes with three kinds each: one flaps, one is a black hole.
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

/// Changes every remote's objects, and waits for the copies of the healthy one's.
fn change(stage: &Stage, number: u64) {
    for remote in 1..3 {
        stage.source_in(remote, &WIDGETS, &stage.namespace, "one").set_number(number);
    }
    for kind in KINDS {
        stage.source_in(0, kind, &stage.namespace, "one").set_number(number);
    }
    for kind in KINDS {
        stage.target_in(0, kind, &stage.namespace, "one").wait_for_number(number);
    }
}

#[test]
fn sick_remotes_hold_up_no_healthy_one() {
    if !needs(Need::Embedded, "there are four servers") {
        return;
    }
    let stage = stage();
    for remote in 0..3 {
        for kind in KINDS {
            stage.source_in(remote, kind, &stage.namespace, "one").create_number(1);
        }
    }
    let _sidecar = stage.start_served(&["-qps", "0"]);
    for remote in 0..3 {
        KINDS.iter().for_each(|kind| follows(&stage, remote, kind));
    }
    let [_, flapping, hole] = &*stage.remotes else { panic!("three remotes") };
    hole.relay.set(Way::Silent);
    for number in 2..12 {
        flapping.relay.set(Way::Closed);
        change(&stage, number);
        flapping.relay.set(Way::Open);
    }
    hole.relay.set(Way::Open);
    (1..3).for_each(|remote| follows(&stage, remote, &WIDGETS));
}

#[track_caller]
fn follows(stage: &Stage, remote: usize, kind: &'static Kind) {
    let source = stage.source_in(remote, kind, &stage.namespace, "one");
    is_in_sync(&source, &stage.target_in(remote, kind, &stage.namespace, "one"));
}

#[test]
fn a_bad_kubeconfig_harms_no_other_remote() {
    if !needs(Need::Embedded, "there are three servers") {
        return;
    }
    let (stage, pairs) = registry::stage("registry-bad");
    stage.put_kubeconfig("c1", "not a kubeconfig");
    registry::put(&stage, 1);
    let sidecar = registry::start(&stage, &[]);
    is_in_sync(&pairs[1].0, &pairs[1].1);
    sidecar.wait_for("cannot connect remote=c1 error=");
    assert!(!sidecar.log().contains("not a kubeconfig"), "what is in it stays there");
    registry::put(&stage, 0);
    is_in_sync(&pairs[0].0, &pairs[0].1);
}
