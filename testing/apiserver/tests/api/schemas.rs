//! Pruning and defaulting, and generations that say nothing.

use dev_apiserver::{Generation, Resource};
use serde_json::{Value, json};

use crate::client::*;

fn shape() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "mode": {"type": "string", "default": "plain"},
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "map": {"additionalProperties": {"type": "object", "properties": {"a": {}}}},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
                },
            },
            "status": {"type": "object", "properties": {"ready": {}}},
        },
    })
}

#[test]
fn what_the_schema_does_not_name_is_dropped() {
    let (_server, client) = start();
    client.post(DEFINITIONS, definition(shape()));
    let labels = json!({"a": "b"});
    let made = client.post(
        THINGS,
        json!({
            "metadata": {"name": "x", "labels": labels},
            "operation": {"sync": {}},
            "spec": {
                "size": 1, "new": true, "any": {"b": {"c": 1}},
                "map": {"k": {"a": 1, "b": 2}}, "list": [{"a": 1, "b": 2}],
            },
        }),
    );
    let spec = json!({
        "size": 1, "mode": "plain", "any": {"b": {"c": 1}},
        "map": {"k": {"a": 1}}, "list": [{"a": 1}],
    });
    assert_eq!((made.code, &made.json["spec"]), (201, &spec));
    assert_eq!(made.json["metadata"]["labels"], labels);
    assert_eq!(made.json.get("operation"), None);
    let path = format!("{THINGS}/x");
    let same = client.merge(&path, json!({"spec": {"new": 2}, "operation": {}})).json;
    assert_eq!(same["metadata"], made.json["metadata"]);
    let health = json!({"status": {"ready": 1, "other": 2}});
    assert_eq!(client.merge(&format!("{path}/status"), health).json["status"], json!({"ready": 1}));
    assert_eq!(client.merge(&path, json!({"spec": {"size": 2}})).json["metadata"]["generation"], 2);
}

#[test]
fn a_new_schema_holds_for_old_objects() {
    let (server, client) = start();
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    client.post(DEFINITIONS, definition(any));
    client.post(THINGS, json!({"metadata": {"name": "x"}, "spec": {"size": 1, "old": true}}));
    let before = client.get(&format!("{THINGS}/x")).json;
    let versions = &definition(shape())["spec"]["versions"];
    client.merge(&format!("{DEFINITIONS}/things.g.io"), json!({"spec": {"versions": versions}}));
    let after = client.get(&format!("{THINGS}/x")).json;
    assert_eq!(after["spec"], json!({"size": 1, "mode": "plain"}));
    assert_eq!(after["metadata"], before["metadata"]);
    // A write of anything stores the new form, which is no change of the content.
    let merged = json!({"metadata": {"labels": {"a": "b"}}});
    let stored = client.merge(&format!("{THINGS}/x"), merged).json;
    assert_eq!(stored["metadata"]["generation"], 1);
    assert_eq!(server.get("g.io/v1", "things", "a", "x"), Some(stored));
}

#[test]
fn a_registered_kind_can_get_another_schema() {
    let (server, client) = start();
    let things = || Resource::custom("g.io", "v1", "things", "Thing", true);
    server.register(Resource { schema: Some(shape()), ..things() });
    client.post(THINGS, json!({"metadata": {"name": "x"}, "spec": {"size": 1, "new": 2}}));
    server.register(things());
    assert_eq!(
        client.get(&format!("{THINGS}/x")).json["spec"],
        json!({"size": 1, "mode": "plain"})
    );
    let new = client.merge(&format!("{THINGS}/x"), json!({"spec": {"new": 2}})).json;
    assert_eq!(new["spec"]["new"], 2);
}

#[test]
fn a_generation_may_be_constant() {
    let (server, client) = start();
    server.register(Resource {
        generation: Generation::Constant,
        ..Resource::custom("g.io", "v1", "things", "Thing", true)
    });
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for (all, content) in [(THINGS, "spec"), (classes, "description")] {
        let made = client.post(all, json!({"metadata": {"name": "x"}, "value": 1})).json;
        assert_eq!(made["metadata"]["generation"], 1, "{all}");
        let next = client.merge(&format!("{all}/x"), json!({content: {"a": 1}})).json;
        assert_eq!(next["metadata"]["generation"], 1, "{all}");
        assert_ne!(next["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    }
}
