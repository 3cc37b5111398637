//! Rotation of credentials: the same process, the same pod, no lost period.

use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    scene::Scene,
};

use crate::support::{BLIND, failures, renews, start_with_file};

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

/// It is mounted from a Secret: whoever writes that must not read the pod's other files.
#[test]
fn hub_kubeconfig_file_may_come_later_and_names_only_neighbours() {
    let scene = Scene::new("filelater");
    let file = scene.directory.path().join("hub.kubeconfig");
    let sidecar = start_with_file(&scene, &file);
    sidecar.wait_for("no valid credentials yet");
    hub_files(&scene);
    eventually("the Lease is there", || scene.lease().is_some());
    scene.write("hub.kubeconfig", &scene.hub_kubeconfig(&json!({"tokenFile": "../token"})));
    let other = start_with_file(&scene, &file);
    other.wait_for("is not in the directory of the kubeconfig");
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
