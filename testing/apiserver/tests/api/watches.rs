//! Watches of a selection.

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
