//! The Secret and what is made of it.

use shared::resource::{Resource, SECRETS, Target};
use suite::{
    cluster::resource,
    eventually, pause,
    scene::{ADDON, SECRET, Scene, manifests},
    sidecar::Sidecar,
    throughout,
};

use crate::{
    defects::{lines_of_proc, pod_uid, requests},
    support::failures,
};

#[test]
fn a01_a_recreated_secret_resumes() {
    let scene = Scene::new("a01");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.delete_secret();
    sidecar.wait_for("renewals stop until it is back");
    let stopped = scene.lease();
    throughout(1500, "the Lease ages", || scene.lease() == stopped);
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(2);
}

#[test]
fn a02_a_change_is_taken_once_and_then_there_is_peace() {
    let scene = Scene::new("a02");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials were rotated");
    scene.wait_for_renewals(3);
    assert_eq!(sidecar.count("credentials"), 2, "{}", sidecar.log());
}

#[test]
fn a03_new_credentials_serve_at_once_and_the_pod_stays() {
    let scene = Scene::new("a03");
    let uid = pod_uid(&scene);
    let mut sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials were rotated");
    scene.wait_for_renewals(2);
    assert_eq!(pod_uid(&scene), uid);
    assert!(sidecar.alive());
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn a04_certificate_files_serve_every_reconnect() {
    let scene = Scene::new("a04");
    let sidecar = scene.start(&[]);
    for _ in 0..3 {
        scene.wait_for_renewals(1);
        scene.hub_relay.cut();
    }
    scene.wait_for_renewals(1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn a05_credentials_that_fail_leave_nothing_behind() {
    let scene = Scene::new("a05");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let open = || (lines_of_proc(sidecar.pid(), "task"), lines_of_proc(sidecar.pid(), "fd"));
    let before = open();
    let good = scene.new_credentials();
    for round in 0..20 {
        let mut broken = good.clone();
        broken.insert("tls.crt".into(), format!("broken {round}").into_bytes());
        scene.put_secret(&broken);
    }
    sidecar.wait_for("keeping the current hub credentials");
    scene.put_secret(&good);
    sidecar.wait_for("credentials were rotated");
    scene.wait_for_renewals(1);
    eventually("no more threads than before, and no more descriptors", || {
        let (threads, descriptors) = open();
        threads <= before.0 && descriptors <= before.1
    });
}

#[test]
fn a13_a_secret_of_the_same_name_elsewhere_is_nothing_to_us() {
    let scene = Scene::new("a13");
    let other = scene.managed.new_namespace("a13-other");
    let twin = SECRETS.object(&other, SECRET);
    let mut secret =
        scene.managed.get(&SECRETS.object(&scene.namespace, SECRET)).expect("a Secret");
    secret["metadata"] = serde_json::json!({"name": SECRET, "namespace": other});
    let port = suite::sidecar::free_port();
    let mut command = scene.command(port);
    command.env("WATCH_NAMESPACE", "");
    let sidecar = Sidecar::spawn(command, port);
    scene.wait_for_renewals(1);
    scene.managed.create(&twin, &secret);
    scene.managed.delete(&twin);
    scene.wait_for_renewals(2);
    assert_eq!(sidecar.count("credentials"), 1, "{}", sidecar.log());
}

#[test]
fn a14_pod_and_secret_may_be_in_two_namespaces() {
    let scene = Scene::new("a14");
    let other = scene.managed.new_namespace("a14-secrets");
    for mut manifest in manifests("managed") {
        if manifest["kind"] == "RoleBinding" {
            manifest["subjects"][0]["namespace"] = scene.namespace.clone().into();
        }
        scene.managed.apply(&manifest, &other);
    }
    let mut secret =
        scene.managed.get(&SECRETS.object(&scene.namespace, SECRET)).expect("a Secret");
    secret["metadata"] = serde_json::json!({"name": SECRET, "namespace": other});
    scene.delete_secret();
    scene.managed.create(&SECRETS.object(&other, SECRET), &secret);
    let port = suite::sidecar::free_port();
    let mut command = scene.command(port);
    command.env("WATCH_NAMESPACE", &other);
    let _sidecar = Sidecar::spawn(command, port);
    scene.wait_for_renewals(2);
}

#[test]
fn a15_a_secret_that_is_being_deleted_starts_nothing() {
    let scene = Scene::new("a15");
    let target = SECRETS.object(&scene.namespace, SECRET);
    let finalizers =
        |list: serde_json::Value| serde_json::json!({"metadata": {"finalizers": list}});
    scene.managed.merge(&target, &finalizers(serde_json::json!(["example.com/hold"])));
    scene.delete_secret();
    let sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for Secret");
    throughout(1500, "there is no Lease", || scene.lease().is_none());
    assert_eq!((sidecar.ask("/healthz").0, sidecar.ask("/readyz").0), (200, 503));
    scene.managed.merge(&target, &finalizers(serde_json::json!(null)));
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}

#[test]
fn a23_a_change_is_noticed_when_it_happens() {
    let scene = Scene::new("a23");
    scene.delete_secret();
    let sidecar = scene.start(&["-lease-duration", "3600"]);
    sidecar.wait_for("waiting for Secret");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("is renewed every 3600 s");
}

#[test]
fn a26_an_outage_during_a_rotation_deletes_nothing() {
    let scene = Scene::new("a26");
    let uid = pod_uid(&scene);
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.hub_relay.set(suite::relay::Way::Closed);
    sidecar.wait_for("is not renewed");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials were rotated");
    scene.hub_relay.set(suite::relay::Way::Open);
    scene.wait_for_renewals(2);
    assert_eq!(pod_uid(&scene), uid);
}

#[test]
fn a27_rotation_needs_no_pod_name() {
    let scene = Scene::new("a27");
    let port = suite::sidecar::free_port();
    let mut command = scene.command(port);
    command
        .env_remove("POD_NAME")
        .env_remove("POD_NAMESPACE")
        .env("WATCH_NAMESPACE", &scene.namespace);
    let sidecar = Sidecar::spawn(command, port);
    scene.wait_for_renewals(1);
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials were rotated");
    scene.wait_for_renewals(1);
}

#[test]
fn a28_no_key_of_the_secret_becomes_a_file() {
    let scene = Scene::new("a28");
    let mut data = scene.new_credentials();
    data.insert("a..b".into(), b"x".to_vec());
    data.insert(".hidden".into(), b"y".to_vec());
    scene.put_secret(&data);
    let place = scene.directory.path().join("tmp");
    std::fs::create_dir(&place).expect("a directory");
    let port = suite::sidecar::free_port();
    let mut command = scene.command(port);
    command.env("TMPDIR", &place).env("HOME", &place).current_dir(&place);
    let _sidecar = Sidecar::spawn(command, port);
    scene.wait_for_renewals(2);
    assert_eq!(std::fs::read_dir(&place).expect("the directory").count(), 0);
}

#[test]
fn a30_a_pod_that_is_not_ready_costs_no_request() {
    let scene = Scene::new("a30");
    scene.set_ready(false);
    scene.delete_secret();
    let sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for Secret");
    sidecar.wait_for("the Lease goes stale");
    // The watches themselves.
    pause(300);
    let before = requests(&scene);
    pause(1500);
    assert_eq!(requests(&scene), before);
}

#[test]
fn a29_the_election_is_about_a_lease() {
    let scene = Scene::new("a29");
    let _sidecar = scene.start(&["-leader-election"]);
    scene.wait_for_renewals(1);
    let name = format!("{ADDON}-addon-lease.agent.stolostron.io");
    let leases: &Resource = &shared::resource::LEASES;
    let lease = scene.managed.get(&leases.object(&scene.namespace, &name)).expect("its Lease");
    assert!(lease["spec"]["holderIdentity"].is_string(), "{lease}");
    let config_maps = resource("", "configmaps", "ConfigMap");
    let target: Target<'_> = config_maps.object(&scene.namespace, &name);
    assert!(scene.managed.get(&target).is_none());
}
