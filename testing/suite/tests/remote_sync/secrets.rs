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
    sync::{HASH, Place, Setting, Stage, WIDGETS},
};

use crate::support::{HASHES, events, has_pairs, is_in_sync, is_ready, of_program};

/// A widget in sync whose Secrets `token` and `extra` are uploaded, of which there is none.
fn bare(name: &str, more: &[&str]) -> (Stage, Sidecar, Place, Place) {
    let setting = Setting::safe(&[&WIDGETS]).secrets(&["token", "extra"]);
    let stage = Stage::pull(name, setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    let sidecar = stage.start_served(more);
    is_in_sync(&source, &target);
    stage.settled();
    (stage, sidecar, source, target)
}

/// The same with an empty one of each at the source.
fn stage(name: &str) -> (Stage, Sidecar, Place, Place) {
    let (stage, sidecar, source, target) = bare(name, &[]);
    for name in ["token", "extra"] {
        stage.source_secret(name).create(&json!({"type": "Opaque"}));
    }
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

#[test]
fn a_refused_secret_holds_up_nothing_else() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    for refusal in [404, 403] {
        let (stage, sidecar, source, target) = stage("refused");
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
        eventually("it is refused", || hub.hits(rule) > 0);
        assert!(hub.hits(rule) < 30, "{} tries", hub.hits(rule));
        eventually("the log names it", || sidecar.log().contains("token-remote-rs"));
        hub.remove(rule);
        // What was refused for good is tried again when the object changes.
        source.set_number(3);
        wait_for_value(&stage.source_secret("token"), "data1");
    }
}

#[test]
fn secrets_that_may_not_be_listed_hold_up_nothing_else() {
    if !needs(Need::Embedded, "a list can be refused") {
        return;
    }
    let setting = Setting::safe(&[&WIDGETS]).secrets(&["token", "extra"]);
    let stage = Stage::pull("secrets-unlisted", setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    for name in ["token", "extra"] {
        stage.source_secret(name).create(&json!({"type": "Opaque"}));
    }
    let faults = stage.own.cluster.faults();
    let forbidden = of_program(&stage.own, Action::Forbid).verb("list").resource("secrets");
    let rule = faults.add(forbidden.name("extra"));
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    for name in ["token", "extra"] {
        stage.create_target_secret(name, name, Some(&target));
    }
    let uploaded = |name: &str| stage.source_secret(name).read()["data"]["data"].is_string();
    eventually("the other goes up", || uploaded("token"));
    assert!(!uploaded("extra"));
    let remarks = sidecar.ask("/readyz").1;
    assert!(remarks.contains("secrets/extra (hub): "), "{remarks}");
    assert!(!remarks.contains("secrets/token") && !remarks.contains("widgets"), "{remarks}");
    let ready = |name: &str| is_ready(&sidecar, &format!("secrets/{name}"));
    assert_eq!((ready("token"), ready("extra")), (true, false));
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("secrets/extra (hub): "), "{log}");
    faults.remove(rule);
    eventually("it goes up too", || uploaded("extra"));
    eventually("nothing is wrong", || ready("extra"));
}

// --- whose Secret it is, at the hub ---

/// Somebody else's Secret in an upload's place.
fn foreign(stage: &Stage, data: &str) -> (Place, Value) {
    let secret = stage.source_secret("token");
    let labels = json!({"labels": {"owner": "billing"}});
    let data = json!({"data": BASE64_STANDARD.encode(data)});
    secret.create(&json!({"metadata": labels, "data": data, "type": "Opaque"}));
    let object = secret.read();
    (secret, object)
}

const REFUSED: &str = "next to the source is not managed by remote-sync";

fn says_refused(sidecar: &Sidecar, name: &str) {
    eventually("the refusal is told", || {
        let state = sidecar.ask("/debug/state").1;
        state.contains(REFUSED) && state.contains(name)
    });
}

#[test]
fn foreign_secret_is_not_overwritten() {
    for adopt in ["equal", "always"] {
        let (stage, sidecar, source, target) = bare("foreign", &["-adopt", adopt]);
        let (secret, before) = foreign(&stage, "theirs");
        stage.create_target_secret("token", "data1", Some(&target));
        stage.create_target_secret("extra", "data2", Some(&target));
        // The other one and the spec go on.
        wait_for_value(&stage.source_secret("extra"), "data2");
        says_refused(&sidecar, &secret.name);
        source.set_number(2);
        target.wait_for_number(2);
        is_in_sync(&source, &target);
        stays("it is as it was", || secret.read() == before);
        let told = |event: &Value| {
            let message = event["message"].as_str().unwrap_or_default();
            message.contains(&secret.name) && !message.contains("theirs")
        };
        eventually("an Event tells", || {
            events(&source).into_iter().find(|event| event["reason"] == "SyncFailed" && told(event))
        });
        has_pairs(&sidecar, "hub", "failing", 1.0);
        // Its owner takes it away.
        secret.delete();
        source.set_number(3);
        wait_for_value(&secret, "data1");
        eventually("nothing is left to be told", || {
            !sidecar.ask("/debug/state").1.contains(REFUSED)
        });
    }
}

#[test]
fn an_equal_or_empty_secret_is_taken() {
    let (stage, _sidecar, source, target) = bare("equal", &[]);
    let (equal, empty) = (stage.source_secret("token"), stage.source_secret("extra"));
    equal.create(&json!({"data": {"data": BASE64_STANDARD.encode("data1")}, "type": "Opaque"}));
    let labels = json!({"app.kubernetes.io/part-of": "spoke"});
    let metadata = json!({"finalizers": ["example.com/hold"], "labels": labels});
    empty.create(&json!({"type": "Opaque", "metadata": metadata}));
    let uids = [equal.uid(), empty.uid()];
    stage.create_target_secret("token", "data1", Some(&target));
    stage.create_target_secret("extra", "data2", Some(&target));
    for secret in [&equal, &empty] {
        let taken = secret.wait("its owner", |it| it["metadata"]["ownerReferences"].is_array());
        assert_eq!(taken["metadata"]["ownerReferences"][0]["uid"], source.uid());
    }
    assert_eq!([equal.uid(), empty.uid()], uids);
    assert_eq!(value(&empty.read()).as_deref(), Some("data2"));
    assert_eq!(empty.finalizers(), ["example.com/hold"]);
    assert_eq!(empty.read()["metadata"]["labels"], labels);
    empty.set_finalizers(&[]);
}

/// Between the read and the write somebody is faster.
#[test]
fn a_secret_made_in_between_is_not_replaced() {
    if !needs(Need::Embedded, "an answer can be late") {
        return;
    }
    let (stage, sidecar, _, target) = bare("race", &[]);
    let hub = stage.remote().cluster.faults();
    let name = "token-remote-rs";
    let late = of_program(stage.remote(), Action::ApplyThenDelay { milliseconds: 1500 });
    let rule = hub.add(late.verb("get").resource("secrets").name(name).times(1));
    stage.create_target_secret("token", "data1", Some(&target));
    eventually("it is read", || hub.hits(rule) > 0);
    // The answer, that there is none, is under way.
    suite::pause(300);
    let (secret, before) = foreign(&stage, "theirs");
    says_refused(&sidecar, &secret.name);
    assert_eq!(secret.read(), before);
}

#[test]
fn an_upload_lost_at_the_hub_comes_again() {
    let (stage, mut sidecar, source, target) = bare("lost", &[]);
    stage.create_target_secret("token", "data1", Some(&target));
    stage.create_target_secret("extra", "data2", Some(&target));
    let (token, extra) = (stage.source_secret("token"), stage.source_secret("extra"));
    let uploaded = wait_for_value(&token, "data1");
    assert_eq!(uploaded["metadata"]["annotations"], json!({HASH: HASHES[0]}));
    wait_for_value(&extra, "data2");
    // A change goes up by itself, with one write.
    let before = stage.settled();
    let change = |value| json!({"data": {"data": BASE64_STANDARD.encode(value)}});
    stage.target_secret("token").merge(&change("data3"));
    wait_for_value(&token, "data3");
    stage.wrote_only_after(before, &["hub update secrets token-remote-rs"]);
    stage.target_secret("token").merge(&change("data1"));
    wait_for_value(&token, "data1");
    stage.settled();
    sidecar.kill();
    // One is recreated empty, the other is changed.
    token.delete();
    token.wait_until_gone();
    token.create(&json!({"type": "Opaque"}));
    extra.merge(&change("other"));
    let mut sidecar = stage.start(&["-resync", "2s"]);
    wait_for_value(&token, "data1");
    wait_for_value(&extra, "data2");
    assert_eq!(token.read()["metadata"]["ownerReferences"][0]["uid"], source.uid());
    // While it runs, each resync looks again.
    token.delete();
    wait_for_value(&token, "data1");
    stage.settled();
    sidecar.kill();
    let before = stage.settled();
    let _sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    stage.writes_no_more_than(before);
}

// --- whoever writes Secrets beside the target has nothing else written at the source ---

/// A Secret that the target controls.
fn create_controlled(stage: &Stage, target: &Place, name: &str, kind: &str, metadata: &Value) {
    let mut metadata = metadata.clone();
    metadata["ownerReferences"] = json!([{"apiVersion": WIDGETS.resource.api_version(),
        "kind": WIDGETS.resource.kind, "name": target.name, "uid": target.uid(), "controller": true}]);
    // Without a user name the server refuses the type basic-auth.
    let [data, username] = ["data1", "me"].map(|value| BASE64_STANDARD.encode(value));
    let data = json!({"data": data, "username": username});
    let secret = json!({"type": kind, "metadata": metadata, "data": data});
    stage.target_secret(name).create(&secret);
}

#[test]
fn secret_of_another_type_is_not_uploaded() {
    let (stage, sidecar, source, target) = bare("upload-type", &[]);
    create_controlled(&stage, &target, "token", "example.com/any", &json!({}));
    create_controlled(&stage, &target, "extra", "kubernetes.io/basic-auth", &json!({}));
    eventually("the other one is uploaded", || stage.source_secret("extra").get());
    has_pairs(&sidecar, "hub", "failing", 1.0);
    assert!(sidecar.ask("/debug/state").1.contains("Secret token is not uploaded"));
    stays("nothing is created", || stage.source_secret("token").get().is_none());
    source.set_number(2);
    target.wait_for_number(2);
}

#[test]
fn labels_and_annotations_of_a_secret_stay_behind() {
    let (stage, _sidecar, _, target) = bare("upload-metadata", &[]);
    let metadata = json!({
        "labels": {"app": "web"},
        "annotations": {"replicator.v1.mittwald.de/replicate-from": "kube-system/admin"},
    });
    create_controlled(&stage, &target, "token", "Opaque", &metadata);
    let uploaded = eventually("it is uploaded", || stage.source_secret("token").get());
    assert_eq!(uploaded["metadata"].get("labels"), None);
    let annotations = uploaded["metadata"]["annotations"].as_object().expect("annotations");
    assert_eq!(annotations.keys().collect::<Vec<_>>(), [HASH]);
    let before = stage.settled();
    stage.target_secret("token").merge(&json!({"metadata": {"labels": {"app": "other"}}}));
    stage.writes_no_more_than(before);
}
