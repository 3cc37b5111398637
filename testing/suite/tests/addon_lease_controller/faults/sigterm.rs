//! SIGTERM in every state: F25 and F26. Exit code 0 in less than a second.

use std::{fs, process::Command};

use dev_apiserver::{Action, Rule, State};
use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    scene::{ADDON, Scene},
    sidecar::{Sidecar, behind, free_port},
};

use crate::faults::support::{LOST, faults, rule, running};

#[test]
fn f25_idle() {
    let (_scene, mut sidecar) = running("idle");
    pause(200);
    sidecar.stops_as_asked();
}

#[test]
fn f25_in_the_startup_delay() {
    let scene = Scene::new("delay");
    let mut sidecar = scene.start(&["-startup-delay", "3600"]);
    sidecar.wait_for("starts");
    sidecar.stops_as_asked();
}

#[test]
fn f25_connecting_to_a_black_hole() {
    let scene = Scene::new("connecting");
    scene.put_secret(&scene.credentials_for(&scene.hub, &scene.hub.address));
    faults(&scene).set_state(State::Partition);
    // Half of it, and no more than 5 s, is the time to connect.
    let mut sidecar = scene.start(&["-lease-duration", "60"]);
    sidecar.wait_for("loaded the hub credentials");
    pause(200);
    assert_eq!(sidecar.count(LOST), 0, "it is still connecting");
    sidecar.stops_as_asked();
}

#[test]
fn f25_in_the_middle_of_an_answer() {
    let scene = Scene::new("stalled");
    let stall =
        faults(&scene).add(Rule::new(Action::Stall).resource("leases").user(&scene.hub_user()));
    let mut sidecar = scene.start(&["-lease-duration", "60"]);
    eventually("the answer stalls", || (faults(&scene).hits(stall) > 0).then_some(()));
    pause(100);
    assert_eq!(sidecar.count(LOST), 0, "it still waits");
    sidecar.stops_as_asked();
}

#[test]
fn f25_in_a_back_off() {
    let (scene, mut sidecar) = running("back-off");
    let busy = Action::Answer { code: 503, body: None, retry_after: Some("60".into()) };
    faults(&scene).add(rule(&scene, "update", busy));
    sidecar.wait_for(LOST);
    sidecar.stops_as_asked();
}

#[test]
fn f25_waiting_for_the_secret() {
    let scene = Scene::new("no-secret");
    scene.delete_secret();
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for Secret");
    sidecar.stops_as_asked();
}

#[test]
fn f25_with_the_managed_cluster_silent() {
    let (scene, mut sidecar) = running("managed");
    scene.managed_relay.set(Way::Silent);
    scene.managed_relay.cut();
    pause(300);
    sidecar.stops_as_asked();
}

#[test]
fn f25_leading_and_the_leadership_is_let_go() {
    let scene = Scene::new("leading");
    let mut sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for("became the leader");
    sidecar.wait_for("is renewed every");
    sidecar.stops_as_asked();
    let name = format!("{ADDON}-addon-lease.agent.stolostron.io");
    let lease =
        scene.managed.server().get("coordination.k8s.io/v1", "leases", &scene.namespace, &name);
    let holder = lease.expect("the election's Lease")["spec"]["holderIdentity"].clone();
    assert!(holder.is_null() || holder == "", "{holder}");
}

#[test]
fn f25_leading_while_nobody_takes_the_leadership_back() {
    let scene = Scene::new("stuck-leader");
    let mut sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for("became the leader");
    scene.managed_relay.set(Way::Silent);
    sidecar.stops_as_asked();
}

/// The only child of a process.
fn child_of(pid: u32) -> u32 {
    eventually("the child is there", || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

#[test]
fn f26_as_process_1_of_a_container() {
    if !needs(
        Need::Command(&["unshare", "-pf", "true"]),
        "this user may not make a process namespace",
    ) {
        return;
    }
    let scene = Scene::new("one");
    let port = free_port();
    let command = scene.command(port);
    let command = behind(&["unshare", "-pf", "--kill-child"], &command);
    let mut sidecar = Sidecar::spawn(command, port);
    sidecar.wait_for("is renewed every");
    assert!(sidecar.log().contains("       1 logging.rs"), "it is process 1: {}", sidecar.log());
    let child = child_of(sidecar.pid()).to_string();
    sidecar.ends_at_once_by(|_| {
        let killed = Command::new("kill").args(["-TERM", &child]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    });
}
