//! Taking over what sync-controller left behind.

use serde_json::{Value, json};
use suite::{
    eventually, real,
    sidecar::Sidecar,
    sync::{BUDGETS, Place, Setting, Stage, WIDGETS, words},
    within,
};

use crate::{
    support::{self, is_in_sync},
    upstream::HASHES,
};

/// The state that sync-controller writes, in its own words: nothing here comes from the program's names.
fn left_behind(name: &str, compat: bool) -> (Stage, Place, Place) {
    let setting = Setting { compat, ..Setting::safe(&[&BUDGETS]) };
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

/// Waits until the program has looked at everything: an object that is new is copied.
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

/// An object but for what a mark changes.
fn content(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([
        object["spec"],
        object["status"],
        metadata["generation"],
        support::labels(object),
        support::annotations(object)
    ])
}

#[test]
fn gap25_what_sync_controller_wrote_costs_no_write_of_content() {
    for compat in [true, false] {
        let (stage, source, target) = left_behind("gap25", compat);
        let before: [Value; 2] = [source.read(), target.read()];
        let mut sidecar = stage.start(&[]);
        has_looked(&stage, "new-one");
        // In safe mode the target is marked as the source's copy.
        let mark: &[_] = if compat { &[] } else { &["local patch poddisruptionbudgets web"] };
        assert_eq!(others(&stage, "new-one"), mark, "compat: {compat}");
        assert_eq!(source.read(), before[0]);
        assert_eq!(content(&target.read()), content(&before[1]));
        sidecar.kill();
        let _sidecar = stage.start(&[]);
        has_looked(&stage, "new-two");
        let written = others(&stage, "new-");
        assert_eq!(written, mark, "a second start, compat: {compat}");
    }
}

#[test]
fn gap25_what_was_taken_over_lives_on() {
    for compat in [true, false] {
        let (stage, source, target) = left_behind("gap25-life", compat);
        let _sidecar = stage.start(&[]);
        has_looked(&stage, "new");
        stage.source(&BUDGETS, "new").delete();
        stage.source(&BUDGETS, "new").wait_until_gone();
        source.set_number(5);
        target.wait_for_number(5);
        is_in_sync(&source, &target);
        target.set_health(7);
        source.wait_for_health(7);
        source.delete();
        source.wait_until_gone();
        stage.target_namespace().wait_until_gone();
        assert!(target.get().is_none());
    }
}

/// Its deletion is finished, too: finalizer and generations say that the copy is its work.
#[test]
fn gap25_a_deletion_that_sync_controller_began_is_finished() {
    for compat in [true, false] {
        let (stage, source, target) = left_behind("gap25-delete", compat);
        source.delete();
        let _sidecar = stage.start(&[]);
        source.wait_until_gone();
        assert!(target.get().is_none());
        drop(stage);
    }
}

/// Without its source there is no proof that the object was a copy.
#[test]
fn gap25_a_copy_of_sync_controllers_without_a_source_stays_in_safe_mode() {
    let (stage, source, target) = left_behind("gap25-orphan", false);
    source.delete_by_force();
    let _sidecar = stage.start(&[]);
    stage.writes_no_more_than(0);
    assert!(target.get().is_some());
}

// --- gap23 ---

/// Pairs in sync, as each mode leaves them.
fn fill(stage: &Stage, count: u64) {
    stage.create_target_namespace(&json!({}));
    let (hub, name) = (&stage.remote().cluster, &stage.namespace);
    let cluster = Place::new(hub, suite::sync::namespaces(), "", "kube-system").uid();
    let cluster = cluster.as_str().expect("a uid");
    for number in 0..count {
        let (source, target) = stage.pair(&WIDGETS, &format!("w{number}"));
        let mut object = WIDGETS.content(number);
        object["status"] = json!({"ready": number});
        if !stage.setting.compat {
            let origin = format!(
                "{cluster}/{name}/{}/{cluster}/1/cloud.teleport.dev/sync-local",
                source.name
            );
            object["metadata"]["annotations"] = json!({
                "cloud.teleport.dev/source": origin, "cloud.teleport.dev/managed-keys": "|",
            });
        }
        put(&target, &object);
        object["metadata"] = json!({
            "finalizers": ["cloud.teleport.dev/sync-local"],
            "annotations": {
                "cloud.teleport.dev/sync-remote-generation": "1",
                "cloud.teleport.dev/sync-local-generation": "1",
            },
        });
        put(&source, &object);
    }
}

/// Creates an object; where it can be, without a request.
fn put(place: &Place, object: &Value) {
    let Some(server) = &place.cluster.embedded else {
        place.create(object);
        return;
    };
    let mut object = object.clone();
    object["apiVersion"] = json!(place.kind.resource.api_version());
    object["kind"] = json!(place.kind.resource.kind);
    object["metadata"]["name"] = json!(place.name);
    object["metadata"]["namespace"] = json!(place.namespace);
    server.put(object);
}

#[test]
fn gap23_ten_thousand_pairs_in_sync_cost_no_write() {
    for compat in [true, false] {
        let stage = Stage::pull("gap23", Setting { compat, ..Setting::safe(&[&WIDGETS]) });
        // On real servers each takes two requests.
        let count = if real() { 300 } else { 10_000 };
        fill(&stage, count);
        let sidecar = stage.start_served(&["-qps", "0"]);
        let last = has_looked_at_all(&stage, &sidecar);
        let written = others(&stage, "last");
        assert_eq!(written, [""; 0], "compat: {compat}");
        println!("gap23, compat: {compat}: {count} pairs, {} KiB", last);
    }
}

/// Waits for a new object's copy; the program's memory then.
fn has_looked_at_all(stage: &Stage, sidecar: &Sidecar) -> u64 {
    let (source, target) = stage.pair(&WIDGETS, "last");
    source.create_number(1);
    within(60, "the copy is there", || target.get());
    is_in_sync(&source, &target);
    eventually("it is content", || (sidecar.ask("/readyz").0 == 200).then_some(()));
    stage.settled();
    sidecar.memory("VmRSS")
}
