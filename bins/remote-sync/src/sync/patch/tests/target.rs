//! Desired targets, and the writes that lead to them.

use super::*;

/// A source with fields that are copied to its target, and others.
fn full_source() -> Value {
    source(&json!({
        "labels": {"a": "1"},
        "annotations": {
            "note": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "cloud.teleport.dev/sync-local-generation": "1",
            "cloud.teleport.dev/sync-remote-generation": "1",
            "cloud.teleport.dev/paused": "no",
        },
        "finalizers": [FINALIZER],
        "ownerReferences": [{"uid": HUB}],
        "managedFields": [{}],
        "creationTimestamp": "2026-11-21T11:41:35Z",
    }))
}

#[test]
fn a_new_target_has_content_labels_and_annotations_alone() {
    let mut from = full_source();
    from["status"] = json!({"currentHealthy": 1});
    from["data"] = json!({"k": "v"});
    let place = BUDGETS.object("team", "web");
    let reader_ = reader();
    let safe = desired(&reader_, &from).created(&place);
    let expected = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "team", "labels": {"a": "1"}, "annotations": {
            "note": "x",
            "cloud.teleport.dev/source": mark(),
            "cloud.teleport.dev/managed-keys": "a|note",
        }},
        "spec": {"minAvailable": 3},
        "data": {"k": "v"},
    });
    assert_eq!(safe, expected);
    let bare = source(&json!({}));
    let cluster_wide = desired(&reader_, &bare).created(&BUDGETS.cluster_object("web"));
    assert_eq!(cluster_wide["metadata"].get("namespace"), None);
}

/// The target after an update, which must contain nothing but the differences.
fn updated(from: &Value, before: &Value, content: bool) -> Value {
    let reader = reader();
    let known = reader.target(before).unwrap();
    let patch = desired(&reader, from).patch(&known, before, content);
    assert_eq!(patch.as_array().unwrap()[..2], guards(TARGET));
    patched(before, &patch).unwrap()
}

#[test]
fn an_ignored_field_is_set_once_and_stays_the_targets() {
    let mut reader = reader();
    reader.rules.ignored =
        ["/spec/replicas", "/operation"].map(|text| FieldPath::parse(text).unwrap()).to_vec();
    let mut from = full_source();
    (from["spec"]["replicas"], from["operation"]) = (json!(1), json!({"sync": {}}));
    let created = desired(&reader, &from).created(&BUDGETS.object("team", "web"));
    assert_eq!((&created["spec"], &created["operation"]), (&from["spec"], &from["operation"]));
    let mut before = target(&json!({}));
    before["spec"]["replicas"] = json!(7);
    let update = |from: &Value| {
        let known = reader.target(&before).unwrap();
        let patch = desired(&reader, from).patch(&known, &before, true);
        patched(&before, &patch).unwrap()
    };
    let after = update(&from);
    assert_eq!(after["spec"], json!({"minAvailable": 3, "replicas": 7}));
    assert_eq!((after.get("operation"), desired(&reader, &from).altered(&after)), (None, None));
    from.as_object_mut().unwrap().remove("spec");
    assert_eq!(update(&from)["spec"], json!({"replicas": 7}), "its parent went away");
}

#[test]
fn tracking_of_argo_cd_is_not_copied_and_goes_where_it_was() {
    let reader = reader();
    let mut from = full_source();
    from["metadata"]["labels"]["argocd.argoproj.io/instance"] = json!("i");
    let created = desired(&reader, &from).created(&BUDGETS.object("team", "web"));
    assert_eq!(created["metadata"]["labels"], json!({"a": "1"}));
    assert_eq!(created["metadata"]["annotations"]["cloud.teleport.dev/managed-keys"], "a|note");
    let before = target(&json!({
        "labels": {"a": "1", "argocd.argoproj.io/instance": "i", "argocd.argoproj.io/mine": "1"},
        "annotations": {
            "note": "x", "cloud.teleport.dev/managed-keys": "a,argocd.argoproj.io/instance|note",
        },
    }));
    let known = reader.target(&before).unwrap();
    let patch = desired(&reader, &from).patch(&known, &before, false);
    let after = patched(&before, &patch).unwrap();
    assert_eq!(after["metadata"]["labels"], json!({"a": "1", "argocd.argoproj.io/mine": "1"}));
    assert_eq!(after["metadata"]["annotations"]["cloud.teleport.dev/managed-keys"], "a|note");
}

#[test]
fn what_a_server_did_not_keep_is_told() {
    let (reader, mut from) = (reader(), full_source());
    from["spec"]["newField"] = json!("secret value");
    let desired = desired(&reader, &from);
    let mut kept = desired.created(&BUDGETS.object("team", "web"));
    kept["spec"]["defaulted"] = json!(true);
    assert_eq!(desired.altered(&kept), None);
    kept["spec"].as_object_mut().unwrap().remove("newField");
    kept["metadata"]["labels"]["a"] = json!("2");
    let told = "the target's server changed .metadata.labels.a";
    assert_eq!(desired.altered(&kept).as_deref(), Some(told));
    let bare = source(&json!({}));
    let kept = json!({"metadata": {"name": "web"}, "spec": bare["spec"]});
    assert_eq!(super::desired(&reader, &bare).altered(&kept), None, "no labels at all");
}

#[test]
fn content_that_the_source_lacks_goes() {
    let mut from = source(&json!({}));
    from["data"] = json!({"a/b~c": "1"});
    let mut before = target(&json!({}));
    (before["binaryData"], before["status"]) = (json!({"k": ""}), json!({"x": 1}));
    before.as_object_mut().unwrap().remove("spec");
    let after = updated(&from, &before, true);
    assert_eq!((&after["data"], &after["spec"]), (&from["data"], &from["spec"]));
    assert_eq!((after.get("binaryData"), &after["status"]), (None, &before["status"]));
}

#[test]
fn the_target_s_own_keys_stay_and_those_that_the_source_had_go() {
    let from = full_source();
    let before = target(&json!({
        "labels": {"a": "0", "b": "2", "mine": "1"},
        "annotations": {
            "note": "w",
            "gone": "1",
            "local": "1",
            "cloud.teleport.dev/managed-keys": "a,b|gone,note",
        },
    }));
    let after = updated(&from, &before, false);
    assert_eq!(after["metadata"]["labels"], json!({"a": "1", "mine": "1"}));
    let annotations = json!({
        "note": "x",
        "local": "1",
        "cloud.teleport.dev/source": mark(),
        "cloud.teleport.dev/managed-keys": "a|note",
    });
    assert_eq!(after["metadata"]["annotations"], annotations);
    assert_eq!(after["spec"], before["spec"]);
}

#[test]
fn what_was_written_reads_as_equal() {
    let (reader, from) = (reader(), full_source());
    let before = target(&json!({"labels": {"mine": "1"}, "annotations": {"local": "1"}}));
    let known = reader.target(&before).unwrap();
    let desired = desired(&reader, &from);
    let patch = desired.patch(&known, &before, true);
    let mut created = desired.created(&BUDGETS.object("team", "web"));
    (created["metadata"]["uid"], created["metadata"]["resourceVersion"]) =
        (json!(TARGET), json!("222"));
    let wanted = reader.source(&from).unwrap().value.state;
    for after in [patched(&before, &patch).unwrap(), created] {
        let value = reader.target(&after).unwrap().value;
        let state = (value.state.content, value.state.metadata);
        assert_eq!(state, (wanted.content, wanted.metadata), "{after}");
        let copy = value.copy_of.unwrap();
        assert_eq!(copy.place, reader.place("team", "web-rs", FINALIZER));
    }
}
