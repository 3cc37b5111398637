//! Watches: their initial events, the changes they report, and their ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::*;

fn brief(event: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.into(), name.into())
}

#[test]
fn follows_from_a_version() {
    let (server, client) = start();
    server.put(secret("before"));
    let version = server.resource_version();
    let mut events =
        client.watch(&format!("{SECRETS}?watch=true&resourceVersion={version}&timeoutSeconds=5"));
    let mut next = || events.next().map(|event| brief(&event));
    server.put(secret("s"));
    assert_eq!(next(), Some(pair("ADDED", "s")));
    client.merge(&format!("{SECRETS}/s"), json!({"data": {"x": "eA=="}}));
    assert_eq!(next(), Some(pair("MODIFIED", "s")));
    server.delete("v1", "secrets", "a", "s");
    assert_eq!(next(), Some(pair("DELETED", "s")));
}

#[test]
fn begins_with_existing_objects() {
    let (server, client) = start();
    server.put(secret("s"));
    for version in ["", "&resourceVersion=0"] {
        let mut events = client.watch(&format!("{SECRETS}?watch=1&timeoutSeconds=5{version}"));
        assert_eq!(events.next().map(|event| brief(&event)), Some(pair("ADDED", "s")));
    }
}

#[test]
fn selection_changes_show_as_additions_and_deletions() {
    let (server, client) = start();
    server.put(secret("s"));
    let path = format!("{SECRETS}?watch=true&labelSelector=on&timeoutSeconds=5");
    let mut events = client.watch(&path);
    let mut next = || events.next().map(|event| brief(&event));
    client.merge(&format!("{SECRETS}/s"), json!({"metadata": {"labels": {"on": "1"}}}));
    assert_eq!(next(), Some(pair("ADDED", "s")));
    client.merge(&format!("{SECRETS}/s"), json!({"metadata": {"labels": null}}));
    assert_eq!(next(), Some(pair("DELETED", "s")));
}

#[test]
fn bookmarks_come_and_carry_the_version() {
    let (server, client) = start();
    let version = server.resource_version();
    let path = format!(
        "{SECRETS}?watch=true&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=1"
    );
    let events: Vec<Value> = client.watch(&path).collect();
    assert!(events.len() >= 2, "{events:?}");
    assert!(events.iter().all(|event| event["type"] == "BOOKMARK"));
    assert_eq!(events[0]["object"]["metadata"]["resourceVersion"], version.as_str());
    assert_eq!(events[0]["object"]["kind"], "Secret");
}

#[test]
fn watch_list_ends_its_initial_events() {
    let (server, client) = start();
    server.put(secret("s"));
    let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=5";
    let path = format!("{SECRETS}?{query}&resourceVersionMatch=NotOlderThan");
    let events: Vec<Value> = client.watch(&path).take(2).collect();
    assert_eq!(brief(&events[0]), pair("ADDED", "s"));
    assert_eq!(events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let refused = client.get(&format!("{SECRETS}?{query}"));
    assert_eq!((refused.code, refused.reason()), (422, "Invalid"));
}

#[test]
fn a_compacted_version_is_expired() {
    let (server, client) = start();
    let version = server.resource_version();
    server.compact();
    let path = format!("{SECRETS}?watch=true&resourceVersion={version}");
    let events: Vec<Value> = client.watch(&path).collect();
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(events[0]["object"]["reason"], "Expired");
}

#[test]
fn a_watch_from_a_future_version_is_silent() {
    let (_server, client) = start();
    let begin = Instant::now();
    let path = format!(
        "{SECRETS}?watch=true&resourceVersion=99999&allowWatchBookmarks=true&timeoutSeconds=1"
    );
    assert_eq!(client.watch(&path).count(), 0);
    assert!(begin.elapsed() >= Duration::from_millis(900));
}

#[test]
fn a_disconnected_client_ends_its_watch() {
    let (server, client) = start();
    drop(client.watch(&format!("{SECRETS}?watch=true")));
    let ended = || server.requests().iter().any(|r| r.verb == "watch" && r.sent > 0);
    eventually("the watch ends", ended);
}
