//! Verbs, bodies and errors.

use std::time::Duration;

use apiclient::{
    client::{Client, Patch, Preconditions, Propagation, Reload, Timeouts},
    error::Error,
    resource::{LEASES, Resource},
};
use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::listing::list;

use crate::{body, client, lease, server};

#[test]
fn every_verb_does_what_it_says() {
    let (_server, access) = server();
    let client = client(access);
    let created = client.create(&lease("x"), &body("x")).unwrap();
    assert_eq!(client.get(&lease("x")).unwrap(), created);
    assert!(matches!(client.create(&lease("x"), &body("x")), Err(Error::AlreadyExists(_))));

    let mut changed = created.clone();
    changed["spec"]["holderIdentity"] = json!("me");
    let changed = client.replace(&lease("x"), &changed).unwrap();
    assert!(matches!(client.replace(&lease("x"), &created), Err(Error::Conflict(_))));

    let merge = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        client.patch(&lease("x"), Patch::Merge, &merge).unwrap()["metadata"]["labels"]["a"],
        "b"
    );
    let ops = json!([{"op": "replace", "path": "/spec/holderIdentity", "value": "you"}]);
    assert_eq!(
        client.patch(&lease("x"), Patch::Json, &ops).unwrap()["spec"]["holderIdentity"],
        "you"
    );

    assert_eq!(list(&client, &LEASES.collection("default"), "").unwrap().len(), 1);

    let other = Preconditions { uid: Some("other".into()), resource_version: None };
    let delete = |guard| client.delete(&lease("x"), Propagation::Background, guard);
    assert!(matches!(delete(&other), Err(Error::Conflict(_))));
    let uid = changed["metadata"]["uid"].as_str().map(str::to_owned);
    delete(&Preconditions { uid, resource_version: None }).unwrap();
    assert!(matches!(client.get(&lease("x")), Err(Error::NotFound(_))));
}

#[test]
fn bodies_are_compact_and_typed() {
    let (server, access) = server();
    let client = client(access);
    client.create(&lease("x"), &body("x")).unwrap();
    client.patch(&lease("x"), Patch::Merge, &json!({"spec": {}})).unwrap();
    client.delete(&lease("x"), Propagation::Background, &Preconditions::default()).unwrap();
    let requests = server.requests();
    let types: Vec<_> = requests.iter().map(|request| &*request.content_type).collect();
    assert_eq!(types, ["application/json", "application/merge-patch+json", "application/json"]);
    assert!(requests.iter().all(|request| !request.body.contains(&b'\n')));
    assert!(requests.iter().all(|request| request.user_agent.contains('/')));
}

#[test]
fn refusal_keeps_the_servers_words_and_the_connection() {
    let (server, access) = server();
    let client = client(access);
    server.faults().deny("get", "leases", "default");
    let error = client.get(&lease("x")).unwrap_err();
    assert!(matches!(error, Error::Forbidden(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("get leases default/x on the hub: 403: leases.coordination.k8s.io"),
        "{text}"
    );
    for _ in 0..5 {
        let _ = client.get(&lease("x"));
    }
    assert_eq!(server.counters().handshakes, 1);
}

#[test]
fn missing_namespace_or_kind_is_not_a_missing_object() {
    let (_server, access) = server();
    let client = client(access);
    let there = LEASES.object("nowhere", "x");
    let error = client
        .create(
            &there,
            &json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "x", "namespace": "nowhere"}}),
        )
        .unwrap_err();
    assert!(matches!(error, Error::NotServed(_)), "{error:?}");
    let unknown = apiclient::resource::Resource { plural: "nothings".into(), ..LEASES.clone() };
    let error = client.get(&unknown.object("default", "x")).unwrap_err();
    assert!(matches!(error, Error::NotServed(_)), "{error:?}");
}

#[test]
fn retry_after_of_a_status_is_kept() {
    let (server, access) = server();
    let answer = Action::Answer { code: 503, body: None, retry_after: Some("7".into()) };
    server.faults().add(Rule::new(answer));
    let error = client(access).get(&lease("x")).unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[test]
fn redirect_is_not_followed() {
    let (server, access) = server();
    let (other, _) = crate::server();
    server.faults().add(Rule::new(Action::Redirect { location: other.url() }));
    assert!(matches!(client(access).get(&lease("x")), Err(Error::BadPeer(_))));
    assert!(other.requests().is_empty());
}

#[test]
fn answer_without_the_object_asked_for_is_refused() {
    for action in [Action::NotJson, Action::WrongKind, Action::HugeBody { bytes: 100 << 20 }] {
        let (server, access) = server();
        // A busy machine needs long for 100 MiB.
        let timing = Timeouts::with_request(Duration::from_secs(60));
        let client = Client::new("the hub", access, Reload::Never, timing).unwrap();
        client.create(&lease("x"), &body("x")).unwrap();
        server.faults().add(Rule::new(action.clone()));
        let error = client.get(&lease("x")).unwrap_err();
        assert!(matches!(error, Error::BadPeer(_)), "{action:?}: {error:?}");
    }
}

#[test]
fn broken_answer_is_a_failure_of_that_request() {
    let huge = Action::HugeHeaders { bytes: 4_000_000 };
    for action in [Action::Truncate, Action::Garbage, huge] {
        let (server, access) = server();
        let client = client(access);
        client.create(&lease("x"), &body("x")).unwrap();
        server.faults().add(Rule::new(action.clone()));
        let error = client.get(&lease("x")).unwrap_err();
        assert!(
            matches!(error, Error::Unreachable(_) | Error::BadPeer(_)),
            "{action:?}: {error:?}"
        );
        server.faults().heal();
        assert!(client.get(&lease("x")).is_ok(), "{action:?}");
    }
}

#[test]
fn name_is_found_in_every_namespace() {
    let (server, access) = server();
    let client = client(access);
    let namespace = Resource::v1("", "namespaces", "Namespace");
    client
        .create(
            &namespace.cluster_object("b"),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}),
        )
        .unwrap();
    for (namespace, name) in [("default", "x"), ("default", "y"), ("b", "x")] {
        let lease = apiclient::lease::new(namespace, name);
        client.write_typed(&LEASES.object(namespace, name), &lease).unwrap();
    }
    assert_eq!(list(&client, &LEASES.everywhere(), "").unwrap().len(), 3);
    assert_eq!(list(&client, &LEASES.cluster_object("x"), "").unwrap().len(), 2);
    let asked = server.requests().pop().unwrap();
    assert_eq!(asked.path, "/apis/coordination.k8s.io/v1/leases");
}
