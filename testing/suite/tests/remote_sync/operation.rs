//! Other modes of operation: a dry run, one pass, cleanup, the rights it needs.

use std::process::Stdio;

use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    sidecar::{bare, program},
    sync::{BUDGETS, FINALIZER, Setting, Stage, WIDGETS, words},
};

use crate::support::{is_in_sync, one};

// --- dry run ---

#[test]
fn a_dry_run_writes_nothing_and_says_what_it_would() {
    for compat in [true, false] {
        let stage = Stage::pull("dry", Setting { compat, ..Setting::safe(&[&WIDGETS]) });
        let source = stage.source(&WIDGETS, "one");
        source.create_number(1);
        let gone = stage.source(&WIDGETS, "gone");
        gone.create(
            &serde_json::json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"size": 1}}),
        );
        gone.delete();
        let sidecar = stage.start(&["-dry-run"]);
        eventually("it says what it would do", || {
            let log = sidecar.log();
            (log.contains("one-remote-rs") && log.contains("gone-remote-rs")).then_some(())
        });
        pause(1500);
        assert_eq!(words(&stage.writes()), [""; 0], "compat: {compat}");
        assert!(sidecar.log().lines().count() < 60, "no loop: {}", sidecar.log());
        source.set_number(2);
        stage.stays_quiet();
    }
}

// --- once ---

#[test]
fn once_ends_with_0_when_all_is_in_sync() {
    let stage = Stage::pull("once", Setting::safe(&[&WIDGETS, &BUDGETS]));
    let names = ["a", "b", "c"];
    for name in names {
        stage.source(&WIDGETS, name).create_number(1);
    }
    stage.source(&BUDGETS, "a").create_number(1);
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    for name in names {
        is_in_sync(&stage.source(&WIDGETS, name), &stage.target(&WIDGETS, name));
    }
    is_in_sync(&stage.source(&BUDGETS, "a"), &stage.target(&BUDGETS, "a"));
    let before = stage.settled();
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(words(&stage.writes()[before..]), [""; 0]);
    // Deletions are part of it.
    stage.source(&WIDGETS, "b").delete();
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(stage.source(&WIDGETS, "b").get().is_none());
    assert!(stage.target(&WIDGETS, "b").get().is_none());
}

#[test]
fn once_ends_with_1_when_something_is_left_to_do() {
    let stage = Stage::pull("once-away", Setting::safe(&[&WIDGETS]));
    stage.source(&WIDGETS, "one").create_number(1);
    stage.remote().relay.set(Way::Closed);
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(1), "{log}");
    let (code, log) = stage.run(&["-once", "-wait-timeout", "2"]);
    assert_eq!(code, Some(1), "{log}");
    assert_eq!(words(&stage.writes()), [""; 0]);
    stage.remote().relay.set(Way::Open);
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn once_and_cleanup_end_with_1_when_something_is_too_large_to_be_read() {
    if !needs(Need::Embedded, "what is that large is put there directly") {
        return;
    }
    let stage = Stage::pull("once-large", Setting::safe(&[&WIDGETS]));
    let source = stage.source(&WIDGETS, "large");
    stage.remote().cluster.server().put(json!({
        "apiVersion": WIDGETS.resource.api_version(), "kind": "Widget",
        "metadata": {"name": source.name, "namespace": source.namespace},
        "spec": {"x": vec![json!({"": 0}); 20_000]},
    }));
    for task in ["-once", "-cleanup"] {
        let (code, log) = stage.run(&[task]);
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains("needs more than 2048 KiB of memory"), "{log}");
    }
}

#[test]
fn once_waits_as_long_as_it_is_told() {
    let stage = Stage::pull("once-wait", Setting::safe(&[&WIDGETS]));
    stage.source(&WIDGETS, "one").create_number(1);
    stage.remote().relay.set(Way::Closed);
    let mut sidecar = stage.start(&["-once", "-wait-timeout", "30"]);
    pause(1500);
    assert!(sidecar.alive(), "{}", sidecar.log());
    stage.remote().relay.set(Way::Open);
    assert_eq!(sidecar.wait().code(), Some(0), "{}", sidecar.log());
    is_in_sync(&stage.source(&WIDGETS, "one"), &stage.target(&WIDGETS, "one"));
}

// --- cleanup ---

/// The annotations of an object that are the program's.
fn traces(object: &Value) -> Vec<String> {
    let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
    all.map(|(key, _)| key.clone()).filter(|key| key.starts_with("cloud.teleport.dev/")).collect()
}

#[test]
fn cleanup_leaves_the_objects_and_nothing_of_its_own() {
    for compat in [true, false] {
        let setting = Setting { compat, ..Setting::safe(&[&WIDGETS]) };
        let stage = Stage::pull("cleanup", setting);
        let (source, target) = stage.pair(&WIDGETS, "one");
        source.create(&serde_json::json!({
            "metadata": {"finalizers": ["example.com/other"], "annotations": {"note": "x"}},
            "spec": {"size": 1},
        }));
        let mut sidecar = stage.start(&[]);
        is_in_sync(&source, &target);
        assert_eq!(sidecar.terminate().0, Some(0));
        let uids = [source.uid(), target.uid()];
        let (code, log) = stage.run(&["-cleanup"]);
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(source.finalizers(), ["example.com/other"]);
        assert_eq!((traces(&source.read()), traces(&target.read())), (vec![], vec![]), "{log}");
        assert_eq!(source.annotation("note").as_deref(), Some("x"));
        assert_eq!([source.uid(), target.uid()], uids);
        assert_eq!(target.number(), Some(1));
        // Again there is nothing to do.
        let before = stage.settled();
        assert_eq!(stage.run(&["-cleanup"]).0, Some(0));
        assert_eq!(words(&stage.writes()[before..]), [""; 0]);
    }
}

#[test]
fn cleanup_fails_when_a_cluster_cannot_be_reached() {
    let (stage, mut sidecar, source, target) = one("cleanup-away", &WIDGETS, &[]);
    sidecar.kill();
    stage.remote().relay.set(Way::Closed);
    let (code, log) = stage.run(&["-cleanup"]);
    assert!(code.is_some_and(|code| code != 0), "{code:?} {log}");
    stage.remote().relay.set(Way::Open);
    assert!(source.is_claimed());
    assert_eq!(stage.run(&["-cleanup"]).0, Some(0));
    assert!(!source.is_claimed() && target.get().is_some());
}

/// What waits for the finalizer goes with it.
#[test]
fn cleanup_frees_what_is_being_deleted() {
    let (stage, mut sidecar, source, target) = one("cleanup-going", &WIDGETS, &[]);
    sidecar.kill();
    source.delete();
    let (code, log) = stage.run(&["-cleanup"]);
    assert_eq!(code, Some(0), "{log}");
    source.wait_until_gone();
    assert!(target.get().is_some());
}

// --- rights ---

/// The roles that these flags print.
fn printed(arguments: &[&str]) -> Vec<Value> {
    let mut command = bare(&program("remote-sync"));
    command.args(arguments).arg("-print-rbac").stdout(Stdio::piped());
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.split("\n---\n").map(|text| serde_yaml::from_str(text).expect("YAML")).collect()
}

#[test]
fn the_rights_are_printed_without_asking_anybody() {
    let roles = printed(&["-resource", "widgets.sync.example.com", "-local-secret-name", "token"]);
    let kinds: Vec<_> =
        roles.iter().map(|role| role["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["ClusterRole", "ClusterRole"]);
    let all = serde_json::to_string(&roles).expect("JSON");
    assert!(!all.contains('*'), "{all}");
    for role in &roles {
        let secrets = role["rules"].as_array().expect("rules").iter().filter(|rule| {
            rule["resources"].as_array().is_some_and(|all| all.contains(&"secrets".into()))
        });
        for rule in secrets {
            assert_eq!(rule["resourceNames"].as_array().map(Vec::len), Some(1), "{rule}");
        }
    }
}

/// What is not granted is not asked for, by all that one pair needs in its life.
#[test]
fn nothing_is_asked_for_that_is_not_printed() {
    if !needs(Need::Embedded, "the log has all requests") {
        return;
    }
    let stage = Stage::pull("rights", Setting::safe(&[&WIDGETS]).secrets(&["token"]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    stage.source_secret("token").create(&serde_json::json!({"type": "Opaque"}));
    let _sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    target.set_health(3);
    stage.create_target_secret("token", "data1", Some(&target));
    stage.source_secret("token").wait_for_annotation(suite::sync::HASH, crate::upstream::HASHES[0]);
    source.set_number(2);
    target.wait_for_number(2);
    source.delete();
    source.wait_until_gone();
    let roles = printed(&[
        "-resource=widgets.sync.example.com",
        "-local-secret-name=token",
        "-remote-resource-suffix=-remote-rs",
    ]);
    for (side, role) in [(stage.remote(), &roles[0]), (&stage.own, &roles[1])] {
        let user = side.user();
        for request in side.cluster.server().requests().iter().filter(|it| it.user == user) {
            let (verb, resource) = (request.verb.as_str(), &request.resource);
            let sub = &request.subresource;
            let wanted =
                if sub.is_empty() { resource.clone() } else { format!("{resource}/{sub}") };
            let granted = role["rules"].as_array().expect("rules").iter().any(|rule| {
                let has = |field: &str, word: &str| {
                    rule[field].as_array().is_some_and(|all| all.iter().any(|it| it == word))
                };
                has("verbs", verb) && has("resources", &wanted)
            });
            // Discovery and /version are everybody's.
            assert!(granted || resource.is_empty(), "{verb} {wanted} at {}", request.path);
        }
    }
}
