//! Takeover of what sync-controller left behind.

use serde_json::{Value, json};
use suite::sync::{BUDGETS, Place, Setting, Stage, words};

use crate::support::{EMPTY, HASHES, is_in_sync, map};

/// The state that sync-controller writes, in its own words: nothing here comes from the program's names.
fn left_behind(name: &str) -> (Stage, Place, Place) {
    let setting = Setting::safe(&[&BUDGETS]);
    let stage = Stage::pull(name, setting.secrets(&["secret1", "secret2"]));
    let (source, target) = stage.pair(&BUDGETS, "web");
    stage.create_target_namespace(&json!({"cloud.teleport.dev/sync-owner": "web"}));
    let spec = json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}});
    let metadata = json!({"labels": {"a": "1"}, "annotations": {"note": "x"}});
    // Its second generation on both sides.
    for place in [&source, &target] {
        place.create(&json!({"metadata": metadata, "spec": {"minAvailable": 2}}));
        place.merge(&json!({"spec": spec}));
        place.set_status(&json!({"status": {
            "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 2, "observedGeneration": 1,
        }}));
    }
    source.merge(&json!({"metadata": {
        "finalizers": ["cloud.teleport.dev/sync-local"],
        "annotations": {
            "cloud.teleport.dev/sync-remote-generation": "2",
            "cloud.teleport.dev/sync-local-generation": "2",
        },
    }}));
    for (index, (name, value)) in
        [("secret1", "data1"), ("secret2", "data2")].into_iter().enumerate()
    {
        let hash = json!({"cloud.teleport.dev/last-uploaded-hash": HASHES[index]});
        let local = stage.create_target_secret(name, value, Some(&target));
        stage.target_secret(name).merge(&json!({"metadata": {"annotations": hash}}));
        let owner = json!([{
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "name": source.name,
            "uid": source.uid(), "controller": true, "blockOwnerDeletion": true,
        }]);
        stage.source_secret(name).create(&json!({
            "metadata": {"annotations": hash, "ownerReferences": owner},
            "type": "Opaque", "data": local["data"],
        }));
    }
    (stage, source, target)
}

/// Waits until the program has checked everything: a new object is copied.
#[track_caller]
fn has_looked(stage: &Stage, name: &str) {
    let (source, target) = stage.pair(&BUDGETS, name);
    source.create_number(1);
    is_in_sync(&source, &target);
    stage.settled();
}

/// The words of what was written about anything but the object of this name.
fn others(stage: &Stage, name: &str) -> Vec<String> {
    let all = stage.writes();
    let others = words(&all).into_iter().filter(|words| !words.contains(name));
    others.map(str::to_owned).collect()
}

/// An object without what a mark changes.
fn content(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([
        object["spec"],
        object["status"],
        metadata["generation"],
        map(object, "labels"),
        map(object, "annotations")
    ])
}

#[test]
fn a_takeover_costs_no_write_of_content_and_the_copy_lives_on() {
    let (stage, source, target) = left_behind("left-behind");
    let before: [Value; 2] = [source.read(), target.read()];
    let mut sidecar = stage.start(&[]);
    has_looked(&stage, "new-one");
    // The target is marked as the source's copy.
    let mark = ["local patch poddisruptionbudgets web"];
    assert_eq!(others(&stage, "new-one"), mark);
    assert_eq!(source.read(), before[0]);
    assert_eq!(content(&target.read()), content(&before[1]));
    sidecar.kill();
    // After a restart one deletion is allowed, and here there are three.
    let _sidecar = stage.start(&[EMPTY, "-max-deletions", "100/10s"]);
    has_looked(&stage, "new-two");
    let written = others(&stage, "new-");
    assert_eq!(written, mark, "a second start");

    source.set_number(5);
    target.wait_for_number(5);
    is_in_sync(&source, &target);
    target.set_health(7);
    source.wait_for_health(7);
    // So sync-controller, which knows a pair by these alone, can take over again.
    let own = json!({
        "note": "x",
        "cloud.teleport.dev/sync-remote-generation": "3",
        "cloud.teleport.dev/sync-local-generation": "3",
    });
    assert_eq!(map(&source.read(), "annotations"), own);
    assert_eq!(source.finalizers(), ["cloud.teleport.dev/sync-local"]);
    for name in ["new-one", "new-two", "web"] {
        let (source, target) = stage.pair(&BUDGETS, name);
        source.delete();
        source.wait_until_gone();
        assert!(target.get().is_none());
    }
    stage.stays_quiet();
    assert!(!stage.target_namespace().is_terminating(), "sync-controller created it");
}

/// Its deletion is finished, too: finalizer and generations say that the copy is its work.
#[test]
fn a_deletion_that_sync_controller_began_is_finished() {
    let (stage, source, target) = left_behind("delete");
    source.delete();
    let _sidecar = stage.start(&[]);
    source.wait_until_gone();
    assert!(target.get().is_none());
}

/// Without its source nothing proves that the object was a copy.
#[test]
fn sync_controllers_copy_without_a_source_stays() {
    let (stage, source, target) = left_behind("orphan");
    source.delete_by_force();
    let _sidecar = stage.start(&[]);
    stage.writes_no_more_than(0);
    assert!(target.get().is_some());
}
