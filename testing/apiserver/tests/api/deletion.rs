//! Deletion of namespaces, and garbage collection.

use serde_json::{Value, json};

use crate::client::*;

#[test]
fn namespace_goes_after_its_objects() {
    let (server, client) = start();
    let mut held = secret("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.put(held);
    server.put(secret("free"));
    let namespace = client.delete("/api/v1/namespaces/a", Value::Null).json;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    eventually("the free one goes", || server.get("v1", "secrets", "a", "free").is_none());
    let refused = client.post(SECRETS, secret("new"));
    assert_eq!((refused.code, refused.reason()), (403, "Forbidden"));
    assert_eq!(refused.json["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let again = client.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}}));
    assert_eq!((again.code, again.reason()), (409, "AlreadyExists"));
    assert!(again.message().starts_with("object is being deleted: "), "{again:?}");
    assert_eq!(
        client.get("/api/v1/namespaces/a").json["spec"]["finalizers"],
        json!(["kubernetes"])
    );
    client.merge(&format!("{SECRETS}/held"), json!({"metadata": {"finalizers": []}}));
    eventually("the namespace goes", || server.get("v1", "namespaces", "", "a").is_none());
}

fn owned(name: &str, owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        })
    };
    let mut object = secret(name);
    object["metadata"]["ownerReferences"] = owners.iter().map(reference).collect();
    object
}

#[test]
fn foreground_and_orphan_are_heeded() {
    let (server, client) = start();
    let owner = server.put(secret("owner"));
    server.put(owned("child", &[&owner]));
    client.delete(&format!("{SECRETS}/owner"), json!({"propagationPolicy": "Orphan"}));
    eventually("the owner goes", || server.get("v1", "secrets", "a", "owner").is_none());
    let child = server.get("v1", "secrets", "a", "child").expect("the child stays");
    assert!(child["metadata"]["ownerReferences"].is_null());
    let owner = server.put(secret("owner"));
    server.put(owned("child", &[&owner]));
    client.delete(&format!("{SECRETS}/owner?propagationPolicy=Foreground"), Value::Null);
    eventually("both go", || server.list("v1", "secrets", "a").is_empty());
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    let (server, client) = start();
    let owner = server.put(secret("owner"));
    let mut blocking = owned("blocking", &[&owner]);
    blocking["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into();
    blocking["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let blocking = server.put(blocking);
    let mut grandchild = owned("grandchild", &[&blocking]);
    grandchild["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into();
    server.put(grandchild);
    server.put(owned("loose", &[&owner]));
    client.delete(&format!("{SECRETS}/owner?propagationPolicy=Foreground"), Value::Null);
    let is_there = |name: &str| server.get("v1", "secrets", "a", name).is_some();
    eventually("the grandchild goes first", || !is_there("grandchild"));
    eventually("nothing but the finalizer is left", || {
        let blocking = server.get("v1", "secrets", "a", "blocking").expect("it is held");
        blocking["metadata"]["finalizers"] == json!(["example.com/hold"])
    });
    assert!(is_there("owner") && is_there("loose"));
    let path = format!("{SECRETS}/blocking");
    client.merge(&path, json!({"metadata": {"finalizers": null}}));
    eventually("all go", || server.list("v1", "secrets", "a").is_empty());
}
