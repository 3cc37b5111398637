//! Objects over HTTP: responses as measured on a real server.

use serde_json::{Value, json};

use crate::client::*;

fn changed(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).expect("the path is there") = value;
    object
}

#[test]
fn lease_put_needs_the_version_but_not_the_uid() {
    let (_server, client) = start();
    let created = client.post(LEASES, lease());
    assert_eq!(created.code, 201);
    assert!(created.json["metadata"]["generation"].is_null());
    let bare = client.put(LEASE, lease());
    assert_eq!(
        (bare.code, bare.reason(), bare.cause()),
        (422, "Invalid", "metadata.resourceVersion")
    );
    assert!(bare.message().ends_with("must be specified for an update"), "{}", bare.message());
    let mut next = created.json.clone();
    next["metadata"].as_object_mut().expect("metadata").remove("uid");
    let next = changed(next, "/spec/leaseDurationSeconds", 30.into());
    assert_eq!(client.put(LEASE, next.clone()).code, 200);
    let stale = client.put(LEASE, changed(next, "/spec/leaseDurationSeconds", 40.into()));
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
    assert_eq!(
        stale.message(),
        "Operation cannot be fulfilled on leases.coordination.k8s.io \"x\": the object has been \
         modified; please apply your changes to the latest version and try again"
    );
    let details = json!({"name": "x", "group": "coordination.k8s.io", "kind": "leases"});
    assert_eq!(stale.json["details"], details);
}

#[test]
fn lease_put_after_deletion() {
    let (_server, client) = start();
    let created = client.post(LEASES, lease()).json;
    assert_eq!(client.delete(LEASE, Value::Null).code, 200);
    let with_uid = client.put(LEASE, created.clone());
    assert_eq!((with_uid.code, with_uid.reason()), (409, "Conflict"));
    assert!(with_uid.message().contains("Precondition failed: UID in precondition"));
    let mut old = created;
    old["metadata"].as_object_mut().expect("metadata").remove("uid");
    assert_eq!(client.put(LEASE, old).code, 201);
    client.delete(LEASE, Value::Null);
    assert_eq!(client.put(LEASE, lease()).code, 201);
}

#[test]
fn lease_times_have_six_digits() {
    let (_server, client) = start();
    for bad in
        ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123456789Z"]
    {
        let got = client.post(LEASES, changed(lease(), "/spec/renewTime", bad.into()));
        assert_eq!((got.code, got.reason()), (400, "BadRequest"), "{bad}");
    }
    let zero = client.post(LEASES, changed(lease(), "/spec/leaseDurationSeconds", 0.into()));
    assert_eq!((zero.code, zero.cause()), (422, "spec.leaseDurationSeconds"));
    let offset = changed(lease(), "/spec/renewTime", "2026-01-02T03:04:05.000006+02:00".into());
    assert_eq!(client.post(LEASES, offset).code, 201);
}

#[test]
fn missing_things() {
    let (_server, client) = start();
    let object = client.get(LEASE);
    assert_eq!((object.code, object.reason()), (404, "NotFound"));
    assert_eq!(object.message(), "leases.coordination.k8s.io \"x\" not found");
    assert_eq!(object.json["details"]["name"], "x");
    let resource = client.get("/apis/example.com/v1/namespaces/a/nothings/x");
    assert_eq!((resource.code, resource.text.trim()), (404, "404 page not found"));
    let namespace =
        client.post("/api/v1/namespaces/none/secrets", json!({"metadata": {"name": "s"}}));
    assert_eq!((namespace.code, &namespace.json["details"]["kind"]), (404, &json!("namespaces")));
    client.post(LEASES, lease());
    let subresource = client.merge(&format!("{LEASE}/status"), json!({"status": {}}));
    assert_eq!((subresource.code, subresource.reason()), (404, "NotFound"));
    assert_eq!(subresource.json["details"], json!({}));
}

#[test]
fn patches_that_fail() {
    let (_server, client) = start();
    client.post(LEASES, lease());
    let stale = client.merge(LEASE, json!({"metadata": {"resourceVersion": "1"}}));
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
    let other = client.merge(LEASE, json!({"metadata": {"uid": "other"}}));
    assert_eq!((other.code, other.cause()), (422, "metadata.uid"));
    for operation in [
        json!({"op": "test", "path": "/spec/leaseDurationSeconds", "value": 1}),
        json!({"op": "replace", "path": "/spec/none/x", "value": 1}),
    ] {
        let got = client.json_patch(LEASE, json!([operation]));
        assert_eq!((got.code, got.reason(), &got.json["details"]), (422, "Invalid", &json!({})));
    }
    let bad = json!([{"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 0}]);
    let invalid = client.json_patch(LEASE, bad);
    assert_eq!((invalid.code, &invalid.json["details"]["name"]), (422, &json!("x")));
    let shape = client.merge(LEASE, json!({"metadata": {"labels": "x"}, "spec": [1]}));
    assert_eq!(shape.code, 400);
    let apply = client.send("PATCH", LEASE, "application/apply-patch+yaml", json!({}));
    assert_eq!((apply.code, apply.reason()), (415, "UnsupportedMediaType"));
    assert_eq!(client.get(LEASE).json["spec"]["leaseDurationSeconds"], 60);
}

#[test]
fn patches_that_work() {
    let (_server, client) = start();
    let created = client.post(LEASES, lease()).json;
    let same = client.merge(LEASE, json!({"spec": {"leaseDurationSeconds": 60}}));
    assert_eq!(same.json["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let next = client.json_patch(
        LEASE,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        ]),
    );
    assert_eq!((next.code, &next.json["metadata"]["labels"]["a"]), (200, &json!("b")));
    let strategic = "application/strategic-merge-patch+json";
    let merged = client.send("PATCH", LEASE, strategic, json!({"spec": {"holderIdentity": "me"}}));
    assert_eq!(merged.json["spec"]["holderIdentity"], "me");
}

#[test]
fn secrets() {
    let (_server, client) = start();
    let mut plain = secret("s");
    plain["stringData"] = json!({"p": "plain"});
    let created = client.post(SECRETS, plain);
    assert_eq!(created.code, 201);
    assert_eq!(created.json["data"], json!({"k": "dg==", "p": "cGxhaW4="}));
    assert_eq!(created.json["type"], "Opaque");
    assert!(created.json["stringData"].is_null());
    let bad = client.post(SECRETS, changed(secret("b"), "/data/k", "???".into()));
    assert_eq!((bad.code, bad.reason()), (400, "BadRequest"));
    let again = client.post(SECRETS, secret("s"));
    assert_eq!((again.code, again.reason()), (409, "AlreadyExists"));
    let name = client.post(SECRETS, secret("No_Name"));
    assert_eq!((name.code, name.cause()), (422, "metadata.name"));
    let typed = client.merge(&format!("{SECRETS}/s"), json!({"type": "other"}));
    assert_eq!((typed.code, typed.cause()), (422, "type"));
    let elsewhere = changed(secret("s"), "/metadata/namespace", "b".into());
    assert_eq!(client.post(SECRETS, elsewhere).code, 400);
    assert_eq!(client.put(&format!("{SECRETS}/s"), secret("s")).code, 200);
    assert_eq!(client.put(&format!("{SECRETS}/none"), secret("none")).code, 404);
}

#[test]
fn custom_resources() {
    let (server, client) = start();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = client.post(definitions, definition());
    assert_eq!(
        (created.code, &created.json["status"]["conditions"][1]["type"]),
        (201, &json!("Established"))
    );
    let widget = json!({"metadata": {"generateName": "w-"}, "spec": {"n": 1}, "status": {"x": 1}});
    let got = client.post(WIDGETS, widget).json;
    let name = got["metadata"]["name"].as_str().expect("a name");
    assert_eq!((name.len(), &got["metadata"]["generation"]), (7, &json!(1)));
    assert!(got["status"].is_null());
    let path = format!("{WIDGETS}/{name}");
    let status =
        client.merge(&format!("{path}/status"), json!({"status": {"x": 2}, "spec": {"n": 9}}));
    assert_eq!((&status.json["spec"]["n"], &status.json["status"]["x"]), (&json!(1), &json!(2)));
    assert_eq!(status.json["metadata"]["generation"], 1);
    let spec = client.merge(&path, json!({"status": {"x": 3}, "spec": {"n": 9}}));
    assert_eq!((&spec.json["spec"]["n"], &spec.json["status"]["x"]), (&json!(9), &json!(2)));
    assert_eq!(spec.json["metadata"]["generation"], 2);
    assert_eq!(client.get(WIDGETS).json["items"][0]["kind"], "Widget");
    assert_eq!(client.get("/apis/example.com/v1").json["resources"][0]["name"], "widgets");
    assert_eq!(client.get("/apis/example.com").json["kind"], "APIGroup");
    client.delete(&format!("{definitions}/widgets.example.com"), Value::Null);
    eventually("the kind goes", || client.get(WIDGETS).text.trim() == "404 page not found");
    client.post(definitions, definition());
    assert!(server.list("example.com/v1", "widgets", "").is_empty());
}

fn definition() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}],
        },
    })
}

#[test]
fn lists() {
    let (server, client) = start();
    for name in ["p", "q", "r"] {
        let mut object = secret(name);
        object["metadata"]["labels"] = json!({"n": name});
        server.put(object);
    }
    let all = client.get(SECRETS);
    assert_eq!(
        (&all.json["kind"], all.json["items"].as_array().map(Vec::len)),
        (&json!("SecretList"), Some(3))
    );
    assert!(all.json["items"][0]["kind"].is_null());
    let first = client.get(&format!("{SECRETS}?limit=2")).json;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let path = format!("{SECRETS}?limit=2&continue={token}");
    let rest = client.get(&path).json;
    assert_eq!(
        (&rest["items"][0]["metadata"]["name"], &rest["items"][1]),
        (&json!("r"), &Value::Null)
    );
    assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    server.compact();
    assert_eq!(
        (client.get(&path).code, client.get(&path).reason().to_string()),
        (410, "Expired".into())
    );
    let named = client.get(&format!("{SECRETS}?fieldSelector=metadata.name%3Dq")).json;
    assert_eq!(named["items"][0]["metadata"]["name"], "q");
    let labelled = client.get("/api/v1/secrets?labelSelector=n%20in%20(p,q)").json;
    assert_eq!(labelled["items"].as_array().map(Vec::len), Some(2));
    let future =
        client.get(&format!("{SECRETS}?resourceVersion=99999&resourceVersionMatch=NotOlderThan"));
    assert_eq!((future.code, future.reason()), (504, "Timeout"));
    assert_eq!(future.json["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[test]
fn events_of_both_groups_are_the_same() {
    let (_server, client) = start();
    let event = json!({
        "metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.000006Z", "action": "A",
        "reason": "R", "type": "Normal", "reportingController": "c", "reportingInstance": "i",
        "regarding": {"kind": "Pod", "namespace": "a", "name": "p"}, "note": "n",
    });
    let path = "/apis/events.k8s.io/v1/namespaces/a/events";
    assert_eq!(client.post(path, event.clone()).json["note"], "n");
    let core = client.get("/api/v1/namespaces/a/events/e").json;
    assert_eq!((&core["apiVersion"], &core["message"]), (&json!("v1"), &json!("n")));
    let lacking = client.post(path, changed(event, "/action", "".into()));
    assert_eq!((lacking.code, lacking.cause()), (422, "action"));
}

#[test]
fn non_resource_paths() {
    let (server, client) = start();
    for path in ["/readyz", "/livez", "/healthz", "/version", "/api", "/apis", "/api/v1"] {
        assert_eq!(client.get(path).code, 200, "{path}");
    }
    assert_eq!(client.get("/").code, 403);
    assert_eq!(client.get("/openapi/v2").code, 404);
    let nobody = Client::with(&server, None);
    assert_eq!(nobody.get("/readyz").code, 200);
    assert_eq!(nobody.get("/api").code, 401);
}

const ODD_BODIES: &[&str] = &[
    "",
    "[]",
    "\"x\"",
    "5",
    "null",
    "{",
    "\u{fe}",
    "{\"metadata\":\"x\"}",
    "{\"metadata\":[]}",
    "{\"metadata\":{\"name\":5}}",
    "{\"metadata\":{\"name\":\"f\",\"labels\":[]}}",
    "{\"metadata\":{\"name\":\"g\",\"finalizers\":\"x\",\"ownerReferences\":7}}",
    "{\"metadata\":{\"name\":\"h\"},\"spec\":\"s\",\"data\":3}",
];
const PATHS: &[&str] = &[
    LEASES,
    SECRETS,
    "/api/v1/namespaces",
    "/api/v1/namespaces/a/serviceaccounts/x/token",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/events.k8s.io/v1/namespaces/a/events",
];
const ODD_PATCHES: &[&str] = &[
    "[]",
    "\"x\"",
    "5",
    "null",
    "[5]",
    r#"[{"op":"replace","path":"","value":"x"}]"#,
    r#"[{"op":"replace","path":"/metadata","value":"x"}]"#,
    r#"[{"op":"remove","path":""}]"#,
    r#"[{"op":"add","path":"/metadata/labels","value":[1]}]"#,
    r#"{"metadata":null}"#,
    r#"[{"op":"move","path":"/spec","from":"/metadata"}]"#,
    r#"{"metadata":{"labels":"x"}}"#,
];

fn pairs<'a>(
    left: &'a [&'a str],
    right: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    left.iter().flat_map(move |a| right.iter().map(move |b| (*a, *b)))
}

/// No request may kill a server thread: each one gets an answer.
#[test]
fn odd_bodies_get_answers() {
    let (_server, client) = start();
    client.post(LEASES, lease());
    for (path, body) in pairs(PATHS, ODD_BODIES) {
        let got = client.try_send("POST", path, "application/json", Some(body));
        assert!(got.as_ref().is_ok_and(|got| got.code < 500), "{path} {body} {got:?}");
    }
    for (media, body) in pairs(&["json", "merge"], ODD_PATCHES) {
        let media = format!("application/{media}-patch+json");
        let got = client.try_send("PATCH", LEASE, &media, Some(body));
        assert!(got.as_ref().is_ok_and(|got| got.code < 500), "{media} {body} {got:?}");
    }
}
