use serde_json::from_value;

use super::*;

fn manifest(replicas: u8, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "creationTimestamp": null, "uid": "x"},
        "spec": {"replicas": replicas, "template": {
            "metadata": {"creationTimestamp": null},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }},
    })
}

fn required(manifest: &Value, ignore_fields: Value) -> Result<Required, String> {
    Required::new(manifest.clone(), &from_value(json!({"ignoreFields": ignore_fields})).unwrap())
}

fn ignoring(condition: &str, manifest: &Value) -> Required {
    let fields = json!([{
        "condition": condition,
        "jsonPaths": [".spec.replicas", ".spec.template.spec.containers[?(@.name==\"c\")].image"],
    }]);
    required(manifest, fields).unwrap()
}

/// The object as it stands, with the fields that `work-agent` owns.
fn live(required: &Required, owned: Value) -> Value {
    let mut live = required.original();
    live["metadata"]["resourceVersion"] = "7".into();
    live["metadata"]["managedFields"] =
        json!([{"manager": "work-agent", "operation": "Apply", "fieldsV1": {"f:spec": owned}}]);
    live
}

fn owned() -> Value {
    let container = json!({".": {}, "f:name": {}, "f:image": {}});
    let containers = json!({"k:{\"name\":\"c\"}": container});
    json!({"f:replicas": {}, "f:template": {"f:spec": {"f:containers": containers}}})
}

/// By Go: `md5.Sum([]byte(fmt.Sprintf("%v", object)))`.
#[test]
fn hash_is_the_go_agents() {
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"},
        "metadata": {"name": "a", "namespace": "n", "creationTimestamp": null, "uid": "x"},
    });
    let hash = |fields: Value| required(&manifest, fields).unwrap().hash;
    let of = |condition: &str| json!([{"condition": condition, "jsonPaths": [".data"]}]);
    assert_eq!(hash(of("OnSpokeChange")).unwrap(), "672aebf1ccc680b32afb18b6861efe71");
    assert_eq!(hash(of("OnSpokePresent")).unwrap(), "696089d44be7e65392b979be06191893");
    assert_eq!(hash(json!([])), None);
}

#[test]
fn object_that_holds_all_is_not_applied() {
    let plain = required(&manifest(1, "i:1"), json!([])).unwrap();
    let live_plain = live(&plain, owned());
    assert_eq!(plain.against(&live_plain, Intent::Unchanged), None);
    assert!(
        plain.against(&live_plain, Intent::Edited).is_some(),
        "another manager may own a field"
    );
    let ignoring = ignoring("OnSpokeChange", &manifest(1, "i:1"));
    // The annotation says more than what the process remembers.
    assert_eq!(ignoring.against(&live(&ignoring, owned()), Intent::Edited), None);
}

#[test]
fn what_the_spoke_changed_stays_and_other_drift_is_mended() {
    for condition in ["OnSpokeChange", "OnSpokePresent"] {
        let required = ignoring(condition, &manifest(1, "i:1"));
        let mut live = live(&required, json!({}));
        live["spec"]["replicas"] = 5.into();
        assert_eq!(required.against(&live, Intent::Unchanged), None, "{condition}");
        live["spec"]["template"]["spec"]["containers"][0]["name"] = "other".into();
        let mended = required.against(&live, Intent::Unchanged).unwrap();
        assert_eq!(mended["spec"].get("replicas"), None);
        assert_eq!(mended["spec"]["template"]["spec"]["containers"], json!([{"name": "c"}]));
    }
}

/// The server removes what its only owner leaves out.
#[test]
fn ignored_field_of_this_manager_keeps_its_value() {
    let required = ignoring("OnSpokePresent", &manifest(3, "i:2"));
    let mut live = live(&ignoring("OnSpokePresent", &manifest(2, "i:1")), owned());
    live["metadata"]["annotations"][SPEC_HASH] = "old".into();
    let applied = required.against(&live, Intent::Edited).unwrap();
    assert_eq!(applied["spec"]["replicas"], 2);
    assert_eq!(applied["spec"]["template"]["spec"]["containers"][0]["image"], "i:1");
}

#[test]
fn edit_applies_what_is_ignored_only_on_change() {
    let required = ignoring("OnSpokeChange", &manifest(3, "i:2"));
    let live = live(&ignoring("OnSpokeChange", &manifest(1, "i:1")), json!({}));
    let applied = required.against(&live, Intent::Unchanged).unwrap();
    assert_eq!(applied["spec"]["replicas"], 3);
    assert_eq!(applied["metadata"]["resourceVersion"], "7", "of this very version");
}

#[test]
fn pointers_remove_fields_and_jq_is_refused() {
    let pointers = json!([{"condition": "OnSpokePresent", "jsonPointers": [
        "/metadata/labels/a~1b", "/spec/items/0", "/spec/items/9", "/none/x",
    ]}]);
    let manifest = json!({"metadata": {"labels": {"a/b": "1"}}, "spec": {"items": [1, 2]}});
    let required = required(&manifest, pointers).unwrap();
    let applied = required.against(&json!({"metadata": {}}), Intent::Edited).unwrap();
    assert_eq!(
        (&applied["metadata"]["labels"], &applied["spec"]),
        (&json!({}), &json!({"items": [2]}))
    );
    let refused = |field: Value| super::tests::required(&manifest, json!([field])).err();
    let jq = refused(json!({"jqPathExpressions": [".spec"]}));
    assert_eq!(jq.unwrap(), "jq path expressions are not supported by this agent");
    let pointer = refused(json!({"jsonPointers": ["spec"]}));
    assert_eq!(pointer.unwrap(), "a JSON pointer must start with /, got \"spec\"");
    assert_eq!(refused(json!({"jsonPaths": ["spec", ".a['b.c']"]})), None, "left out, as upstream");
}
