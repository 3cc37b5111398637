//! Content down, status and Secrets up, and deletions: T1 and T8 of sync-controller's own test
//! (`controller/controller_test.go:87-424`). `decide/tests.rs` has T2 to T7.

use serde_json::{Value, json};
use suite::sync::{
    BUDGETS, FINALIZER, HASH, LOCAL_GENERATION, Place, REMOTE_GENERATION, Setting, Stage,
};

use crate::support::{HASHES, annotations, is_in_sync, labels, one_budget};

/// Upstream's stage: both Secrets exist at the source, empty, as its operator made them.
struct Case {
    stage: Stage,
    remote: Place,
    local: Place,
}

impl Case {
    fn new(name: &str) -> Self {
        let setting = Setting::safe(&[&BUDGETS]).secrets(&["secret1", "secret2"]);
        let stage = Stage::pull(name, setting);
        stage.create_target_namespace(&json!({}));
        let (remote, local) = stage.pair(&BUDGETS, "test");
        Self { stage, remote, local }
    }

    /// Creates a budget with these numbers in spec and status, and `metadata`.
    fn budget(place: &Place, available: u64, healthy: u64, metadata: Value) {
        let mut object = BUDGETS.content(available);
        object["metadata"] = metadata;
        place.create(&object);
        place.set_health(healthy);
    }

    /// A Secret of the target, and the empty one at the source that upstream's test makes for each.
    fn secret(&self, name: &str, value: &str) {
        self.stage.create_target_secret(name, value, Some(&self.local));
        self.stage.source_secret(name).create(&json!({"type": "Opaque"}));
    }
}

fn both_ways_are_done(case: &Case) {
    let remote = case.remote.read();
    assert_eq!(labels(&remote), json!({"remote": "label"}));
    assert_eq!(
        annotations(&remote),
        json!({"remote": "anno", LOCAL_GENERATION: "2", REMOTE_GENERATION: "1"})
    );
    assert_eq!(case.remote.finalizers(), [FINALIZER]);
    assert_eq!((case.remote.number(), case.remote.healthy()), (Some(2), Some(2)));
    assert_eq!((case.local.number(), case.local.healthy()), (Some(2), Some(2)));
    for (index, name) in ["secret1", "secret2"].into_iter().enumerate() {
        let secret = case.stage.source_secret(name).read();
        let local = case.stage.target_secret(name).read();
        assert_eq!((&secret["type"], &secret["data"]), (&json!("Opaque"), &local["data"]));
        assert_eq!(annotations(&secret), json!({HASH: HASHES[index]}));
        assert_eq!(annotations(&local), json!({}));
        let owner = json!([{
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "name": case.remote.name,
            "uid": case.remote.uid(), "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(secret["metadata"]["ownerReferences"], owner);
    }
    let secret = case.stage.source_secret("secret3").read();
    assert!(secret["data"].is_null() && secret["metadata"]["ownerReferences"].is_null());
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
    let case = Case::new("both-ways");
    let metadata = |word: &str| json!({"labels": {word: "label"}, "annotations": {word: "anno"}});
    Case::budget(&case.remote, 2, 1, metadata("remote"));
    Case::budget(&case.local, 1, 2, metadata("local"));
    for (name, value) in [("secret1", "data1"), ("secret2", "data2"), ("secret3", "data3")] {
        case.secret(name, value);
    }
    let _sidecar = case.stage.start(&["-adopt", "always"]);
    case.stage.wrote_only(&WRITES);
    both_ways_are_done(&case);
    let local = case.local.read();
    assert_eq!(labels(&local), json!({"remote": "label", "local": "label"}));
    assert_eq!(annotations(&local), json!({"remote": "anno", "local": "anno"}));
}

/// T8: what was claimed once, and something of it copied.
#[test]
fn a_deleted_source_takes_its_copy_along() {
    let case = Case::new("deleted");
    let marks = json!({LOCAL_GENERATION: "1", REMOTE_GENERATION: "1"});
    Case::budget(&case.remote, 2, 2, json!({"finalizers": [FINALIZER], "annotations": marks}));
    Case::budget(&case.local, 2, 2, json!({}));
    case.secret("secret1", "data1");
    case.remote.delete();
    assert!(case.remote.is_terminating());
    let _sidecar = case.stage.start(&[]);
    case.stage.wrote_only(&[
        "local patch poddisruptionbudgets test",
        "local delete poddisruptionbudgets test",
        "hub patch poddisruptionbudgets test-remote-rs",
    ]);
    case.remote.wait_until_gone();
    assert!(case.local.get().is_none());
    assert!(!case.stage.target_namespace().is_terminating());
}

#[test]
fn edits_of_the_copys_spec_and_the_sources_status_are_undone() {
    let (stage, _sidecar, source, target) = one_budget("edited");
    target.set_number(9);
    target.wait_for_number(1);
    target.set_health(3);
    source.wait_for_health(3);
    source.set_health(9);
    source.wait_for_health(3);
    assert_eq!(target.healthy(), Some(3));
    is_in_sync(&source, &target);
    stage.stays_quiet();
}
