//! Lists: pages of one version, valid combinations of options, and metadata-only lists.

use serde_json::{Value, json};

use crate::client::*;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    items.map(name).collect()
}

#[test]
fn all_pages_share_the_version_of_the_first() {
    let (server, client) = start();
    for name in ["a", "b", "c", "d"] {
        server.put(secret(name));
    }
    let first = client.get(&format!("{SECRETS}?limit=2")).json;
    let token = first["metadata"]["continue"].as_str().expect("a token");
    server.delete("v1", "secrets", "a", "c");
    server.put(secret("e"));
    client.merge(&format!("{SECRETS}/d"), json!({"metadata": {"labels": {"new": "1"}}}));
    let rest = client.get(&format!("{SECRETS}?limit=2&continue={token}")).json;
    assert_eq!(
        (names(&first), names(&rest)),
        (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()])
    );
    assert!(
        rest["items"][1]["metadata"]["labels"].is_null() && rest["metadata"]["continue"].is_null()
    );
    let version = &first["metadata"]["resourceVersion"];
    assert_eq!(rest["metadata"]["resourceVersion"], *version);
    let version = version.as_str().expect("a version");
    let matching = |matching: &str| {
        names(&client.get(&format!("{SECRETS}?resourceVersion={version}{matching}")).json).len()
    };
    assert_eq!(matching("&resourceVersionMatch=Exact"), 4);
    assert_eq!(names(&client.get(SECRETS).json), ["a", "b", "d", "e"]);
    assert_eq!(matching("&limit=9&resourceVersionMatch=NotOlderThan"), 4);
    server.compact();
    let exact = client.get(&format!("{SECRETS}?resourceVersion={version}&limit=9"));
    assert_eq!((exact.code, exact.reason()), (410, "Expired"), "without a match it is exact");
}

#[test]
fn contradictory_options_are_rejected() {
    let (server, client) = start();
    for name in ["a", "b"] {
        server.put(secret(name));
    }
    let first = client.get(&format!("{SECRETS}?limit=1")).json;
    let token = first["metadata"]["continue"].as_str().expect("a token");
    for (query, code) in [
        (format!("limit=1&continue={token}&resourceVersion=1"), 400),
        (format!("limit=1&continue={token}&resourceVersion=0"), 200),
        (format!("limit=1&continue={token}&resourceVersionMatch=NotOlderThan"), 422),
        ("resourceVersionMatch=NotOlderThan".into(), 422),
        ("resourceVersionMatch=Exact&resourceVersion=0".into(), 422),
    ] {
        assert_eq!(client.get(&format!("{SECRETS}?{query}")).code, code, "{query}");
    }
}

#[test]
fn metadata_only_requests_get_nothing_else() {
    let (server, client) = start();
    let stored = server.put(secret("s"));
    let path = format!("{SECRETS}/s");
    let one = client.get_as(&path, METADATA);
    let whole = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": stored["metadata"]});
    assert_eq!(one, whole);
    let list = client.get_as(SECRETS, METADATA_LIST);
    assert_eq!(
        (&list["kind"], &list["items"]),
        (&json!("PartialObjectMetadataList"), &json!([whole]))
    );
    let watch = format!("{SECRETS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=5");
    let mut events = client.watch_as(&watch, METADATA);
    assert_eq!(events.next().expect("the existing object")["object"], whole);
    let bookmark = events.next().expect("a bookmark");
    assert_eq!(
        (&bookmark["type"], &bookmark["object"]["kind"]),
        (&json!("BOOKMARK"), &whole["kind"])
    );
    assert_eq!(client.get_as(SECRETS, METADATA)["code"], 406);
    assert_eq!(client.get_as(&path, METADATA_LIST)["code"], 406);
    assert_eq!(server.requests()[0].accept, METADATA);
}
