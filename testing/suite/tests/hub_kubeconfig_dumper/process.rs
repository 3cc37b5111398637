//! The process: `-once` and its exit codes, signals, requests and rights.

use suite::{
    dumper::{SECRET, Stage},
    eventually,
    needs::{Need, needs},
    relay::Way,
    sidecar::Sidecar,
    stays,
};

/// Runs it with `-once`: the exit code, and `sentence` at the end of the log.
#[track_caller]
fn once_ends(stage: &Stage, more: &[&str], code: i32, sentence: &str) {
    let (ended, log) = stage.once(more);
    assert_eq!(ended, Some(code), "{log}");
    assert!(log.lines().last().is_some_and(|line| line.contains(sentence)), "{log}");
}

#[test]
fn once_ends_with_0_when_the_files_are_there_and_3_without_a_secret() {
    let (stage, data) = Stage::with_secret("once-absent");
    for again in [false, true] {
        let (code, log) = stage.once(&[]);
        assert_eq!(code, Some(0), "again: {again}: {log}");
        stage.shows(&data);
    }
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
fn steady_state_asks_for_nothing() {
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
    let before = eventually("the second version is read", || {
        Some(requests()).filter(|requests| requests.len() >= 4)
    });
    for (verb, resource, query) in &before {
        assert!(["get", "list", "watch"].contains(&&**verb) && resource == "secrets", "{before:?}");
        let one = query.contains(&format!("metadata.name%3D{SECRET}"));
        assert!(verb == "get" || one, "{before:?}");
    }
    assert_eq!(before.len(), 4, "list, watch, and a read for each version: {before:?}");
    stays("nothing more is asked", || requests() == before);
}
