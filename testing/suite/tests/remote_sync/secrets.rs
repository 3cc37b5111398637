//! Secrets that are copied to the source's cluster: which ones, when, and how often. Whoever writes Secrets in the
//! target's namespace has nothing else written at the source.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    eventually,
    sidecar::Sidecar,
    stays,
    sync::{HASH, Place, Setting, Stage, WIDGETS},
};

use crate::support::{has_pairs, in_sync, is_in_sync, is_told};

/// A widget in sync whose Secrets `token` and `extra` are uploaded, of which there is none.
pub(crate) fn bare(name: &str, more: &[&str]) -> (Stage, Sidecar, Place, Place) {
    in_sync(name, Setting::safe(&[&WIDGETS]).secrets(&["token", "extra"]), more)
}

#[track_caller]
pub(crate) fn wait_for_value(place: &Place, expected: &str) {
    let encoded = BASE64_STANDARD.encode(expected);
    place.wait(&format!("value {expected}"), |secret| secret["data"]["data"] == encoded.as_str());
}

#[test]
fn an_upload_that_is_changed_here_or_lost_at_the_hub_comes_again() {
    let (stage, mut sidecar, source, target) = bare("lost", &[]);
    stage.create_target_secret("token", "data1", Some(&target));
    stage.create_target_secret("extra", "data2", Some(&target));
    let (token, extra) = (stage.source_secret("token"), stage.source_secret("extra"));
    wait_for_value(&token, "data1");
    wait_for_value(&extra, "data2");
    let changed = json!({"data": {"data": BASE64_STANDARD.encode("data3")}});
    stage.target_secret("token").merge(&changed);
    wait_for_value(&token, "data3");
    stage.settled();
    sidecar.kill();
    // One is recreated empty, the other is changed.
    token.delete();
    token.wait_until_gone();
    token.create(&json!({"type": "Opaque"}));
    extra.merge(&json!({"data": {"data": BASE64_STANDARD.encode("other")}}));
    let mut sidecar = stage.start(&["-resync", "2s"]);
    wait_for_value(&token, "data3");
    wait_for_value(&extra, "data2");
    assert_eq!(token.read()["metadata"]["ownerReferences"][0]["uid"], source.uid());
    // While it runs, each resync looks again.
    token.delete();
    wait_for_value(&token, "data3");
    stage.settled();
    sidecar.kill();
    let before = stage.settled();
    let _sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    stage.writes_no_more_than(before);
}

// --- whose Secret it is, at the hub ---

/// Somebody else's Secret in an upload's place.
pub(crate) fn foreign(stage: &Stage, data: &str) -> (Place, Value) {
    let secret = stage.source_secret("token");
    let labels = json!({"labels": {"owner": "billing"}});
    let data = json!({"data": BASE64_STANDARD.encode(data)});
    secret.create(&json!({"metadata": labels, "data": data, "type": "Opaque"}));
    let object = secret.read();
    (secret, object)
}

const REFUSED: &str = "next to the source is not managed by remote-sync";

pub(crate) fn says_refused(sidecar: &Sidecar, name: &str) {
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
        let event = is_told(&source, "SyncFailed", &secret.name);
        assert!(!event["message"].to_string().contains("theirs"), "{event}");
        has_pairs(&sidecar, "hub", "failing", 1.0);
        // Its owner takes it away.
        secret.delete();
        source.set_number(3);
        wait_for_value(&secret, "data1");
        let told = || sidecar.ask("/debug/state").1.contains(REFUSED);
        eventually("nothing is left to be told", || !told());
    }
}

// --- what is in it ---

/// A Secret that the target controls.
fn create(stage: &Stage, target: &Place, name: &str, kind: &str, metadata: &Value) {
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
    create(&stage, &target, "token", "example.com/any", &json!({}));
    create(&stage, &target, "extra", "kubernetes.io/basic-auth", &json!({}));
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
    create(&stage, &target, "token", "Opaque", &metadata);
    let uploaded = eventually("it is uploaded", || stage.source_secret("token").get());
    assert_eq!(uploaded["metadata"].get("labels"), None);
    let annotations = uploaded["metadata"]["annotations"].as_object().expect("annotations");
    assert_eq!(annotations.keys().collect::<Vec<_>>(), [HASH]);
    let before = stage.settled();
    stage.target_secret("token").merge(&json!({"metadata": {"labels": {"app": "other"}}}));
    stage.writes_no_more_than(before);
}
