//! Secrets that are copied to the source's cluster: which ones, when, and how often.

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::Action;
use serde_json::{Value, json};
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    sidecar::Sidecar,
    stays,
    sync::{HASH, Place, Setting, Stage, WIDGETS, words},
};

use crate::{
    support::{is_in_sync, of_program},
    upstream::HASHES,
};

/// A widget in sync whose Secrets `token` and `extra` may go up.
fn stage(name: &str, compat: bool) -> (Stage, Sidecar, Place, Place) {
    let setting = Setting { compat, ..Setting::safe(&[&WIDGETS]) };
    let stage = Stage::pull(name, setting.secrets(&["token", "extra"]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    for name in ["token", "extra"] {
        stage.source_secret(name).create(&json!({"type": "Opaque"}));
    }
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    stage.settled();
    (stage, sidecar, source, target)
}

fn value(secret: &Value) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(secret["data"]["data"].as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

#[track_caller]
fn wait_for_value(place: &Place, expected: &str) -> Value {
    place.wait(&format!("value {expected}"), |secret| value(secret).as_deref() == Some(expected))
}

const PUT: &str = "hub update secrets token-remote-rs";
const NOTE: &str = "local patch secrets token";

#[test]
fn gap03_a_changed_secret_goes_up_by_itself() {
    for compat in [true, false] {
        let (stage, _sidecar, _, target) = stage("gap03", compat);
        let before = stage.settled();
        stage.create_target_secret("token", "data1", Some(&target));
        let uploaded = wait_for_value(&stage.source_secret("token"), "data1");
        assert_eq!(uploaded["metadata"]["annotations"], json!({HASH: HASHES[0]}));
        stage.target_secret("token").wait_for_annotation(HASH, HASHES[0]);
        stage.wrote_only_after(before, &[PUT, NOTE]);
        let before = stage.settled();
        let data = json!({"data": {"data": BASE64_STANDARD.encode("data2")}});
        stage.target_secret("token").merge(&data);
        wait_for_value(&stage.source_secret("token"), "data2");
        stage.wrote_only_after(before, &[PUT, NOTE]);
        stage.target_secret("token").wait_for_annotation(HASH, HASHES[1]);
    }
}

#[test]
fn gap04_a_secret_that_cannot_go_up_holds_up_nothing_else() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    for (compat, refusal) in [(true, 403), (false, 404), (false, 403)] {
        let (stage, sidecar, source, target) = stage("gap04", compat);
        let hub = stage.remote().cluster.faults();
        let refused = of_program(stage.remote(), code(refusal)).verb("update").resource("secrets");
        let rule = hub.add(refused.name("token-remote-rs"));
        stage.create_target_secret("token", "data1", Some(&target));
        stage.create_target_secret("extra", "data2", Some(&target));
        wait_for_value(&stage.source_secret("extra"), "data2");
        source.set_number(2);
        target.wait_for_number(2);
        is_in_sync(&source, &target);
        // Each Secret has a watch of its own, of which either may be the first.
        eventually("it is refused", || (hub.hits(rule) > 0).then_some(()));
        assert!(hub.hits(rule) < 30, "{} tries", hub.hits(rule));
        eventually("the log names it", || sidecar.log().contains("token-remote-rs").then_some(()));
        hub.remove(rule);
        // What was refused for good is tried again when the object changes.
        source.set_number(3);
        wait_for_value(&stage.source_secret("token"), "data1");
    }
}

#[test]
fn gap05_a_secret_of_another_object_of_that_name_stays() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = stage("gap05", compat);
        let uid = target.uid();
        let stranger = json!([{
            "apiVersion": "sync.example.com/v1", "kind": "Widget", "name": "one",
            "uid": "0d6ff0b4-3b39-4b5b-9f5c-000000000000", "controller": true,
        }]);
        let value = json!({"data": BASE64_STANDARD.encode("data1")});
        // The garbage collector takes what names an owner that is not there; not while it is held.
        stage.target_secret("token").create(&json!({
            "metadata": {"ownerReferences": stranger, "finalizers": ["example.com/other"]},
            "data": value,
        }));
        // Owned, but not controlled.
        let mut owner = stranger;
        owner[0]["uid"] = uid;
        owner[0]["controller"] = json!(false);
        stage
            .target_secret("extra")
            .create(&json!({"metadata": {"ownerReferences": owner}, "data": value}));
        let before = stage.settled();
        source.set_number(2);
        target.wait_for_number(2);
        is_in_sync(&source, &target);
        stage.settled();
        let writes = stage.writes();
        let uploads = writes[before..].iter().filter(|it| it.words.contains("secrets")).count();
        assert_eq!(uploads, 0, "{:?}", words(&writes[before..]));
        stage.target_secret("token").set_finalizers(&[]);
    }
}

/// Upstream uploads nothing new while the hash on its own side is the same.
#[test]
fn a_secret_of_a_new_remote_object_goes_up_again_in_safe_mode() {
    if !needs(Need::Embedded, "an object that is claimed can go unseen") {
        return;
    }
    let (stage, _sidecar, source, target) = stage("again", false);
    stage.create_target_secret("token", "data1", Some(&target));
    let uploaded = stage.source_secret("token");
    wait_for_value(&uploaded, "data1");
    stage.settled();
    source.delete_by_force();
    source.create_number(1);
    uploaded.delete();
    uploaded.wait_until_gone();
    uploaded.create(&json!({"type": "Opaque"}));
    // Nothing of it can come while the object that the Secret belongs to is another one.
    source.set_number(2);
    target.wait_for_number(2);
    let owner = source.uid();
    let copy = wait_for_value(&uploaded, "data1");
    assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], owner);
}

/// PUT is done and its hash is not noted: it is done again, and nothing more.
#[test]
fn a_secret_whose_note_failed_goes_up_once_more() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, _sidecar, _, target) = stage("note", false);
    let busy = of_program(&stage.own, code(503)).verb("patch").resource("secrets").times(1);
    stage.own.cluster.faults().add(busy);
    let before = stage.settled();
    stage.create_target_secret("token", "data1", Some(&target));
    stage.target_secret("token").wait_for_annotation(HASH, HASHES[0]);
    stage.settled();
    let writes = stage.writes();
    let seen = words(&writes[before..]);
    assert_eq!(seen.iter().filter(|words| **words == NOTE).count(), 2, "{seen:?}");
    assert!(seen.iter().filter(|words| **words == PUT).count() <= 2, "{seen:?}");
}

#[test]
fn nothing_goes_up_while_the_status_does_not() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, _sidecar, source, target) = stage("order", false);
    let busy = Action::Answer { code: 503, body: None, retry_after: None };
    let status = of_program(stage.remote(), busy).verb("patch").subresource("status");
    let rule = stage.remote().cluster.faults().add(status);
    target.set_health(3);
    let hub = stage.remote().cluster.faults();
    eventually("the status is refused", || (hub.hits(rule) > 0).then_some(()));
    stage.create_target_secret("token", "data1", Some(&target));
    source.set_number(2);
    stays("nothing is copied", || {
        (value(&stage.source_secret("token").read()), target.number()) == (None, Some(1))
    });
    stage.remote().cluster.faults().remove(rule);
    wait_for_value(&stage.source_secret("token"), "data1");
    source.wait_for_health(3);
    target.wait_for_number(2);
}
