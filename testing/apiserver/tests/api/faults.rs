//! Faults of single requests.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use serde_json::{Value, json};

use crate::client::*;

fn answer(code: u16) -> Action {
    Action::Answer { code, body: None, retry_after: None }
}

#[test]
fn rules_match_and_run_out() {
    let (server, client) = start();
    let rule = Rule::new(answer(503)).verb("get").resource("secrets").name("s").times(2);
    let id = server.faults().add(rule);
    server.put(secret("s"));
    let path = format!("{SECRETS}/s");
    assert_eq!(client.get(SECRETS).code, 200);
    let codes: Vec<u16> = (0..3).map(|_| client.get(&path).code).collect();
    assert_eq!((codes, server.faults().hits(id)), (vec![503, 503, 200], 2));
}

#[test]
fn answers_have_bodies_and_retry_after() {
    let (server, client) = start();
    let action = |body: Option<&str>| Action::Answer {
        code: 429,
        body: body.map(Into::into),
        retry_after: Some("7".into()),
    };
    server.faults().add(Rule::new(action(None)).times(1));
    let status = client.get(SECRETS);
    assert_eq!(
        (status.reason(), &status.headers["retry-after"]),
        ("TooManyRequests", &"7".parse().expect("a value"))
    );
    server.faults().add(Rule::new(action(Some("<html>busy</html>"))).times(1));
    let html = client.get(SECRETS);
    assert_eq!((html.code, html.text.as_str()), (429, "<html>busy</html>"));
    assert_eq!(html.headers["content-type"], "text/html; charset=utf-8");
}

#[test]
fn forbid_answers_in_the_authorizers_words() {
    let (server, client) = start();
    server.faults().deny("update", "leases", "a");
    let denied = client.put(LEASE, lease());
    assert_eq!((denied.code, denied.reason()), (403, "Forbidden"));
    assert_eq!(
        denied.message(),
        "leases.coordination.k8s.io \"x\" is forbidden: User \"tester\" cannot update resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"a\""
    );
    let review = |verb: &str| {
        let attributes = json!({
            "verb": verb, "resource": "leases", "group": "coordination.k8s.io", "namespace": "a",
        });
        let body = json!({"spec": {"resourceAttributes": attributes}});
        client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).json
    };
    assert_eq!(review("update")["status"]["allowed"], false);
    assert_eq!(review("get")["status"]["allowed"], true);
}

#[test]
fn drops_come_before_or_after_applying() {
    let (server, client) = start();
    let post = |name: &str| {
        let body = secret(name).to_string();
        client.try_send("POST", SECRETS, "application/json", Some(&body))
    };
    server.faults().add(Rule::new(Action::Drop).verb("create").times(1));
    assert!(post("one").is_err());
    assert!(server.list("v1", "secrets", "a").is_empty());
    server.faults().add(Rule::new(Action::ApplyThenDrop).verb("create").times(1));
    assert!(post("two").is_err());
    assert_eq!(server.list("v1", "secrets", "a").len(), 1);
    assert_eq!(server.requests().last().map(|r| r.code), Some(0));
}

#[test]
fn broken_answers_are_broken() {
    let (server, client) = start();
    for action in [Action::Truncate, Action::Garbage] {
        server.faults().add(Rule::new(action.clone()).times(1));
        assert!(client.try_send("GET", SECRETS, "", None).is_err(), "{action:?}");
    }
    server.faults().add(Rule::new(Action::HugeHeaders { bytes: 4_000_000 }).times(1));
    assert!(client.try_send("GET", SECRETS, "", None).is_err());
    assert_eq!(client.get(SECRETS).code, 200);
}

#[test]
fn strange_answers_are_strange() {
    let (server, client) = start();
    server.put(lease());
    let once = |action: Action| {
        server.faults().add(Rule::new(action).times(1));
        client.get(LEASE)
    };
    assert!(once(Action::NotJson).text.starts_with("<html>"));
    assert_eq!(once(Action::WrongKind).json["kind"], "Widget");
    let null = once(Action::NullSpec).json;
    assert_eq!((&null["kind"], &null["spec"]), (&json!("Lease"), &Value::Null));
    let redirect = once(Action::Redirect { location: "https://127.0.0.1:1/".into() });
    assert_eq!(
        (redirect.code, &redirect.headers["location"]),
        (307, &"https://127.0.0.1:1/".parse().expect("a value"))
    );
    assert_eq!(once(Action::HugeBody { bytes: 300_000 }).text.len(), 300_000);
}

#[test]
fn delays_and_stalls_hold_an_answer() {
    let (server, client) = start();
    server.faults().add(Rule::new(Action::Delay { milliseconds: 80 }).times(1));
    let begin = Instant::now();
    assert_eq!(client.get(SECRETS).code, 200);
    assert!(begin.elapsed() >= Duration::from_millis(80));
    server.faults().add(Rule::new(Action::Stall).times(1));
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| client.try_send("GET", SECRETS, "", None));
        eventually("the head is out", || {
            server.requests().len() == 2 && server.requests()[1].code == 200
        });
        server.restart();
        assert!(stalled.join().expect("no panic").is_err());
    });
}

#[test]
fn watches_go_silent_or_break() {
    let (server, client) = start();
    server.put(secret("s"));
    let path = format!("{SECRETS}?watch=true&timeoutSeconds=5");
    server.faults().add(Rule::new(Action::WatchCut { events: 0 }).verb("watch").times(1));
    let events: Vec<Value> = client.watch(&path).collect();
    assert!(events.iter().all(Value::is_null), "{events:?}");
    server.faults().add(Rule::new(Action::WatchSilent).verb("watch").times(1));
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| client.watch(&path).count());
        std::thread::sleep(Duration::from_millis(100));
        server.restart();
        assert_eq!(silent.join().expect("no panic"), 0);
    });
    assert_eq!(client.watch(&path).take(1).count(), 1);
}

#[test]
fn watch_sends_injected_bytes_or_blanks() {
    let (server, client) = start();
    server.put(secret("s"));
    let path = format!("{SECRETS}?watch=true&timeoutSeconds=1");
    let bytes = format!("{}\n", json!({"type": "BOOKMARK", "object": 1}));
    server.faults().add(Rule::new(Action::WatchSays { bytes }).verb("watch").times(1));
    let events: Vec<Value> = client.watch(&path).collect();
    assert_eq!((&events[0]["object"], &events[1]["type"]), (&json!(1), &json!("ADDED")));
    server.faults().add(Rule::new(Action::WatchBlanks { milliseconds: 20 }).verb("watch").times(1));
    std::thread::scope(|scope| {
        let blank = scope.spawn(|| client.watch(&path).filter(|event| !event.is_null()).count());
        // Longer than the watch's timeoutSeconds.
        std::thread::sleep(Duration::from_millis(1300));
        assert!(!blank.is_finished());
        server.restart();
        assert_eq!(blank.join().expect("no panic"), 0);
    });
}

#[test]
fn frozen_cache_answers_lists_at_version_zero() {
    let (server, client) = start();
    server.put(secret("old"));
    server.freeze_cache();
    server.put(secret("new"));
    let count = |query: &str| {
        let list = client.get(&format!("{SECRETS}{query}")).json;
        list["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((count("?resourceVersion=0"), count("")), (1, 2));
    server.faults().heal();
    assert_eq!(count("?resourceVersion=0"), 2);
}

#[test]
fn probability_repeats_with_its_seed() {
    let run = |seed| {
        let (server, client) = start();
        server.faults().add(Rule::new(answer(500)).probability(0.5, seed));
        (0..24).map(|_| client.get("/readyz").code).collect::<Vec<u16>>()
    };
    let first = run(7);
    assert_eq!(first, run(7));
    assert!(first.contains(&500) && first.contains(&200), "{first:?}");
}

#[test]
fn log_is_drained_up_to_a_time() {
    let (server, client) = start();
    client.get(SECRETS);
    client.get(SECRETS);
    let then = Instant::now();
    client.get(LEASE);
    assert_eq!(server.take_requests(then).len(), 2);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn backup_is_restored_with_its_versions() {
    let (server, client) = start();
    server.put(secret("kept"));
    let (backup, version) = (server.backup(), server.resource_version());
    let mut events = client.watch(&format!("{SECRETS}?watch=true&resourceVersion={version}"));
    server.put(secret("lost"));
    server.delete("v1", "secrets", "a", "kept");
    let later = server.resource_version();
    assert_eq!(events.by_ref().take(2).count(), 2);
    server.restore(&backup);
    assert_eq!((events.next(), server.resource_version()), (None, version));
    let names = server.list("v1", "secrets", "a");
    assert_eq!(names.iter().map(|o| &o["metadata"]["name"]).collect::<Vec<_>>(), ["kept"]);
    let since = format!("{SECRETS}?resourceVersionMatch=NotOlderThan&resourceVersion={later}");
    let future = client.get(&since);
    assert_eq!(future.json["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    // The controllers still run.
    client.delete("/api/v1/namespaces/a", Value::Null);
    eventually("the namespace goes", || server.get("v1", "namespaces", "", "a").is_none());
    let writes: Vec<_> = server.writes().into_iter().map(|write| write.verb).collect();
    assert_eq!(writes, ["delete"]);
}
