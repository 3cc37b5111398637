//! The process: `-once` and its exit codes, signals, requests and rights.

use std::time::Duration;

use serde_json::json;
use suite::{
    dumper::{SECRET, Stage, manifest},
    needs::{Need, needs},
    pause,
    relay::Way,
    sidecar::{Sidecar, bare, program},
    stays,
};

#[test]
fn once_ends_with_0_when_the_files_are_there() {
    let (stage, data) = Stage::with_secret("once");
    let (code, log) = stage.once(&[]);
    assert_eq!(code, Some(0), "{log}");
    stage.shows(&data);
    assert_eq!(stage.once(&[]).0, Some(0), "also when there is nothing to do");
}

/// Runs it with `-once`: the exit code, and `sentence` at the end of the log.
#[track_caller]
fn once_ends(stage: &Stage, more: &[&str], code: i32, sentence: &str) {
    let (ended, log) = stage.once(more);
    assert_eq!(ended, Some(code), "{log}");
    assert!(log.lines().last().is_some_and(|line| line.contains(sentence)), "{log}");
}

#[test]
fn once_ends_with_3_when_there_is_no_secret() {
    let (stage, data) = Stage::with_secret("once-absent");
    assert_eq!(stage.once(&[]).0, Some(0));
    stage.delete_secret();
    once_ends(&stage, &[], 3, "it does not exist");
    once_ends(&stage, &["-wait-timeout", "1"], 3, "it does not exist");
    stage.shows(&data);
}

#[test]
fn once_ends_with_1_and_the_reason() {
    let stage = Stage::new("once-refused");
    let reason = |more: &[&str], sentence: &str| once_ends(&stage, more, 1, sentence);
    // Without the right to it nobody says whether there is such a Secret; the embedded server asks for none.
    let faults = stage.cluster.embedded.as_ref().map(|server| server.faults());
    let denied = faults.map(|faults| faults.deny("get", "secrets", &stage.namespace));
    reason(&["-hub-kubeconfig-secret", "another"], "another");
    if let (Some(faults), Some(denied)) = (faults, denied) {
        faults.remove(denied);
    }
    let mut data = stage.credentials();
    data.insert("tls.key".into(), stage.credentials()["tls.key"].clone());
    stage.put_secret(&data);
    reason(&[], "do not belong together");
    data.remove("kubeconfig");
    data.remove("tls.key");
    stage.put_secret(&data);
    reason(&[], "it has no kubeconfig");
    stage.put_secret(&stage.credentials());
    reason(&["-hub-kubeconfig-dir", "/proc/nowhere"], "directory /proc/nowhere cannot be used");
    stage.relay.set(Way::Closed);
    reason(&[], "get secrets");
}

#[test]
fn once_waits_for_a_secret_that_can_be_used() {
    let stage = Stage::new("once-waits");
    let mut command = stage.command(0);
    command.args(["-once", "-wait-timeout", "60"]);
    let mut sidecar = Sidecar::spawn(command, 0);
    sidecar.wait_for("it does not exist");
    let mut data = stage.credentials();
    let key = data.insert("tls.key".into(), b"junk".to_vec()).expect("a key");
    stage.put_secret(&data);
    sidecar.wait_for("holds no private key");
    data.insert("tls.key".into(), key);
    stage.put_secret(&data);
    assert_eq!(sidecar.wait().code(), Some(0), "{}", sidecar.log());
    stage.shows(&data);
}

#[test]
fn once_waits_for_a_server_that_is_away() {
    let (stage, data) = Stage::with_secret("once-away");
    stage.relay.set(Way::Closed);
    let mut command = stage.command(0);
    command.args(["-once", "-wait-timeout", "60"]);
    let mut sidecar = Sidecar::spawn(command, 0);
    sidecar.wait_for("get secrets");
    stage.relay.set(Way::Open);
    assert_eq!(sidecar.wait().code(), Some(0), "{}", sidecar.log());
    stage.shows(&data);
}

#[test]
fn i10_sigterm_ends_it_at_once_and_only_a_finished_once_is_a_success() {
    let stage = Stage::new("sigterm");
    let mut command = stage.command(0);
    command.args(["-once", "-wait-timeout", "3600"]);
    let mut once = Sidecar::spawn(command, 0);
    once.wait_for("it does not exist");
    let (code, time) = once.terminate();
    assert!(code == Some(1) && time < Duration::from_secs(1), "{code:?} after {time:?}");
    stage.put_secret(&stage.credentials());
    let mut sidecar = stage.start_ready(&[]);
    sidecar.ends_at_once();
    // Also while a request hangs.
    stage.relay.set(Way::Silent);
    let mut sidecar = stage.start(&[]);
    sidecar.wait_for_code("/healthz", 200);
    let (code, time) = sidecar.terminate();
    assert!(code == Some(0) && time < Duration::from_secs(2), "{code:?} after {time:?}");
}

#[test]
fn flags_that_cannot_be_used_end_it_with_2() {
    let mut command = bare(&program("hub-kubeconfig-dumper"));
    command.args(["-namespace", "x", "-file-mode", "7"]);
    let mut sidecar = Sidecar::spawn(command, 0);
    assert_eq!(sidecar.wait().code(), Some(2), "{}", sidecar.log());
    assert!(sidecar.log().starts_with("-file-mode is octal"), "{}", sidecar.log());
}

#[test]
fn nothing_is_asked_for_but_the_one_secret_and_then_there_is_peace() {
    if !needs(Need::Embedded, "its log shows the requests") {
        return;
    }
    let (stage, _) = Stage::with_secret("requests");
    let server = stage.cluster.server();
    let sidecar = stage.start_ready(&[]);
    stage.put_secret(&stage.credentials());
    sidecar.wait_for_times("wrote the files", 2);
    let requests = || {
        let account = format!("system:serviceaccount:{}:my-agent", stage.namespace);
        let ours = server.requests().into_iter().filter(|request| request.user == account);
        ours.map(|request| (request.verb, request.resource, request.query)).collect::<Vec<_>>()
    };
    pause(300);
    let before = requests();
    for (verb, resource, query) in &before {
        assert!(["get", "list", "watch"].contains(&&**verb) && resource == "secrets", "{before:?}");
        let one = query.contains(&format!("metadata.name%3D{SECRET}"));
        assert!(verb == "get" || one, "{before:?}");
    }
    assert_eq!(before.len(), 4, "list, watch, and a read for each version: {before:?}");
    stays("nothing more is asked", || requests() == before);
}

#[test]
fn the_manifests_grant_the_one_secret_and_nothing_else() {
    let rules = json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET],
        "verbs": ["get", "list", "watch"],
    }]);
    assert_eq!(manifest("role")["rules"], rules);
    assert_eq!(manifest("rolebinding")["roleRef"]["kind"], "Role");
}

#[test]
fn without_the_right_to_watch_it_reads_and_without_the_right_to_read_it_says_so() {
    if !needs(Need::Embedded, "it takes rights away") {
        return;
    }
    let (stage, data) = Stage::with_secret("revoked");
    let server = stage.cluster.server();
    let watch = server.faults().deny("list", "secrets", &stage.namespace);
    let _ready = stage.start_ready(&[]);
    stage.shows(&data);
    server.faults().remove(watch);
    server.faults().deny("get", "secrets", &stage.namespace);
    let sidecar = stage.start(&[]);
    sidecar.wait_for("get secrets");
    assert_eq!(sidecar.ask("/readyz").0, 503);
    stage.shows(&data);
}
