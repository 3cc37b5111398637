//! Several replicas with -leader-election: only one renews.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use suite::{
    eventually,
    relay::{Relay, Way},
    scene::Scene,
    sidecar::Sidecar,
};

use crate::support::{renewals, renews};

pub(crate) const ELECTION: &str = "my-addon-addon-lease.agent.stolostron.io";
pub(crate) const LEADS: &str = "became the leader";

/// One replica with its own way to the managed cluster.
pub(crate) struct Replica {
    relay: Relay,
    pub(crate) sidecar: Sidecar,
}

fn replica(scene: &Scene, name: &str) -> Replica {
    let relay = Relay::to(&scene.managed.address);
    let file = scene.managed_kubeconfig_by(&relay, name);
    let sidecar = scene.start_as(|command: &mut Command| {
        command.arg("-leader-election").arg("-kubeconfig").arg(file);
    });
    Replica { relay, sidecar }
}

/// Starts a leader and a standby.
pub(crate) fn two(scene: &Scene) -> (Replica, Replica) {
    let first = replica(scene, "first");
    first.sidecar.wait_for(LEADS);
    let second = replica(scene, "second");
    second.sidecar.wait_for("standing by");
    (first, second)
}

pub(crate) fn holder(scene: &Scene) -> String {
    scene.managed.leader(&scene.namespace, ELECTION).unwrap_or_default()
}

#[test]
fn isolated_leader_stops_before_the_next_one_starts() {
    let scene = Scene::new("loses");
    let (first, second) = two(&scene);
    renews(&first.sidecar, "hub", 1);
    let cut = Instant::now();
    first.relay.set(Way::Closed);
    // A promise: no two replicas renew at once. It led until 10 s after its last success, at most 10 s from here.
    eventually("it no longer leads", || first.sidecar.count("lost leader election") == 1);
    let last = renewals(&first.sidecar, "hub");
    assert!(last <= cut.elapsed().as_secs_f64().min(10.0) + 3.0, "{last}");
    assert_eq!(renewals(&second.sidecar, "hub"), 0.0);
    eventually("the other one leads", || second.sidecar.count(LEADS) == 1);
    renews(&second.sidecar, "hub", 2);
    assert_eq!(renewals(&first.sidecar, "hub"), last);
    first.relay.set(Way::Open);
    first.sidecar.wait_for("standing by");
    assert_eq!(renewals(&first.sidecar, "hub"), last);
}

/// A leader that does not renew yet would keep a ready replica from leading.
#[test]
fn election_starts_after_the_startup_delay() {
    let scene = Scene::new("late");
    let start = Instant::now();
    let mut sidecar = scene.start(&["-leader-election", "-startup-delay=2"]);
    sidecar.wait_for(LEADS);
    assert!(start.elapsed() > Duration::from_secs(2));
    renews(&sidecar, "hub", 1);
    sidecar.ends_at_once();
    assert_eq!(holder(&scene), "", "released");
}
