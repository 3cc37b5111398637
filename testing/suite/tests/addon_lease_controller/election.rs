//! Several replicas with -leader-election: only one renews.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;
use shared::resource::LEASES;
use suite::{
    cluster::resource,
    pause,
    relay::{Relay, Way},
    scene::Scene,
    sidecar::Sidecar,
    throughout, within,
};

use crate::support::{STALE, renewals, renews};

const ELECTION: &str = "my-addon-addon-lease.agent.stolostron.io";
const LEADS: &str = "became the leader (";

/// One replica with its own way to the managed cluster.
struct Replica {
    relay: Relay,
    sidecar: Sidecar,
}

fn replica(scene: &Scene, name: &str) -> Replica {
    let relay = Relay::to(&scene.managed.address);
    let file = scene.managed_kubeconfig_by(&relay, name);
    let sidecar = scene.start_as(|command: &mut Command| {
        command.arg("-leader-election").arg("-kubeconfig").arg(file);
    });
    Replica { relay, sidecar }
}

/// A leader and one that stands by.
fn two(scene: &Scene) -> (Replica, Replica) {
    let first = replica(scene, "first");
    first.sidecar.wait_for(LEADS);
    let second = replica(scene, "second");
    second.sidecar.wait_for("standing by: ");
    (first, second)
}

fn holder(scene: &Scene) -> String {
    scene.managed.leader(&scene.namespace, ELECTION).unwrap_or_default()
}

#[test]
fn kalc29_only_the_leader_renews() {
    let scene = Scene::new("onlyleader");
    let (first, second) = two(&scene);
    renews(&first.sidecar, "hub", 3);
    assert_eq!(renewals(&second.sidecar, "hub"), 0.0);
    assert!(!holder(&scene).is_empty());
    let config_maps = resource("", "configmaps", "ConfigMap");
    assert!(scene.managed.get(&config_maps.object(&scene.namespace, ELECTION)).is_none());
    let leads = "leader_election_master_status{name=\"my-addon-addon-lease.agent.stolostron.io\"}";
    assert_eq!(first.sidecar.metric(leads), Some(1.0));
    assert_eq!(second.sidecar.metric(leads), Some(0.0));
    // A standby of a live leader is ready.
    for replica in [&first, &second] {
        assert_eq!(replica.sidecar.ask("/readyz"), (200, "ok\n".to_owned()));
    }
}

#[test]
fn f25_a_leader_that_stops_lets_go() {
    let scene = Scene::new("letsgo");
    let (mut first, second) = two(&scene);
    renews(&first.sidecar, "hub", 1);
    let before = holder(&scene);
    first.sidecar.ends_at_once();
    // client-go's retry of 2 s with its jitter, and a busy machine.
    within(6, "the other one leads", || second.sidecar.count(LEADS) == 1);
    renews(&second.sidecar, "hub", 1);
    assert_ne!(holder(&scene), before);
}

#[test]
fn a_leader_that_dies_is_followed_after_its_lease() {
    let scene = Scene::new("dies");
    let (mut first, second) = two(&scene);
    renews(&first.sidecar, "hub", 1);
    let died = Instant::now();
    first.sidecar.kill();
    within(22, "the other one leads", || second.sidecar.count(LEADS) == 1);
    // It waits for 15 s from the last renewal that it observed.
    assert!(died.elapsed() > Duration::from_secs(8), "{:?}", died.elapsed());
    renews(&second.sidecar, "hub", 1);
}

#[test]
fn a_leader_without_its_cluster_stops_before_another_one_starts() {
    let scene = Scene::new("loses");
    let (first, second) = two(&scene);
    renews(&first.sidecar, "hub", 1);
    let cut = Instant::now();
    first.relay.set(Way::Closed);
    // It led until 10 s after its last success, at most 10 s from here.
    within(14, "it no longer leads", || first.sidecar.count("lost leader election") == 1);
    let last = renewals(&first.sidecar, "hub");
    assert!(last <= cut.elapsed().as_secs_f64().min(10.0) + 3.0, "{last}");
    assert_eq!(renewals(&second.sidecar, "hub"), 0.0);
    within(14, "the other one leads", || second.sidecar.count(LEADS) == 1);
    renews(&second.sidecar, "hub", 2);
    assert_eq!(renewals(&first.sidecar, "hub"), last);
    first.relay.set(Way::Open);
    first.sidecar.wait_for("standing by: ");
    assert_eq!(renewals(&first.sidecar, "hub"), last);
}

#[test]
fn a_leader_alone_takes_back_what_it_released() {
    let scene = Scene::new("again");
    for _ in 0..2 {
        let mut replica = replica(&scene, "only");
        within(3, "it leads at once", || replica.sidecar.count(LEADS) == 1);
        renews(&replica.sidecar, "hub", 1);
        replica.sidecar.terminate();
        assert_eq!(holder(&scene), "", "released");
    }
}

#[test]
fn a_leader_of_a_pod_that_is_not_ready_renews_nothing() {
    let scene = Scene::new("illleader");
    scene.set_ready(false);
    let replica = replica(&scene, "only");
    replica.sidecar.wait_for(LEADS);
    replica.sidecar.wait_for(STALE);
    scene.ages(1500);
    assert!(scene.lease().is_none());
    scene.set_ready(true);
    renews(&replica.sidecar, "hub", 1);
}

#[test]
fn kalc18_renewing_ends_with_leadership() {
    let scene = Scene::new("kalc18");
    let sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for(LEADS);
    scene.wait_for_renewals(1);
    let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}});
    scene.managed.merge(&LEASES.object(&scene.namespace, ELECTION), &thief);
    sidecar.wait_for("renewals stop");
    sidecar.wait_for("standing by: thief is the leader");
    // A renewal in flight may still arrive.
    pause(200);
    let last = scene.lease();
    throughout(2500, "the Lease ages", || scene.lease() == last);
    assert_eq!(sidecar.wait_for_code("/readyz", 200), "ok\n");
}
