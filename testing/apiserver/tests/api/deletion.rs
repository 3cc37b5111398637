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
