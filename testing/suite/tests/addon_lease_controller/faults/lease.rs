//! Other writers of the Lease and its namespace: F31 to F33, F35 to F38.

use std::time::{Duration, SystemTime};

use dev_apiserver::Action;
use serde_json::{Value, json};
use shared::time::parse_micro_time;
use suite::{
    cluster::resource,
    eventually,
    faults::code,
    pause,
    scene::{ADDON, Scene},
    throughout, within,
};

use crate::support::{
    BACK, LOST, failures, requests, rule, running, sent, stored, stored_time, wait_for_renewal,
};

#[test]
fn f31_another_writer_costs_three_requests() {
    let (scene, sidecar) = running("writer");
    wait_for_renewal(&scene);
    scene.hub.server().clear_requests();
    scene.hub.merge(&scene.hub_lease(), &json!({"metadata": {"labels": {"a": "b"}}}));
    wait_for_renewal(&scene);
    assert_eq!(sent(&scene)[..3], ["update 409", "get 200", "update 200"]);
    assert_eq!(stored(&scene).expect("a Lease")["metadata"]["labels"]["a"], "b");
    assert_eq!(failures(&sidecar, "hub"), 0.0);
}

#[test]
fn f32_a_storm_of_conflicts_is_met_with_three_tries_a_tick() {
    let scene = Scene::new("storm");
    // A period of 30 s: back-off may grow.
    let first = scene.start(&["-lease-duration", "30"]);
    first.wait_for("is renewed every");
    drop(first);
    // The next process finds the Lease and renews it at once.
    let storm = scene.hub.faults().add(rule(&scene, "update", code(409)));
    scene.hub.server().clear_requests();
    let sidecar = scene.start(&["-lease-duration", "30"]);
    sidecar.wait_for(LOST);
    pause(3000);
    let tries = failures(&sidecar, "hub");
    let puts = requests(&scene).iter().filter(|request| request.verb == "update").count() as f64;
    assert!(puts <= 3.0 * (tries + 1.0) && puts < 30.0, "{puts} PUTs in {tries} tries");
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
    scene.hub.faults().remove(storm);
    sidecar.wait_for(BACK);
}

#[test]
fn f33_a_renewal_whose_answer_was_lost_is_not_done_twice() {
    let (scene, sidecar) = running("lost-answer");
    wait_for_renewal(&scene);
    scene.hub.server().clear_requests();
    scene.hub.faults().add(rule(&scene, "update", Action::ApplyThenDrop).times(1));
    wait_for_renewal(&scene);
    let version = stored(&scene).expect("a Lease")["metadata"]["resourceVersion"].clone();
    // Within the period there is only the repeated write, which changes nothing, and a read.
    eventually("it has looked", || (sent(&scene).len() >= 3).then_some(()));
    assert_eq!(sent(&scene)[..3], ["update 0", "update 409", "get 200"]);
    assert_eq!(stored(&scene).expect("a Lease")["metadata"]["resourceVersion"], version);
    wait_for_renewal(&scene);
    let all = requests(&scene);
    let written: Vec<_> = all.iter().filter(|r| r.verb == "update" && r.code != 409).collect();
    let between = written[1].at - written[0].at;
    assert!(between > Duration::from_millis(900), "one renewal for the period: {between:?}");
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn f33_a_creation_whose_answer_was_lost_is_found() {
    let scene = Scene::new("lost-creation");
    scene.hub.faults().add(rule(&scene, "create", Action::ApplyThenDrop).times(1));
    let sidecar = scene.start(&[]);
    eventually("the Lease is there", || stored(&scene));
    sidecar.wait_for(BACK);
    wait_for_renewal(&scene);
    assert!(sent(&scene).iter().filter(|line| line.starts_with("create")).count() <= 2);
}

#[test]
fn f35_a_server_that_wants_six_digits_gets_them() {
    let (scene, sidecar) = running("digits");
    for _ in 0..2 {
        wait_for_renewal(&scene);
    }
    for request in requests(&scene).iter().filter(|request| request.received > 0) {
        let time = request.json()["spec"]["renewTime"].as_str().expect("a time").to_owned();
        assert_eq!((time.len(), &time[26..]), (27, "Z"), "{time}");
    }
    assert_eq!(sidecar.count(": 400: "), 0, "{}", sidecar.log());
}

#[test]
fn f36_a_namespace_that_goes_and_comes_back_is_waited_for() {
    let (scene, sidecar) = running("namespace");
    let namespaces = resource("", "namespaces", "Namespace");
    let maps = resource("", "configmaps", "ConfigMap");
    let map = maps.object(&scene.cluster, "holds-it");
    scene.hub.create(
        &map,
        &json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "holds-it", "finalizers": ["example.com/wait"]}}),
    );
    let namespace = shared::resource::Target {
        resource: &namespaces,
        namespace: None,
        name: Some(&scene.cluster),
        subresource: None,
    };
    scene.hub.delete(&namespace);
    sidecar.wait_for("is being terminated");
    scene.hub.merge(&map, &json!({"metadata": {"finalizers": null}}));
    sidecar.wait_for(": 404: namespaces");
    throughout(500, "it does not create the namespace", || scene.hub.get(&namespace).is_none());
    scene.hub.create(
        &namespace,
        &json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": scene.cluster}}),
    );
    sidecar.wait_for(BACK);
    wait_for_renewal(&scene);
}

/// The status of a pod whose container `app` works, or has crashed.
fn ready(app: bool) -> Value {
    json!({
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "app", "ready": app}, {"name": "lease", "ready": false}],
    })
}

#[test]
fn f37_an_app_container_that_crashes_stops_the_lease_within_a_tick() {
    let scene = Scene::new("crash");
    scene.set_pod_status(&ready(true));
    let sidecar = scene.start(&["-container-name", "lease"]);
    sidecar.wait_for("is renewed every");
    for round in 1..=2 {
        scene.set_pod_status(&ready(false));
        sidecar.wait_for_times("container app is not ready", round);
        // A request may be in flight.
        pause(100);
        let before = stored_time(&scene);
        throughout(1500, "the Lease ages", || stored_time(&scene) == before);
        scene.set_pod_status(&ready(true));
        wait_for_renewal(&scene);
    }
}

/// Whether the add-on counts as available: for five periods after a renewal (ocm
/// `pkg/registration/spoke/addon/lease_controller.go`, where a period is always 60 s).
fn available(scene: &Scene) -> bool {
    let lease = stored(scene).expect("a Lease");
    let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().expect("a duration");
    let renewed = lease["spec"]["renewTime"].as_str().and_then(parse_micro_time);
    SystemTime::now() < renewed.expect("a time") + Duration::from_secs(5 * seconds)
}

#[test]
fn f37_the_hub_hears_of_a_crash_five_periods_later_and_of_its_end_within_one() {
    let scene = Scene::new("verdict");
    scene.set_pod_status(&ready(true));
    let sidecar = scene.start(&["-container-name", "lease"]);
    sidecar.wait_for("is renewed every");
    throughout(6000, "it is available", || available(&scene));
    scene.set_pod_status(&ready(false));
    // The last renewal is up to a period old.
    throughout(3500, "it is still available", || available(&scene));
    within(4, "it is not available", || (!available(&scene)).then_some(()));
    throughout(2000, "it stays so", || !available(&scene));
    scene.set_pod_status(&ready(true));
    within(3, "it is available", || available(&scene).then_some(()));
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn f38_two_sidecars_on_one_lease_harm_nobody() {
    let scene = Scene::new("two");
    let (one, two) = (scene.start(&[]), scene.start(&[]));
    one.wait_for("is renewed every");
    two.wait_for("is renewed every");
    scene.hub.server().clear_requests();
    pause(4000);
    let all = requests(&scene);
    let count = |code| all.iter().filter(|request| request.code == code).count();
    let times: Vec<_> = all
        .iter()
        .filter(|request| request.verb == "update" && request.code == 200)
        .filter_map(|request| parse_micro_time(request.json()["spec"]["renewTime"].as_str()?))
        .collect();
    assert!((6..=10).contains(&times.len()), "one renewal a period each: {}", times.len());
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert!(count(409) <= 2 * times.len(), "{} conflicts", count(409));
    for sidecar in [&one, &two] {
        assert_eq!(failures(sidecar, "hub"), 0.0, "{}", sidecar.log());
    }
    assert_eq!(stored(&scene).expect("a Lease")["metadata"]["name"], ADDON);
}
