//! CustomResourceDefinitions, and what goes with them.

use serde_json::{Value, json};

use crate::client::*;

fn thing(name: &str) -> Value {
    json!({"metadata": {"name": name, "finalizers": ["example.com/hold"]}, "spec": {"size": 1}})
}

fn any() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[test]
fn definition_goes_after_its_objects() {
    let (server, client) = start();
    client.post(DEFINITIONS, definition(any()));
    client.post(THINGS, thing("held"));
    client.post(THINGS, json!({"metadata": {"name": "free"}}));
    let version = server.resource_version();
    let mut events = client.watch(&format!("{THINGS}?watch=1&resourceVersion={version}"));
    let one = format!("{DEFINITIONS}/things.g.io");

    let going = client.delete(&one, Value::Null).json;
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let cleanup = "customresourcecleanup.apiextensions.k8s.io";
    assert_eq!(going["metadata"]["finalizers"], json!([cleanup]));
    let conditions = going["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|it| it["type"] == "Terminating" && it["status"] == "True"));

    let deletes = |event: &Value| event["object"]["metadata"]["deletionTimestamp"].is_string();
    let told: Vec<Value> = events.by_ref().take(2).collect();
    let gone = told.iter().find(|event| event["type"] == "DELETED").expect("the free one goes");
    assert_eq!(gone["object"]["metadata"]["name"], "free");
    let marked = told.iter().find(|event| event["type"] == "MODIFIED").expect("the held one waits");
    assert!(deletes(marked), "{marked}");

    let refused = client.post(THINGS, thing("new"));
    assert_eq!((refused.code, refused.reason()), (405, "MethodNotAllowed"));
    let listed = client.get("/apis/g.io/v1").json["resources"][0]["verbs"].clone();
    assert_eq!(listed, json!(["delete", "get", "list", "watch"]));
    assert!(client.get(&one).json["metadata"]["deletionTimestamp"].is_string());

    let freed = client.merge(&format!("{THINGS}/held"), json!({"metadata": {"finalizers": null}}));
    assert_eq!(freed.code, 200);
    eventually("the definition goes", || client.get(&one).code == 404);
    assert_eq!(client.get("/apis/g.io/v1").code, 404);
    assert_eq!(events.next().expect("an event")["type"], "DELETED");
    assert_eq!(events.next(), None, "the watch ends with the kind");
}

#[test]
fn changed_definition_ends_the_watches_of_its_kind() {
    let (_server, client) = start();
    client.post(DEFINITIONS, definition(any()));
    let mut events = client.watch(&format!("{THINGS}?watch=1"));
    let one = format!("{DEFINITIONS}/things.g.io");
    client.merge(&one, json!({"metadata": {"labels": {"a": "b"}}}));
    client.post(THINGS, thing("x"));
    assert_eq!(events.next().expect("an event")["type"], "ADDED");
    let mut versions = definition(any())["spec"]["versions"].clone();
    versions[0]["subresources"] = json!({});
    client.merge(&one, json!({"spec": {"versions": versions}}));
    assert_eq!(events.next(), None);
    assert_eq!(client.merge(&format!("{THINGS}/x/status"), json!({})).code, 404);
}
