//! Deletion: preconditions, finalizers, namespaces, garbage collection.

use serde_json::{Value, json};

use crate::client::*;

#[test]
fn preconditions_and_the_success_status() {
    let (_server, client) = start();
    client.post(LEASES, lease());
    let other = client.delete(LEASE, json!({"preconditions": {"uid": "other"}}));
    assert_eq!((other.code, other.reason()), (409, "Conflict"));
    let stale = client.delete(LEASE, json!({"preconditions": {"resourceVersion": "1"}}));
    assert_eq!(stale.code, 409);
    let gone = client.delete(LEASE, Value::Null);
    assert_eq!((&gone.json["kind"], &gone.json["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(client.delete(LEASE, Value::Null).code, 404);
}

#[test]
fn finalizers_block_deletion() {
    let (_server, client) = start();
    let mut held = secret("s");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(SECRETS, held);
    let path = format!("{SECRETS}/s");
    let marked = client.delete(&path, Value::Null).json;
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let added =
        client.merge(&path, json!({"metadata": {"finalizers": ["example.com/hold", "new/one"]}}));
    assert_eq!((added.code, added.cause()), (422, "metadata.finalizers"));
    assert_eq!(client.merge(&path, json!({"metadata": {"finalizers": null}})).code, 200);
    assert_eq!(client.get(&path).code, 404);
}

#[test]
fn a_namespace_terminates() {
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
fn dependents_go_with_their_last_owner() {
    let (server, client) = start();
    let (first, second) = (server.put(secret("first")), server.put(secret("second")));
    server.put(owned("child", &[&first, &second]));
    client.delete(&format!("{SECRETS}/first"), Value::Null);
    let references = || {
        let child = server.get("v1", "secrets", "a", "child");
        child.map(|child| child["metadata"]["ownerReferences"].as_array().map(Vec::len))
    };
    eventually("one owner is left", || references() == Some(Some(1)));
    client.delete(&format!("{SECRETS}/second"), Value::Null);
    eventually("the child goes", || references().is_none());
    server.put(owned("stray", &[&json!({"metadata": {"name": "x", "uid": "never"}})]));
    eventually("the stray goes", || server.get("v1", "secrets", "a", "stray").is_none());
}

#[test]
fn foreground_and_orphan() {
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

#[test]
fn dry_runs_change_nothing() {
    let (server, client) = start();
    assert_eq!(client.post(&format!("{SECRETS}?dryRun=All"), secret("s")).code, 201);
    assert!(server.list("v1", "secrets", "a").is_empty());
    server.put(secret("s"));
    assert_eq!(client.delete(&format!("{SECRETS}/s?dryRun=All"), Value::Null).code, 200);
    assert_eq!(client.delete(&format!("{SECRETS}/s"), json!({"dryRun": ["All"]})).code, 200);
    assert_eq!(server.list("v1", "secrets", "a").len(), 1);
    let all = format!("{SECRETS}?dryRun=All");
    assert_eq!(client.post(&all, secret("s")).reason(), "AlreadyExists");
    assert_eq!(client.post(&all, secret("Not a name")).code, 422);
}

#[test]
fn a_dry_run_answers_what_a_write_would() {
    let (server, client) = start();
    client.post(LEASES, lease());
    let before = client.get(LEASE).json;
    let dry = format!("{LEASE}?dryRun=All");
    let patched = client.merge(&dry, json!({"spec": {"leaseDurationSeconds": 7}})).json;
    assert_eq!(patched["spec"]["leaseDurationSeconds"], 7);
    assert_eq!(patched["metadata"], before["metadata"]);
    assert_eq!(client.merge(&dry, json!({"spec": {"leaseDurationSeconds": 0}})).code, 422);
    let mut next = before.clone();
    next["spec"]["holderIdentity"] = json!("me");
    assert_eq!(client.put(&dry, next.clone()).json["spec"]["holderIdentity"], "me");
    next["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(client.put(&dry, next).reason(), "Conflict");
    let odd = client.merge(&format!("{LEASE}?dryRun=Some"), json!({}));
    assert_eq!((odd.code, odd.cause()), (422, "dryRun"));
    assert_eq!(client.get(LEASE).json, before);
    let verbs: Vec<String> = server.writes().into_iter().map(|request| request.verb).collect();
    assert_eq!(verbs, ["create", "patch"]);
}
