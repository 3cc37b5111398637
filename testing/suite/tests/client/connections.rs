//! Connections: kept alive, lost, bounded in time, and without threads.

use std::{
    fs,
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, Patch, Reload, Timeouts},
    error::Error,
};
use dev_apiserver::{Action, Rule, State};
use kubeconfig::config::Trust;
use serde_json::json;
use suite::faults::answer;

use crate::{body, client, lease, server};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn one_connection_serves_many_requests() {
    let (server, access) = server();
    let client = client(access);
    for _ in 0..20 {
        let _ = client.get(&lease("x"));
    }
    assert_eq!(server.counters().connections, 1);
    let answers = client.requests().counts().answers;
    assert_eq!(answers, [(("GET".to_owned(), "404".to_owned()), 20)].into());
}

#[test]
fn kept_connection_closed_by_the_server_costs_no_request() {
    let (server, access) = server();
    let client = client(access);
    let mut lease_now = client.create(&lease("x"), &body("x")).unwrap();
    server.faults().set_state(State::CloseAfterAnswer);
    for round in 0..200 {
        let result = client.replace(&lease("x"), &lease_now);
        lease_now = result.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

#[test]
fn create_is_never_repeated() {
    let (server, access) = server();
    server.faults().add(Rule::new(Action::ApplyThenDrop).verb("create"));
    let error = client(access).create(&lease("x"), &body("x")).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn only_guarded_writes_are_sent_again() {
    let (server, access) = server();
    let client = client(access);
    let lease_now = client.create(&lease("x"), &body("x")).unwrap();
    let drop_once =
        |verb| server.faults().add(Rule::new(Action::ApplyThenDrop).verb(verb).times(1));
    drop_once("update");
    assert!(matches!(client.replace(&lease("x"), &body("x")), Err(Error::Unreachable(_))));
    let bare = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    drop_once("patch");
    assert!(matches!(client.patch(&lease("x"), Patch::Json, &bare), Err(Error::Unreachable(_))));
    let version = &lease_now["metadata"]["resourceVersion"];
    let guarded = json!([{"op": "add", "path": "/metadata/resourceVersion", "value": version}]);
    let refused = client.patch(&lease("x"), Patch::Json, &guarded);
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    drop_once("patch");
    let refused = client.patch(&lease("x"), Patch::Json, &guarded);
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
}

/// A promise: a request has 2 s here. The servers below would take a minute or for ever.
#[track_caller]
fn ends_in_time(request: impl FnOnce() -> Error) {
    let start = Instant::now();
    let error = request();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    let time = start.elapsed();
    assert!(time >= Duration::from_secs(2) && time < Duration::from_secs(30), "{time:?}");
}

#[test]
fn request_ends_in_time_whatever_the_server_does() {
    let (hanging, access) = server();
    let client_of_it = client(access);
    hanging.faults().set_state(State::Hang);
    ends_in_time(|| client_of_it.get(&lease("x")).unwrap_err());
    for action in [Action::Stall, Action::Delay { milliseconds: 60_000 }] {
        let (server, access) = server();
        server.faults().add(Rule::new(action));
        ends_in_time(|| client(access).get(&lease("x")).unwrap_err());
    }
}

#[test]
fn only_a_success_counts_as_heard() {
    let (server, access) = server();
    let client = client(access);
    assert!(client.get(&lease("x")).is_err() && client.heard().is_none());
    client.create(&lease("x"), &body("x")).unwrap();
    let first = client.heard().expect("an answer was heard");
    server.faults().add(Rule::new(Action::Stall));
    assert!(client.get(&lease("x")).is_err());
    assert_eq!(client.heard(), Some(first));
}

#[test]
fn probe_has_its_own_time_limit() {
    let (server, access) = server();
    let client = client(access);
    let path = String::from("/version");
    assert_eq!(client.within(Duration::from_secs(10)).text(&path).unwrap().0, 200);
    server.faults().set_state(State::Hang);
    let patient = Timeouts::with_request(Duration::from_secs(600));
    let client = Client::new("the hub", client.config(), Reload::Never, patient).unwrap();
    // A promise: a probe has its own time limit, here 0.3 s where a request has 10 minutes.
    let start = Instant::now();
    let silent = client.within(Duration::from_millis(300)).text(&path);
    assert!(matches!(silent, Err(Error::Unreachable(_))), "{silent:?}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Other tests run beside this one, so it counts over many requests.
#[test]
fn requests_by_name_start_no_threads() {
    let (server, mut access) = server();
    access.server = format!("https://localhost:{}", server.address().port());
    let client = client(access);
    let _ = client.get(&lease("x"));
    let most = (0..300).map(|_| {
        let _ = client.get(&lease("x"));
        threads()
    });
    let (least, most) = most.fold((usize::MAX, 0), |(low, high), n| (low.min(n), high.max(n)));
    assert!(most < least + 200, "{least} to {most} threads");
    assert_eq!(server.counters().connections, 1);
}

#[test]
fn tls_server_name_may_differ_from_the_host() {
    let (server, access) = server();
    let named = |name: &str| {
        let mut access = access.clone();
        access.server_name = Some(name.to_owned());
        client(access).get(&lease("x")).unwrap_err()
    };
    assert!(matches!(named("localhost"), Error::NotFound(_)));
    let wrong = named("other.example.com");
    assert!(
        matches!(&wrong, Error::Unreachable(text) if text.contains("not for this host name")),
        "{wrong}"
    );
    drop(server);
}

#[test]
fn foreign_authority_is_refused_unless_verification_is_off() {
    let (server, mut access) = server();
    let (other, _) = crate::server();
    access.trust = Trust::Bundle(other.ca().certificate_pem.clone().into_bytes());
    assert!(matches!(client(access.clone()).get(&lease("x")), Err(Error::Unreachable(_))));
    assert!(server.requests().is_empty());
    let both = [other.ca(), server.ca()].map(|ca| ca.certificate_pem.clone()).concat();
    access.trust = Trust::Bundle(both.into_bytes());
    assert!(matches!(client(access.clone()).get(&lease("x")), Err(Error::NotFound(_))));
    access.trust = Trust::Anything;
    assert!(matches!(client(access).get(&lease("x")), Err(Error::NotFound(_))));
}

#[test]
fn unusable_tls_server_name_is_refused() {
    let (_server, mut access) = server();
    access.server_name = Some("not a name".into());
    let error = Client::new("x", access, Reload::Never, crate::timing()).err();
    assert!(matches!(error, Some(Error::BadConfig(_))), "{error:?}");
}

#[test]
fn server_clock_is_compared_with_ours() {
    let (server, access) = server();
    let client = client(access);
    server.faults().set_date_offset(120);
    let _ = client.get(&lease("x"));
    let clock = client.clock().expect("an answer");
    assert!((118..=121).contains(&clock.ahead), "{clock:?}");
    suite::pause(20);
    let _ = client.get(&lease("x"));
    let later = client.clock().expect("an answer");
    assert!((118..=121).contains(&later.ahead) && later.last > clock.last, "{later:?}");
    server.faults().set_date_offset(-86_400);
    let _ = client.get(&lease("x"));
    let other = client.clock().expect("an answer");
    assert!(other.ahead < -86_000 && other.last > later.last, "{other:?}");
}

#[test]
fn gateway_clock_is_not_taken_for_the_servers() {
    let (server, access) = server();
    let client = client(access);
    let _ = client.get(&lease("x"));
    let clock = client.clock();
    server.faults().set_date_offset(400 * 86_400);
    for body in ["<html>bad gateway</html>", "", "{}"] {
        let rule = Rule::new(answer(502, body));
        server.faults().add(rule.times(1));
        assert!(matches!(client.get(&lease("x")), Err(Error::Unavailable { .. })));
    }
    assert_eq!(client.clock(), clock);
}
