//! Secrets that no log line holds at any level, and that are not written to files.

use std::collections::BTreeSet;

use serde_json::json;
use suite::{
    identity::Data,
    outputs::run,
    relay::Way,
    scene::Scene,
    sidecar::{bare, program},
};

use crate::support::renews;

/// Pieces of all that must not be seen, long enough to mean something.
fn pieces(data: &Data) -> BTreeSet<String> {
    let texts = data.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    texts
        .flat_map(|text| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && !"+/=._-".contains(c))
                .filter(|word| word.len() >= 40)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn credentials_never_reach_the_log() {
    let scene = Scene::new("secrecy");
    scene.create_hub_account();
    let (first, second) = (scene.new_credentials(), scene.token_secret(&scene.hub_token()));
    let mut broken = scene.new_credentials();
    broken.insert("tls.key".into(), first["tls.key"].clone());
    let mut inline = Data::new();
    let text = |key: &str| String::from_utf8(broken[key].clone()).expect("PEM");
    // PEM where base64 belongs, a password in the wrong place: what a parser might quote.
    let user = json!({"client-certificate-data": text("tls.crt"), "client-key-data": text("tls.key"),
        "password": "hunter2-hunter2-hunter2-hunter2-hunter2-hunter2"});
    inline.insert("kubeconfig".into(), scene.hub_kubeconfig(&user).into_bytes());
    let refused = scene.token_secret("worthless-worthless-worthless-worthless-worthless");
    scene.put_secret(&first);
    let mut sidecar = scene.start(&["-lease-target=both"]);
    renews(&sidecar, "hub", 1);
    let all = [&broken, &inline, &second, &refused, &first];
    for data in all {
        scene.put_secret(data);
        suite::pause(700);
    }
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("lease renewal failed");
    sidecar.terminate();
    let log = sidecar.log();
    assert!(
        log.lines().count() > 8 && log.contains("rotated") && log.contains("keeping the current"),
        "{log}"
    );
    let managed = std::fs::read(scene.directory.path().join("managed.kubeconfig")).expect("a file");
    let own: Data = [("kubeconfig".to_owned(), managed)].into();
    for piece in all.into_iter().chain([&own]).flat_map(pieces) {
        assert!(!log.contains(&piece), "{piece} in\n{log}");
    }
    assert!(
        !log.contains("BEGIN ") && !log.contains("hunter2") && !log.contains("worthless"),
        "{log}"
    );
}

#[test]
fn passwords_in_urls_are_hidden_in_the_log() {
    let mut command = bare(&program("addon-lease-controller"));
    command.args(["-lease-name=x", "-managed-lease-namespace=x", "-metrics-port=0", "-v=5"]);
    let output = run(command.args(["-master", "https://admin:hunter2@127.0.0.1:1/"]));
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("-master=https://***@127.0.0.1:1/"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn secret_keys_are_never_written_to_files() {
    let scene = Scene::new("no-files");
    let mut data = scene.new_credentials();
    data.insert("a..b".into(), b"x".to_vec());
    data.insert(".hidden".into(), b"y".to_vec());
    scene.put_secret(&data);
    let place = scene.directory.path().join("tmp");
    std::fs::create_dir(&place).expect("a directory");
    let _sidecar = scene.start_as(|command| {
        command.env("TMPDIR", &place).env("HOME", &place).current_dir(&place);
    });
    scene.wait_for_renewals(2);
    assert_eq!(std::fs::read_dir(&place).expect("the directory").count(), 0);
}
