//! Kinds registered by a test, and changes made as their controller would.

use dev_apiserver::Resource;
use serde_json::{Value, json};

use crate::client::*;

#[test]
fn omitted_fields_get_their_defaults() {
    let (server, client) = start();
    let things = Resource::custom("g.io", "v1", "things", "Thing", false);
    server.register(things.with_default("size", json!(60)));
    let things = "/apis/g.io/v1/things";
    let post = |name: &str, spec: Value| {
        let mut body = json!({"metadata": {"name": name}});
        if !spec.is_null() {
            body["spec"] = spec;
        }
        client.post(things, body).json
    };
    assert_eq!(post("a", json!({"b": 1}))["spec"], json!({"b": 1, "size": 60}));
    assert_eq!(post("b", json!({"size": 0}))["spec"], json!({"size": 0}));
    assert_eq!(post("c", Value::Null)["spec"], Value::Null);
    let mut next = client.get(&format!("{things}/a")).json;
    next["spec"] = json!({});
    assert_eq!(client.put(&format!("{things}/a"), next).json["spec"], json!({"size": 60}));
}

#[test]
fn generation_counts_spec_changes_and_deletion() {
    let (server, client) = start();
    server.register(Resource::custom("g.io", "v1", "things", "Thing", false));
    server.register(Resource {
        status: false,
        ..Resource::custom("g.io", "v1", "plains", "Plain", false)
    });
    let budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
    for (all, kind) in [("/apis/g.io/v1/things", "Thing"), (budgets, "PodDisruptionBudget")] {
        let path = format!("{all}/x");
        let metadata = json!({"name": "x", "finalizers": ["g.io/x"]});
        client.post(all, json!({"kind": kind, "metadata": metadata, "spec": {"a": 1}}));
        let after = |path: &str, change: Value| {
            client.merge(path, change).json["metadata"]["generation"].as_u64()
        };
        let both = json!({"spec": {"a": 2}, "status": {"b": 1}});
        assert_eq!(after(&path, json!({"metadata": {"labels": {"c": "d"}}})), Some(1), "{kind}");
        assert_eq!(after(&format!("{path}/status"), both.clone()), Some(1), "{kind}");
        assert_eq!(client.get(&path).json["spec"], json!({"a": 1}), "{kind}");
        assert_eq!(after(&path, both), Some(2), "{kind}");
        client.delete(&path, Value::Null);
        assert_eq!(client.get(&path).json["metadata"]["generation"], 3, "{kind}");
    }
    let plains = "/apis/g.io/v1/plains";
    client.post(plains, json!({"metadata": {"name": "x"}, "spec": {}, "status": {"b": 1}}));
    let changed = client.merge(&format!("{plains}/x"), json!({"status": {"b": 2}})).json;
    assert_eq!(changed["status"]["b"], 2);
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(client.merge(&format!("{plains}/x/status"), json!({})).code, 404);
}

#[test]
fn a_controllers_change_counts_like_any_other() {
    let (server, client) = start();
    server.register(Resource::custom("g.io", "v1", "things", "Thing", false));
    let body = json!({"metadata": {"name": "a", "finalizers": ["g.io/x"]}, "spec": {"b": 1}});
    let created = client.post("/apis/g.io/v1/things", body).json;
    let alter = |change: fn(&mut Value) -> bool| server.alter("g.io/v1", "things", "", "a", change);
    let get = || client.get("/apis/g.io/v1/things/a").json;
    assert!(!alter(|_| false));
    assert_eq!(get(), created);
    assert!(alter(|object| {
        object["spec"]["b"] = 2.into();
        object["status"] = json!({"c": 3});
        true
    }));
    assert_eq!(get()["metadata"]["generation"], 2);
    assert_eq!((&get()["spec"]["b"], &get()["status"]["c"]), (&json!(2), &json!(3)));
    client.delete("/apis/g.io/v1/things/a", Value::Null);
    assert!(alter(|object| {
        object["metadata"]["finalizers"] = json!([]);
        true
    }));
    assert_eq!(get()["reason"], "NotFound");
    assert!(!alter(|_| true));
}
