//! Content down, status and Secrets up, and deletions: T1 and T8 of sync-controller's own test
//! (`controller/controller_test.go:87-424`). `decide/tests.rs` has T2 to T7.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    eventually, real,
    sync::{
        BUDGETS, FINALIZER, HASH, LOCAL_GENERATION, Place, REMOTE_GENERATION, Setting, Stage, Wrote,
    },
};

use crate::support::{HASHES, annotations, is_in_sync, labels, one_budget};

/// Upstream's stage: both Secrets exist at the source, empty, as its operator made them.
struct Case {
    stage: Stage,
    remote: Place,
    local: Place,
}

impl Case {
    fn new(name: &str, compat: bool) -> Self {
        let setting = Setting { compat, ..Setting::safe(&[&BUDGETS]) };
        let stage = Stage::pull(name, setting.secrets(&["secret1", "secret2"]));
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
    fn secret(&self, name: &str, value: &str, owned: bool) {
        self.stage.create_target_secret(name, value, owned.then_some(&self.local));
        self.stage.source_secret(name).create(&json!({"type": "Opaque"}));
    }

    fn uploaded(&self, name: &str) -> Value {
        self.stage.source_secret(name).read()
    }

    fn not_uploaded(&self, name: &str) {
        let secret = self.uploaded(name);
        assert_eq!(
            (&secret["data"], &secret["metadata"]["ownerReferences"]),
            (&Value::Null, &Value::Null)
        );
    }
}

// --- both ways ---

fn pair(name: &str, compat: bool) -> Case {
    let case = Case::new(name, compat);
    case.stage.create_target_namespace(&json!({}));
    let metadata = |word: &str| json!({"labels": {word: "label"}, "annotations": {word: "anno"}});
    Case::budget(&case.remote, 2, 1, metadata("remote"));
    Case::budget(&case.local, 1, 2, metadata("local"));
    for (name, value) in [("secret1", "data1"), ("secret2", "data2"), ("secret3", "data3")] {
        case.secret(name, value, true);
    }
    case
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
        let secret = case.uploaded(name);
        let local = case.stage.target_secret(name).read();
        assert_eq!((&secret["type"], &secret["data"]), (&json!("Opaque"), &local["data"]));
        assert_eq!(annotations(&secret), json!({HASH: HASHES[index]}));
        assert_eq!(annotations(&local), json!({HASH: HASHES[index]}));
        let owner = json!([{
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "name": case.remote.name,
            "uid": case.remote.uid(), "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(secret["metadata"]["ownerReferences"], owner);
    }
    case.not_uploaded("secret3");
}

/// Content, status and Secrets in upstream's order.
const WRITES: [&str; 8] = [
    "hub patch poddisruptionbudgets test-remote-rs",
    "hub patch poddisruptionbudgets/status test-remote-rs",
    "hub update secrets secret1-remote-rs",
    "local patch secrets secret1",
    "hub update secrets secret2-remote-rs",
    "local patch secrets secret2",
    "local update poddisruptionbudgets test",
    "hub patch poddisruptionbudgets test-remote-rs",
];

/// T1.
#[test]
fn metadata_spec_status_and_secrets_are_copied_compat() {
    let case = pair("both-ways", true);
    let _sidecar = case.stage.start(&[]);
    case.stage.wrote_only(&WRITES);
    both_ways_are_done(&case);
    let local = case.local.read();
    assert_eq!(labels(&local), json!({"remote": "label"}));
    assert_eq!(local["metadata"]["annotations"], json!({"remote": "anno"}));
    let writes = case.stage.writes();
    if !real() {
        bodies_are_upstreams(&case, &writes);
    }
}

/// What the eight writes say, and nothing besides.
#[track_caller]
fn bodies_are_upstreams(case: &Case, writes: &[Wrote]) {
    const MERGE: &str = "application/merge-patch+json";
    let types: Vec<_> = writes.iter().map(|one| one.content_type.as_str()).collect();
    let json = "application/json";
    let patch = "application/json-patch+json";
    assert_eq!(types, [patch, MERGE, json, MERGE, json, MERGE, json, MERGE]);
    let claim = writes[0].body.as_array().and_then(|all| all.last()).expect("a JSON patch");
    let finalizers = json!({"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]});
    assert_eq!(claim, &finalizers);
    assert_eq!(writes[1].body, json!({"status": {"currentHealthy": 2}}));
    for (index, data) in ["data1", "data2"].into_iter().enumerate() {
        let (put, note) = (&writes[2 + 2 * index].body, &writes[3 + 2 * index].body);
        assert_eq!(put["data"], json!({"data": BASE64_STANDARD.encode(data)}));
        assert_eq!(put["metadata"]["ownerReferences"][0]["uid"], case.remote.uid());
        assert_eq!(note, &json!({"metadata": {"annotations": {HASH: HASHES[index]}}}));
    }
    let update = &writes[6].body;
    assert_eq!(update["spec"], json!({"minAvailable": 2}));
    assert_eq!(update["metadata"]["labels"], json!({"remote": "label"}));
    assert_eq!(update["metadata"]["annotations"], json!({"remote": "anno"}));
    let generations = json!({LOCAL_GENERATION: "2", REMOTE_GENERATION: "1"});
    assert_eq!(writes[7].body, json!({"metadata": {"annotations": generations}}));
}

#[test]
fn metadata_spec_status_and_secrets_are_copied() {
    let case = pair("both-ways-safe", false);
    let _sidecar = case.stage.start(&["-adopt", "always"]);
    let mut expected = WRITES.to_vec();
    let patch = "local patch poddisruptionbudgets test";
    expected[6] = patch;
    // It becomes the source's copy first.
    expected.insert(1, patch);
    case.stage.wrote_only(&expected);
    both_ways_are_done(&case);
    let local = case.local.read();
    assert_eq!(labels(&local), json!({"remote": "label", "local": "label"}));
    assert_eq!(annotations(&local), json!({"remote": "anno", "local": "anno"}));
}

// --- deletion ---

/// What was claimed once; safe mode also wants to see that something was copied.
fn deleted(name: &str, compat: bool) -> Case {
    let case = Case::new(name, compat);
    case.stage.create_target_namespace(&json!({}));
    let marks = match compat {
        true => json!({}),
        false => json!({LOCAL_GENERATION: "1", REMOTE_GENERATION: "1"}),
    };
    Case::budget(&case.remote, 2, 2, json!({"finalizers": [FINALIZER], "annotations": marks}));
    Case::budget(&case.local, 2, 2, json!({}));
    case.secret("secret1", "data1", true);
    case.remote.delete();
    assert!(case.remote.is_terminating());
    case
}

#[track_caller]
fn deletion_is_done(case: &Case, before: &[&str]) {
    let delete =
        ["local delete poddisruptionbudgets test", "hub patch poddisruptionbudgets test-remote-rs"];
    case.stage.wrote_only(&[before, &delete].concat());
    eventually("the remote object is gone", || case.remote.get().is_none().then_some(()));
    assert!(case.local.get().is_none());
    assert!(!case.stage.target_namespace().is_terminating());
}

/// T8.
#[test]
fn a_deleted_source_takes_its_copy_along_compat() {
    let case = deleted("deleted", true);
    let _sidecar = case.stage.start(&[]);
    deletion_is_done(&case, &[]);
}

#[test]
fn a_deleted_source_takes_its_copy_along() {
    let case = deleted("deleted-safe", false);
    let _sidecar = case.stage.start(&[]);
    deletion_is_done(&case, &["local patch poddisruptionbudgets test"]);
}

#[test]
fn an_edit_of_the_copys_spec_is_undone() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("edited", compat);
        target.set_number(9);
        target.wait_for_number(1);
        is_in_sync(&source, &target);
        stage.stays_quiet();
    }
}
