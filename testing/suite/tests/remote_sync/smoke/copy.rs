//! Content down, status and Secrets up, and deletions: T1, T4, T5 and T8 of sync-controller's own test
//! (`controller/controller_test.go:87-424`). T2 and T3 are in `pauses.rs`, T6 in `namespaces.rs`, and T7, of which
//! the contrary holds, in `takeover.rs`.

use serde_json::{Value, json};
use suite::sync::{
    BUDGETS, FINALIZER, HASH, LOCAL_GENERATION, Place, REMOTE_GENERATION, Setting, Stage,
};

use crate::support::{HASHES, in_sync, is_in_sync, map};

/// Upstream's stage.
fn stage(name: &str) -> (Stage, Place, Place) {
    let setting = Setting::safe(&[&BUDGETS]).secrets(&["secret1", "secret2"]);
    let stage = Stage::pull(name, setting);
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&BUDGETS, "test");
    (stage, source, target)
}

/// Creates a budget with these numbers in spec and status, and `metadata`.
fn budget(place: &Place, available: u64, healthy: u64, metadata: Value) {
    let mut object = BUDGETS.content(available);
    object["metadata"] = metadata;
    place.create(&object);
    place.set_health(healthy);
}

/// A Secret of the target, and the empty one at the source that its operator made.
fn secret(stage: &Stage, target: &Place, name: &str, value: &str) {
    stage.create_target_secret(name, value, Some(target));
    stage.source_secret(name).create(&json!({"type": "Opaque"}));
}

const WRITES: [&str; 6] = [
    "hub patch poddisruptionbudgets test-remote-rs",
    // Only then it is the source's copy, whose status is uploaded.
    "local patch poddisruptionbudgets test",
    "hub patch poddisruptionbudgets/status test-remote-rs",
    "hub update secrets secret1-remote-rs",
    "hub update secrets secret2-remote-rs",
    "hub patch poddisruptionbudgets test-remote-rs",
];

/// T1.
#[test]
fn metadata_spec_status_and_secrets_are_copied() {
    let (stage, source, target) = stage("both-ways");
    let metadata = |word: &str| json!({"labels": {word: "label"}, "annotations": {word: "anno"}});
    budget(&source, 2, 1, metadata("remote"));
    budget(&target, 1, 2, metadata("local"));
    for (name, value) in [("secret1", "data1"), ("secret2", "data2"), ("secret3", "data3")] {
        secret(&stage, &target, name, value);
    }
    let _sidecar = stage.start(&["-adopt", "always"]);
    stage.wrote_only(&WRITES);

    let (remote, local) = (source.read(), target.read());
    assert_eq!(map(&remote, "labels"), json!({"remote": "label"}));
    let marks = json!({"remote": "anno", LOCAL_GENERATION: "2", REMOTE_GENERATION: "1"});
    assert_eq!(map(&remote, "annotations"), marks);
    assert_eq!(map(&local, "labels"), json!({"remote": "label", "local": "label"}));
    assert_eq!(map(&local, "annotations"), json!({"remote": "anno", "local": "anno"}));
    assert_eq!(source.finalizers(), [FINALIZER]);
    for place in [&source, &target] {
        assert_eq!((place.number(), place.healthy()), (Some(2), Some(2)), "{}", place.target());
    }
    let owner = json!([{
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "name": source.name,
        "uid": source.uid(), "controller": true, "blockOwnerDeletion": true,
    }]);
    for (name, hash) in ["secret1", "secret2"].into_iter().zip(HASHES) {
        let (secret, local) = (stage.source_secret(name).read(), stage.target_secret(name).read());
        assert_eq!((&secret["type"], &secret["data"]), (&json!("Opaque"), &local["data"]));
        assert_eq!(map(&secret, "annotations"), json!({HASH: hash}));
        assert_eq!(map(&local, "annotations"), json!({}));
        assert_eq!(secret["metadata"]["ownerReferences"], owner);
    }
    let other = stage.source_secret("secret3").read();
    assert_eq!(
        (&other["data"], &other["metadata"]["ownerReferences"]),
        (&Value::Null, &Value::Null)
    );
}

/// T4 and T5: a Secret that no copy owns stays, and a namespace that is missing is created.
#[test]
fn a_missing_copy_is_created_and_its_status_replaces_the_sources() {
    for is_there in [true, false] {
        let setting = Setting::safe(&[&BUDGETS]).secrets(&["secret1"]);
        let stage = Stage::pull("created", setting);
        let (source, target) = stage.pair(&BUDGETS, "test");
        budget(&source, 2, 1, json!({}));
        if is_there {
            stage.create_target_namespace(&json!({}));
            stage.create_target_secret("secret1", "data1", None);
        }
        let _sidecar = stage.start(&[]);
        is_in_sync(&source, &target);
        // The real server's fresh status has a number.
        source.wait("no health", |object| object["status"]["currentHealthy"].as_u64() != Some(1));
        assert_eq!((target.number(), source.finalizers()), (Some(2), vec![FINALIZER.to_owned()]));
        stage.settled();
        assert!(stage.source_secret("secret1").get().is_none());
    }
}

/// T8: what was claimed once, and something of it copied.
#[test]
fn a_deleted_source_takes_its_copy_along() {
    let (stage, source, target) = stage("deleted");
    let marks = json!({LOCAL_GENERATION: "1", REMOTE_GENERATION: "1"});
    budget(&source, 2, 2, json!({"finalizers": [FINALIZER], "annotations": marks}));
    budget(&target, 2, 2, json!({}));
    secret(&stage, &target, "secret1", "data1");
    source.delete();
    assert!(source.is_terminating());
    let _sidecar = stage.start(&[]);
    stage.wrote_only(&[
        "local patch poddisruptionbudgets test",
        "local delete poddisruptionbudgets test",
        "hub patch poddisruptionbudgets test-remote-rs",
    ]);
    source.wait_until_gone();
    assert!(target.get().is_none());
    assert!(!stage.target_namespace().is_terminating());
}

#[test]
fn what_others_do_to_the_copy_and_the_sources_status_is_undone() {
    let (stage, _sidecar, source, target) = in_sync("edited", Setting::safe(&[&BUDGETS]), &[]);
    target.set_number(9);
    target.wait_for_number(1);
    target.set_health(3);
    source.wait_for_health(3);
    source.set_health(9);
    source.wait_for_health(3);
    assert_eq!(target.healthy(), Some(3));
    is_in_sync(&source, &target);
    stage.stays_quiet();
    let uid = target.uid();
    target.delete();
    target.wait("a new one", |object| object["metadata"]["uid"] != uid);
    is_in_sync(&source, &target);
    stage.stays_quiet();
}
