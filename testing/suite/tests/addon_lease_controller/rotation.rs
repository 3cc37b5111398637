//! Rotation of credentials: the same process, the same pod, no lost period.

use std::fs;

use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::{
    eventually,
    identity::certificate,
    needs::{Need, needs},
    pause,
    scene::Scene,
};

use crate::support::{BLIND, failures, renews, start_with_file};

#[test]
fn twenty_rotations_cost_no_renewal_and_no_restart() {
    let scene = Scene::new("rotation");
    let (pod, mut sidecar) = (scene.pod_uid(), scene.start(&[]));
    scene.wait_for_renewals(1);
    for round in 1..=20 {
        scene.put_secret(&scene.new_credentials());
        sidecar.wait_for_times("credentials rotated server=\"the hub\"", round);
        pause(250);
    }
    renews(&sidecar, "hub", 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
    // A line for each that was loaded, and no complaint.
    assert_eq!((sidecar.count("credentials"), sidecar.warnings("")), (21, 0), "{}", sidecar.log());
    assert!(sidecar.alive());
    assert_eq!(scene.pod_uid(), pod);
    let expires = "sidecar_certificate_expiration_timestamp_seconds{target=\"hub\"}";
    assert!(sidecar.metric(expires).is_some_and(|time| time > 1e9));
}

/// A watch that is silent tells it nothing: the refusal itself makes it read the Secret. The end of that watch does not
/// bring the old token back.
#[test]
fn refused_token_of_the_hub_makes_it_read_the_secret() {
    if !needs(Need::Embedded, "a token cannot be revoked at will") {
        return;
    }
    let scene = Scene::new("hub-token");
    let server = scene.hub.server();
    let old = server.token(&scene.hub_user(), &[]);
    scene.put_secret(&scene.token_secret(&old));
    let silent = Rule::new(Action::WatchSilent).verb("watch").resource("secrets");
    let silent = scene.managed.faults().add(silent);
    let sidecar = scene.start(&[]);
    renews(&sidecar, "hub", 1);
    scene.put_secret(&scene.token_secret(&server.token(&scene.hub_user(), &[])));
    server.revoke(&old);
    renews(&sidecar, "hub", 2);
    for verb in ["list", "watch"] {
        scene.managed.faults().deny(verb, "secrets", &scene.namespace);
    }
    scene.managed.faults().remove(silent);
    scene.managed_relay.cut();
    sidecar.wait_for(BLIND);
    renews(&sidecar, "hub", 2);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
    assert_eq!(server.requests().iter().filter(|request| request.code == 401).count(), 1);
}

/// A kubeconfig for the hub as a file with its certificate and key next to it.
fn hub_files(scene: &Scene) -> std::path::PathBuf {
    let data = scene.new_credentials();
    for name in ["tls.crt", "tls.key"] {
        let text = String::from_utf8(data[name].clone()).expect("PEM");
        scene.write(name, &text);
    }
    let user = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
    scene.write("hub.kubeconfig", &scene.hub_kubeconfig(&user))
}

#[test]
fn hub_kubeconfig_file_may_come_later() {
    let scene = Scene::new("filelater");
    let file = scene.directory.path().join("hub.kubeconfig");
    let sidecar = start_with_file(&scene, &file);
    sidecar.wait_for("no valid credentials yet");
    hub_files(&scene);
    eventually("the Lease is there", || scene.lease().is_some());
}

#[test]
fn half_of_a_new_pair_of_files_is_not_taken() {
    if !needs(Need::Embedded, "a 401 cannot be had at will") {
        return;
    }
    let scene = Scene::new("half-files");
    let server = scene.hub.server();
    let sidecar = start_with_file(&scene, &hub_files(&scene));
    renews(&sidecar, "hub", 1);
    let refuse_once = || {
        let action = Action::Answer { code: 401, body: None, retry_after: None };
        server.faults().add(Rule::new(action).verb("update").resource("leases").times(1))
    };
    let (certificate, key) = certificate(&scene.hub, "new", "new");
    scene.write("tls.crt", &certificate);
    let rule = refuse_once();
    eventually("a renewal is refused", || server.faults().hits(rule) == 1);
    // The old pair, in memory, stays in use.
    renews(&sidecar, "hub", 2);
    scene.write("tls.key", &key);
    refuse_once();
    let user = || {
        let requests = server.requests();
        requests.iter().rfind(|one| one.verb == "update").map(|one| one.user.clone())
    };
    eventually("the new pair is used", || user().is_some_and(|user| user == "new"));
    renews(&sidecar, "hub", 1);
}

#[test]
fn hub_kubeconfig_file_needs_no_managed_cluster() {
    let scene = Scene::new("filealone");
    let file = hub_files(&scene);
    let mut command = suite::sidecar::bare(&suite::sidecar::program("addon-lease-controller"));
    command
        .args(["-lease-name=my-addon", "-lease-namespace", &scene.cluster, "-lease-duration=1"])
        .args(["-startup-delay=0", "-metrics-port=0", "-hub-kubeconfig"])
        .arg(file);
    let mut sidecar = suite::sidecar::Sidecar::spawn(command, 0);
    scene.wait_for_renewals(2);
    assert_eq!(sidecar.terminate().0, Some(0), "{}", sidecar.log());
}

#[test]
fn refused_credentials_leave_no_thread_or_descriptor() {
    let scene = Scene::new("refused-credentials");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let entries =
        |of: &str| fs::read_dir(format!("/proc/{}/{of}", sidecar.pid())).map_or(0, Iterator::count);
    let open = || (entries("task"), entries("fd"));
    let before = open();
    let good = scene.new_credentials();
    for round in 0..20 {
        let mut broken = good.clone();
        broken.insert("tls.crt".into(), format!("broken {round}").into_bytes());
        scene.put_secret(&broken);
    }
    sidecar.wait_for("keeping the current credentials");
    scene.put_secret(&good);
    sidecar.wait_for("credentials rotated");
    scene.wait_for_renewals(1);
    eventually("no more threads than before, and no more descriptors", || {
        let (threads, descriptors) = open();
        threads <= before.0 && descriptors <= before.1
    });
}
