//! Secrets that are uploaded: whoever writes Secrets in the target's namespace has nothing else written at the source.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    eventually, stays,
    sync::{HASH, Place, Stage, WIDGETS},
};

use crate::{secrets::bare, support::has_pairs};

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
