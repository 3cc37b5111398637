//! T1 to T8: the table of upstream's test. Its three passes are the writes up to the first one that upstream
//! waited for, up to the next, and the rest.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    eventually, real, stays,
    sync::{
        BUDGETS, FINALIZER, HASH, LOCAL_GENERATION, OWNER, PAUSED, Place, REMOTE_GENERATION,
        Setting, Stage, Wrote, words,
    },
};

use crate::support::{annotations, labels};

/// Of upstream's test, line 160 and 170: `data1` and `data2` under the key `data`.
pub(crate) const HASHES: [&str; 2] = [
    "4bc3db4c8600b8a668677befadd94408e27cdcac611dcb4d4f56e0d2dcb3e1c5",
    "1c67e1d274f4a7bedb1d1ee0f23f3c962e170d20e1f480c419a9c68f5efb3a0f",
];

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

// --- T1: metadata, spec, status and Secrets ---

fn t1(name: &str, compat: bool) -> Case {
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

fn t1_is_done(case: &Case) {
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

const T1: [&str; 8] = [
    "hub patch poddisruptionbudgets test-remote-rs",
    "hub patch poddisruptionbudgets/status test-remote-rs",
    "hub update secrets secret1-remote-rs",
    "local patch secrets secret1",
    "hub update secrets secret2-remote-rs",
    "local patch secrets secret2",
    "local update poddisruptionbudgets test",
    "hub patch poddisruptionbudgets test-remote-rs",
];

#[test]
fn t1_metadata_spec_status_and_secrets_compat() {
    let case = t1("t1", true);
    let _sidecar = case.stage.start(&[]);
    case.stage.wrote_only(&T1);
    t1_is_done(&case);
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
fn t1_metadata_spec_status_and_secrets_safe() {
    let case = t1("t1-safe", false);
    let _sidecar = case.stage.start(&["-adopt", "always"]);
    let mut expected = T1.to_vec();
    let patch = "local patch poddisruptionbudgets test";
    expected[6] = patch;
    // It becomes the source's copy first.
    expected.insert(1, patch);
    case.stage.wrote_only(&expected);
    t1_is_done(&case);
    let local = case.local.read();
    assert_eq!(labels(&local), json!({"remote": "label", "local": "label"}));
    assert_eq!(annotations(&local), json!({"remote": "anno", "local": "anno"}));
}

// --- T2, T3: paused ---

#[track_caller]
fn paused(name: &str, compat: bool, at_the_remote: bool) {
    let case = Case::new(name, compat);
    case.stage.create_target_namespace(&json!({}));
    let metadata = |here: bool| match here {
        true => json!({"annotations": {PAUSED: "true"}}),
        false => json!({}),
    };
    Case::budget(&case.remote, 1, 1, metadata(at_the_remote));
    Case::budget(&case.local, 2, 2, metadata(!at_the_remote));
    case.secret("secret1", "data1", true);
    let _sidecar = case.stage.start(&[]);
    // Something that it does tells that it has looked at everything.
    case.stage.source(&BUDGETS, "other").create_number(7);
    case.stage.target(&BUDGETS, "other").wait_for_number(7);
    case.stage.settled();
    let writes = case.stage.writes();
    assert!(words(&writes).iter().all(|words| words.contains("other")), "{:?}", words(&writes));
    assert_eq!((case.remote.number(), case.remote.healthy()), (Some(1), Some(1)));
    assert_eq!((case.local.number(), case.local.healthy()), (Some(2), Some(2)));
    case.not_uploaded("secret1");
}

#[test]
fn t2_paused_at_the_remote_compat() {
    paused("t2", true, true);
}

#[test]
fn t2_paused_at_the_remote_safe() {
    paused("t2-safe", false, true);
}

#[test]
fn t3_paused_locally_compat() {
    paused("t3", true, false);
}

#[test]
fn t3_paused_locally_safe() {
    paused("t3-safe", false, false);
}

// --- T4, T5: there is no copy yet ---

#[track_caller]
fn missing(name: &str, compat: bool, with_namespace: bool) {
    let case = Case::new(name, compat);
    if with_namespace {
        case.stage.create_target_namespace(&json!({}));
    }
    Case::budget(&case.remote, 2, 1, json!({}));
    if with_namespace {
        case.secret("secret1", "data1", false);
    }
    let _sidecar = case.stage.start(&[]);
    let namespace = format!("local create namespaces {}-local-ns", case.stage.namespace);
    let mut expected = vec!["hub patch poddisruptionbudgets test-remote-rs"];
    if !with_namespace {
        expected.push(&namespace);
    }
    expected.extend([
        "local create poddisruptionbudgets test",
        "hub patch poddisruptionbudgets test-remote-rs",
        "hub patch poddisruptionbudgets/status test-remote-rs",
    ]);
    case.stage.wrote_only(&expected);
    assert_eq!((case.remote.number(), case.remote.healthy()), (Some(2), Some(0)));
    assert_eq!((case.local.number(), case.local.healthy()), (Some(2), Some(0)));
    let remote = case.remote.read();
    assert_eq!(annotations(&remote), json!({LOCAL_GENERATION: "1", REMOTE_GENERATION: "1"}));
    assert_eq!(case.remote.finalizers(), [FINALIZER]);
    match with_namespace {
        true => case.not_uploaded("secret1"),
        false => {
            let owner = case.stage.target_namespace().annotation(OWNER);
            assert_eq!(owner.as_deref(), Some("test"));
        }
    }
}

#[test]
fn t4_no_local_object_compat() {
    missing("t4", true, true);
}

#[test]
fn t4_no_local_object_safe() {
    missing("t4-safe", false, true);
}

#[test]
fn t5_no_local_namespace_compat() {
    missing("t5", true, false);
}

#[test]
fn t5_no_local_namespace_safe() {
    missing("t5-safe", false, false);
}

// --- T6, T7: there is no remote object ---

/// In safe mode this is gap26, as nobody ever claimed the remote object.
#[track_caller]
fn without_remote(name: &str, compat: bool, owned: bool) {
    let case = Case::new(name, compat);
    case.stage.create_target_namespace(&if owned { json!({OWNER: "test"}) } else { json!({}) });
    Case::budget(&case.local, 2, 2, json!({}));
    case.secret("secret1", "data1", true);
    let _sidecar = case.stage.start(&[]);
    let namespace = format!("local delete namespaces {}-local-ns", case.stage.namespace);
    match (compat, owned) {
        (true, true) => {
            case.stage.wrote_only(&[&namespace]);
            case.local.wait_until_gone();
        }
        (true, false) => {
            case.stage.wrote_only(&["local delete poddisruptionbudgets test"]);
            case.local.wait_until_gone();
            assert!(!case.stage.target_namespace().is_terminating());
        }
        (false, _) => {
            case.stage.source(&BUDGETS, "other").create_number(7);
            case.stage.target(&BUDGETS, "other").wait_for_number(7);
            stays("only the other one is written", || {
                words(&case.stage.writes()).iter().all(|words| words.contains("other"))
            });
            assert_eq!((case.local.number(), case.local.healthy()), (Some(2), Some(2)));
            assert!(!case.stage.target_namespace().is_terminating());
        }
    }
    case.not_uploaded("secret1");
}

#[test]
fn t6_no_remote_object_and_an_owned_namespace_compat() {
    without_remote("t6", true, true);
}

#[test]
fn t6_no_remote_object_and_an_owned_namespace_safe() {
    without_remote("t6-safe", false, true);
}

#[test]
fn t7_no_remote_object_compat() {
    without_remote("t7", true, false);
}

#[test]
fn t7_no_remote_object_safe() {
    without_remote("t7-safe", false, false);
}

// --- T8: the remote object is being deleted ---

/// What was claimed once; safe mode also wants to see that something was copied.
fn t8(name: &str, compat: bool) -> Case {
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
fn t8_is_done(case: &Case, before: &[&str]) {
    let delete =
        ["local delete poddisruptionbudgets test", "hub patch poddisruptionbudgets test-remote-rs"];
    case.stage.wrote_only(&[before, &delete].concat());
    eventually("the remote object is gone", || case.remote.get().is_none().then_some(()));
    assert!(case.local.get().is_none());
    assert!(!case.stage.target_namespace().is_terminating());
}

#[test]
fn t8_the_remote_object_is_being_deleted_compat() {
    let case = t8("t8", true);
    let _sidecar = case.stage.start(&[]);
    t8_is_done(&case, &[]);
}

#[test]
fn t8_the_remote_object_is_being_deleted_safe() {
    let case = t8("t8-safe", false);
    let _sidecar = case.stage.start(&[]);
    t8_is_done(&case, &["local patch poddisruptionbudgets test"]);
}
