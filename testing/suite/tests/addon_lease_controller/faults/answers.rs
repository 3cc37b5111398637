//! Invalid answers of the hub: F6, F7, F14, F15, F16.

use std::sync::Arc;

use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually, identity,
    rogue::{Authority, Rogue},
    scene::{ADDON, Scene},
    sidecar::{Sidecar, free_port, shipped},
};

use crate::support::{
    BACK, DELETED, LOST, NO_POD, STALE, failures, requests, rule, running, sent, stored,
    wait_for_renewal,
};

#[test]
fn f6_a_broken_answer_costs_its_connection_and_one_wait() {
    let (scene, sidecar) = running("broken");
    for (round, action) in [Action::Truncate, Action::Garbage].into_iter().enumerate() {
        scene.hub.faults().add(rule(&scene, "update", action.clone()).times(1));
        sidecar.wait_for_times(BACK, round + 1);
        let all = requests(&scene);
        let broken = all.iter().rposition(|request| request.verb == "update").expect("a PUT");
        assert!(broken > 0, "{action:?}");
        wait_for_renewal(&scene);
    }
    let connections: Vec<u64> = requests(&scene).iter().map(|request| request.connection).collect();
    assert!(connections.is_sorted() && connections.first() < connections.last(), "{connections:?}");
}

#[test]
fn f6_lengths_and_chunks_that_lie_are_errors() {
    let (scene, sidecar) = running("lies");
    let authority = Authority::new("rogue");
    let pair = authority.sign(&["127.0.0.1"], |_| {});
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{",
        "HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}",
        "HTTP/9.9 999 \r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        "",
    ] {
        let rogue = Rogue::start(&pair, answer.as_bytes());
        let lost = sidecar.count(LOST);
        put_token(&scene, &rogue.address.to_string(), &authority.pem);
        eventually(answer, || (rogue.requests() > 0).then_some(()));
        sidecar.wait_for_times(LOST, lost + 1);
    }
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for(BACK);
}

fn put_token(scene: &Scene, address: &str, ca: &str) {
    let kubeconfig = identity::kubeconfig(address, ca, &json!({"token": "secret-token"}));
    scene.put_secret(&[("kubeconfig".to_owned(), kubeconfig.to_string().into_bytes())].into());
}

/// The static program, if it has been built; else the debug build, and `false`.
fn start_shipped(scene: &Scene) -> (Sidecar, bool) {
    let port = free_port();
    let command = scene.command(port);
    match shipped(&command) {
        Some(command) => (Sidecar::spawn(command, port), true),
        None => (Sidecar::spawn(command, port), false),
    }
}

#[test]
fn f7_huge_headers_and_bodies_are_not_read() {
    let scene = Scene::new("huge");
    let (sidecar, is_shipped) = start_shipped(&scene);
    sidecar.wait_for("lease renewal started");
    let before = sidecar.memory("VmHWM");
    let huge = [Action::HugeHeaders { bytes: 64 << 10 }, Action::HugeBody { bytes: 100 << 20 }];
    for (round, action) in huge.into_iter().enumerate() {
        let huge = scene.hub.faults().add(rule(&scene, "update", action));
        let lost = sidecar.count(LOST);
        sidecar.wait_for_times(LOST, lost + 1);
        scene.hub.faults().remove(huge);
        sidecar.wait_for_times(BACK, round + 1);
    }
    let after = sidecar.memory("VmHWM");
    if is_shipped {
        // A body is read up to 1.75 MiB.
        assert!(after < before + 2048, "{before} KiB, then {after} KiB");
    } else {
        assert!(after < before + 3072, "{before} KiB, then {after} KiB");
    }
}

#[test]
fn f7_a_huge_list_or_event_of_the_managed_cluster_is_not_kept() {
    let scene = Scene::new("huge-list");
    let huge = Action::HugeBody { bytes: 100 << 20 };
    let managed = scene.managed.faults();
    managed.add(Rule::new(huge.clone()).verb("list").resource("secrets").times(1));
    managed.add(Rule::new(huge).verb("watch").resource("pods").times(1));
    let sidecar = scene.start(&[]);
    sidecar.wait_for("lease renewal started");
    sidecar.wait_for("readable again");
}

#[test]
fn f14_an_html_page_of_a_balancer_is_not_shown() {
    let (scene, sidecar) = running("html");
    for code in [500, 502, 503, 504] {
        let body = Some("<html>upstream connect error</html>".to_owned());
        let action = Action::Answer { code, body, retry_after: None };
        scene.hub.faults().add(rule(&scene, "update", action).times(1));
    }
    sidecar.wait_for("failures=4");
    for code in [500, 502, 503, 504] {
        assert_eq!(sidecar.count(&format!(": {code} without a Kubernetes Status")), 1);
    }
    assert_eq!(sidecar.count("<html"), 0, "{}", sidecar.log());
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
}

#[test]
fn f15_another_object_than_the_one_asked_for_is_an_error() {
    let (scene, sidecar) = running("odd");
    for action in [Action::NotJson, Action::WrongKind] {
        scene.hub.faults().add(rule(&scene, "update", action).times(1));
    }
    sidecar.wait_for("failures=2");
    assert_eq!(sidecar.count("the answer is not JSON"), 1, "{}", sidecar.log());
    assert_eq!(sidecar.count("the answer is another object"), 1, "{}", sidecar.log());
}

#[test]
fn f15_a_lease_without_a_spec_is_renewed_all_the_same() {
    let (scene, sidecar) = running("null-spec");
    scene.hub.faults().add(rule(&scene, "update", Action::NullSpec).times(2));
    // A conflict makes it read, and the read has no spec either.
    scene.hub.faults().add(rule(&scene, "get", Action::NullSpec));
    scene.hub.merge(&scene.hub_lease(), &json!({"metadata": {"labels": {"a": "b"}}}));
    for _ in 0..4 {
        wait_for_renewal(&scene);
    }
    assert_eq!(stored(&scene).expect("a Lease")["spec"]["leaseDurationSeconds"], 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn f15_odd_lists_and_events_of_the_managed_cluster_change_nothing() {
    let scene = Scene::new("odd-lists");
    let managed = scene.managed.faults();
    for resource in ["pods", "secrets"] {
        managed.add(Rule::new(Action::NotJson).verb("list").resource(resource).times(2));
        managed.add(Rule::new(Action::NotJson).verb("watch").resource(resource).times(1));
        managed.add(
            Rule::new(Action::WatchCut { events: 0 }).verb("watch").resource(resource).times(1),
        );
    }
    let sidecar = scene.start(&[]);
    sidecar.wait_for("lease renewal started");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials rotated");
    wait_for_renewal(&scene);
    assert_eq!(sidecar.count(STALE), 0, "{}", sidecar.log());
}

#[test]
fn f15_a_list_of_another_kind_is_no_absence() {
    let (scene, sidecar) = running("wrong-list");
    let managed = scene.managed.server();
    for resource in ["pods", "secrets"] {
        managed.faults().add(Rule::new(Action::WrongKind).verb("list").resource(resource).times(1));
    }
    managed.compact();
    managed.restart();
    sidecar.wait_for("list pods");
    sidecar.wait_for("list secrets");
    wait_for_renewal(&scene);
    assert_eq!((sidecar.count(NO_POD), sidecar.count(DELETED)), (0, 0));
}

#[test]
fn f16_a_redirect_is_refused_and_no_credential_goes_there() {
    let (scene, sidecar) = running("redirect");
    let other: Arc<Cluster> = Cluster::embedded("other");
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{ADDON}", scene.cluster);
    let before = other.server().counters();
    let location = format!("https://{}{path}", other.address);
    let redirect = scene.hub.faults().add(rule(&scene, "update", Action::Redirect { location }));
    sidecar.wait_for("307: a redirect, which is not followed");
    let tries = sent(&scene).len();
    suite::eventually("it goes on trying", || (sent(&scene).len() > tries + 1).then_some(()));
    scene.hub.faults().remove(redirect);
    sidecar.wait_for(BACK);
    assert_eq!(other.server().counters(), before, "nobody called");
    assert!(other.server().requests().iter().all(|request| request.user == "admin"));
}
