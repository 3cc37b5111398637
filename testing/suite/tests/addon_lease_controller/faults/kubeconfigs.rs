//! Broken kubeconfigs in the Secret (F19): the process goes on, names the problem, keeps the valid credentials
//! and takes the repaired ones.

use serde_json::{Value, json};
use suite::{
    identity::{Data, kubeconfig},
    scene::Scene,
};

use crate::support::{failures, running, wait_for_renewal};

/// The data of a Secret and a part of the sentence about it.
type Case = (Data, &'static str);

fn data(text: impl Into<Vec<u8>>) -> Data {
    [("kubeconfig".to_owned(), text.into())].into()
}

/// A sound kubeconfig with one place changed.
fn changed(scene: &Scene, place: &str, value: Value) -> Data {
    let address = scene.hub_relay.address.to_string();
    let mut config = kubeconfig(&address, &scene.hub.ca, &json!({"token": "hunter2"}));
    *config.pointer_mut(place).expect("the place is there") = value;
    data(config.to_string())
}

/// Not a kubeconfig at all.
fn texts() -> Vec<Case> {
    let bomb: String =
        (1..30).map(|n| format!("a{n}: &a{n} [*a{0},*a{0},*a{0}]\n", n - 1)).collect();
    vec![
        (Data::new(), "has no key \"kubeconfig\""),
        (data(""), "has no configuration"),
        (data("{"), "is not YAML"),
        (data("apiVersion: [\n"), "is not YAML"),
        (data([0xff, 0xfe, 0x00]), "is not UTF-8"),
        (data("apiVersion: v1\0"), "NUL"),
        (data(format!("a0: &a0 x\n{bomb}")), "needs more than 3072 KiB of memory"),
        (data(format!("# {}\n", "x".repeat(1_000_000))), "has no configuration"),
        (data("- a\n- b\n"), ""),
    ]
}

/// A user with one thing wrong.
fn users(scene: &Scene) -> Vec<Case> {
    [
        (json!({"exec": {"command": "aws", "apiVersion": "v1"}}), "\"aws\" (exec)"),
        (json!({"auth-provider": {"name": "gcp"}}), "\"gcp\" (auth-provider)"),
        (json!({"tokenFile": "token"}), "no such key"),
        (json!({"client-certificate": "/etc/tls.crt", "client-key": "tls.key"}), "no such key"),
        (json!({"client-certificate-data": "eA==", "client-key-data": "eA=="}), "no certificate"),
        (json!({"token": "hunter2", "username": "x"}), "both a token and"),
        (json!({"token": "hunter\n2"}), "characters that no header can"),
    ]
    .map(|(user, part)| (changed(scene, "/users/0/user", user), part))
    .into()
}

/// A context or cluster with one thing wrong.
fn clusters(scene: &Scene) -> Vec<Case> {
    let authority = "/clusters/0/cluster/certificate-authority-data";
    [
        ("/current-context", "other", "has no context \"other\""),
        ("/contexts/0/context/cluster", "other", "has no configuration"),
        ("/clusters/0/cluster/server", "ftp://x", "not an http or https URL"),
        ("/clusters/0/cluster/server", "", "has no server"),
        (authority, "%", "is not base64"),
    ]
    .map(|(place, value, part)| (changed(scene, place, json!(value)), part))
    .into()
}

fn cases(scene: &Scene) -> Vec<Case> {
    [texts(), users(scene), clusters(scene)].into_iter().flatten().collect()
}

#[test]
fn f19_every_broken_kubeconfig_is_named_and_the_process_goes_on() {
    let scene = Scene::new("broken");
    let good = scene.new_credentials();
    scene.put_secret(&data("{"));
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("no valid credentials yet");
    for (data, part) in cases(&scene) {
        let before = sidecar.count(part);
        scene.put_secret(&data);
        sidecar.wait_for_times(part, before + 1);
        assert!(sidecar.alive());
    }
    assert!(!sidecar.log().contains("hunter"), "no credential in the log: {}", sidecar.log());
    scene.put_secret(&good);
    sidecar.wait_for("lease renewal started");
}

#[test]
fn f19_a_broken_kubeconfig_leaves_the_one_in_use_alone() {
    let (scene, sidecar) = running("in-use");
    let cases = cases(&scene);
    for (round, (data, _)) in cases.iter().enumerate() {
        scene.put_secret(data);
        sidecar.wait_for_times("keeping the current", round + 1);
    }
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
    let metric = "certwatcher_read_certificate_errors_total{target=\"hub\"}";
    assert_eq!(sidecar.metric(metric), Some(cases.len() as f64));
}

#[test]
fn f19_what_is_merely_unusual_is_taken() {
    let (scene, sidecar) = running("unusual");
    let plain = scene.new_credentials();
    let text = String::from_utf8(plain["kubeconfig"].clone()).expect("text");
    let yaml =
        serde_yaml::from_str::<serde_yaml::Value>(&text).and_then(|v| serde_yaml::to_string(&v));
    let yaml = yaml.expect("YAML");
    let variants = [
        format!("\u{feff}{text}"),
        yaml.replace('\n', "\r\n"),
        yaml.replace("tls.crt", "/spoke/hub-kubeconfig/tls.crt"),
        format!("{yaml}unknown: 1\n"),
    ];
    for (round, text) in variants.into_iter().enumerate() {
        let mut secret = scene.new_credentials();
        secret.insert("kubeconfig".into(), text.into_bytes());
        scene.put_secret(&secret);
        sidecar.wait_for_times("credentials rotated", round + 1);
    }
    wait_for_renewal(&scene);
    assert_eq!(
        (failures(&sidecar, "hub"), sidecar.count("keeping the current")),
        (0.0, 0),
        "{}",
        sidecar.log()
    );
}

#[test]
fn f19_a_missing_user_is_anonymous_and_the_servers_answer_is_logged() {
    let (scene, sidecar) = running("nobody");
    scene.put_secret(&changed(&scene, "/contexts/0/context/user", json!("other")));
    sidecar.wait_for(": 401: ");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("is renewed again");
}
