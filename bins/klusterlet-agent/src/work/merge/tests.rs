use serde_json::json;

use super::{Intent::*, *};

fn patch(manifest: Value, live: &Value, intent: Intent) -> Option<Value> {
    difference(live, &merge(&manifest, live, intent))
}

/// A Deployment as work-agent created it: the server's defaults are work-agent's, too.
fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "d", "labels": {"a": "1", "theirs": "x"}, "annotations": {"old": "1"},
            "managedFields": [
                {"manager": "work-agent", "operation": "Update", "fieldsV1": {
                    "f:metadata": {
                        "f:labels": {".": {}, "f:a": {}}, "f:annotations": {".": {}, "f:old": {}},
                        "f:ownerReferences": {".": {}, "k:{\"uid\":\"o\"}": {}},
                    },
                    "f:spec": {"f:paused": {}, "f:template": {"f:spec": {"f:containers": {
                        "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:pull": {}},
                        "k:{\"name\":\"old\"}": {".": {}, "f:name": {}},
                    }}}},
                }},
                {"manager": "hpa", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "injector", "fieldsV1": {"f:metadata": {"f:labels": {"f:theirs": {}}}, "f:spec": {
                    "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"side\"}": {".": {}}}}},
                }}},
            ],
            "ownerReferences": [{"uid": "o"}],
        },
        "spec": {"replicas": 5, "paused": true, "template": {"spec": {"containers": [
            {"name": "c", "image": "i:1", "pull": "Always"}, {"name": "side"}, {"name": "old"},
        ]}}},
        "status": {"ready": 5},
    })
}

fn manifest(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "1"}, "annotations": {"old": "1"}, "creationTimestamp": null},
        "spec": {"paused": true, "template": {"spec": {"containers": [
            {"name": "c", "image": image}, {"name": "old"},
        ]}}},
        "status": {"ready": 0},
    })
}

#[test]
fn unchanged_manifest_writes_nothing() {
    assert_eq!(patch(manifest("i:1"), &deployment(), Unchanged), None);
}

#[test]
fn drift_of_a_named_field_is_mended_and_others_stay() {
    let patch = patch(manifest("i:2"), &deployment(), Unchanged).unwrap();
    let containers = json!([
        {"name": "c", "image": "i:2", "pull": "Always"}, {"name": "side"}, {"name": "old"},
    ]);
    assert_eq!(patch, json!({"spec": {"template": {"spec": {"containers": containers}}}}));
}

#[test]
fn edit_removes_what_was_named_before_and_nothing_of_others() {
    let edited = json!({
        "metadata": {"labels": {}},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
    });
    let containers = json!([{"name": "c", "image": "i:1"}, {"name": "side"}]);
    let expected = json!({
        "metadata": {"labels": {"a": null}, "annotations": null},
        "spec": {"paused": null, "template": {"spec": {"containers": containers}}},
    });
    assert_eq!(patch(edited, &deployment(), Edited), Some(expected));
}

#[test]
fn key_with_a_minus_removes_a_label_of_anyone() {
    let patch = patch(json!({"metadata": {"labels": {"theirs-": ""}}}), &deployment(), Unchanged);
    assert_eq!(patch, Some(json!({"metadata": {"labels": {"theirs": null}}})));
}

#[test]
fn annotations_of_the_go_agent_stay() {
    let key = "operator.openshift.io/spec-hash";
    let fields = json!({"f:metadata": {"f:annotations": {format!("f:{key}"): {}}}});
    let managed = json!([{"manager": "work-agent", "fieldsV1": fields}]);
    let live = json!({"metadata": {"annotations": {key: "x"}, "managedFields": managed}});
    assert_eq!(patch(json!({}), &live, Edited), None);
}

#[test]
fn lists_without_keys_are_replaced_at_an_edit_alone() {
    let live = json!({"metadata": {}, "rules": [{"verb": "get", "default": 1}]});
    let same = json!({"rules": [{"verb": "get"}]});
    assert_eq!(patch(same.clone(), &live, Unchanged), None);
    assert_eq!(patch(same.clone(), &live, Edited), Some(same));
    let more = json!({"rules": [{"verb": "get"}, {"verb": "list"}]});
    assert_eq!(patch(more.clone(), &live, Unchanged), Some(more));
}

#[test]
fn items_of_a_set_are_removed_by_their_owner() {
    let managed = json!([
        {"manager": "work-agent", "fieldsV1": {"f:hosts": {"v:\"a\"": {}, "v:\"b\"": {}}}},
        {"manager": "other", "fieldsV1": {"f:hosts": {"v:\"c\"": {}}}},
    ]);
    let live = json!({"metadata": {"managedFields": managed}, "hosts": ["a", "b", "c"]});
    let wanted = json!({"hosts": ["b", "d"]});
    assert_eq!(patch(wanted, &live, Edited), Some(json!({"hosts": ["b", "c", "d"]})));
}

/// The protocol of a port is a key and has a default.
#[test]
fn key_that_the_manifest_leaves_out_matches_the_default() {
    let managed = json!([{"manager": "work-agent", "fieldsV1": {"f:ports": {
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:target": {}},
    }}}]);
    let ports = json!([{"port": 80, "protocol": "TCP", "target": 1}]);
    let live = json!({"metadata": {"managedFields": managed}, "ports": ports});
    assert_eq!(patch(json!({"ports": [{"port": 80}]}), &live, Unchanged), None);
    let other = patch(json!({"ports": [{"port": 81}]}), &live, Edited);
    assert_eq!(other, Some(json!({"ports": [{"port": 81}]})));
}

/// Of two ports with the same number, each finds its own.
#[test]
fn item_that_names_more_keys_matches_first() {
    let managed = json!([{"manager": "work-agent", "fieldsV1": {"f:ports": {
        "k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
        "k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}},
    }}}]);
    let ports = json!([
        {"port": 53, "protocol": "UDP", "name": "u"}, {"port": 53, "protocol": "TCP", "name": "t"},
    ]);
    let live = json!({"metadata": {"managedFields": managed}, "ports": ports});
    let wanted = json!([{"port": 53, "name": "t"}, {"port": 53, "protocol": "UDP", "name": "u"}]);
    assert_eq!(patch(json!({"ports": wanted}), &live, Unchanged), None);
}

#[test]
fn edit_replaces_an_atomic_map_and_orders_a_keyed_list() {
    let managed = json!([{"manager": "work-agent", "fieldsV1": {
        "f:selector": {},
        "f:init": {
            "k:{\"name\":\"a\"}": {".": {}, "f:name": {}},
            "k:{\"name\":\"b\"}": {".": {}, "f:name": {}},
        },
    }}]);
    let live = json!({
        "metadata": {"managedFields": managed},
        "selector": {"app": "x", "tier": "y"},
        "init": [{"name": "a"}, {"name": "theirs"}, {"name": "b"}],
    });
    let wanted = json!({
        "selector": {"app": "x"}, "init": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
    });
    let expected = json!({
        "selector": {"tier": null},
        "init": [{"name": "b"}, {"name": "new"}, {"name": "a"}, {"name": "theirs"}],
    });
    assert_eq!(patch(wanted, &live, Edited), Some(expected));
    let appended = json!({
        "selector": {"app": "x", "tier": "y"},
        "init": [{"name": "a"}, {"name": "b"}, {"name": "new"}],
    });
    let init = json!([{"name": "a"}, {"name": "theirs"}, {"name": "b"}, {"name": "new"}]);
    assert_eq!(patch(appended, &live, Edited), Some(json!({"init": init})));
}
