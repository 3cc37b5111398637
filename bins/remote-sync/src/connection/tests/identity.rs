//! The identity of a cluster is read repeatedly: it may change behind a healthy connection.

use dev_apiserver::{Request, State};
use serde_json::json;

use super::*;

const OTHER: &str = "0d6ff0b4-3b39-4b5b-9f5c-000000000002";

/// Answers reads of kube-system with another uid.
fn lie(bench: &Bench) -> u64 {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "kube-system", "uid": OTHER, "resourceVersion": "1"}});
    let body = Some(namespace.to_string());
    let rule = Rule::new(Action::Answer { code: 200, body, retry_after: None });
    bench.server.faults().add(rule.verb("get").resource("namespaces").name("kube-system"))
}

fn hide(bench: &Bench) -> u64 {
    bench.server.faults().deny("get", "namespaces", "")
}

#[test]
fn identity_that_changes_is_refused_until_it_is_back() {
    let bench = Bench::connected(eager());
    let first = bench.session();
    let is = |phase: &str| bench.connection.state().phase() == phase;
    for (lie, number) in [lie, hide].into_iter().zip(first.number + 1..) {
        let rule = lie(&bench);
        bench.until("refused", || is("IdentityRefused"));
        let error = bench.connection.error().unwrap();
        let why = "cluster hub is not connected: the uid of its kube-system";
        assert!(error.contains(why) && bench.failures() > 0, "{error}");
        let metric = "remote_sync_cluster_identity_refused{remote=\"hub\"}";
        assert!(bench.metrics().contains(&format!("{metric} 1\n")));
        bench.server.faults().set_state(State::Refuse);
        bench.until("unreachable", || is("Disconnected"));
        assert!(bench.metrics().contains(&format!("{metric} 0\n")), "nothing answers");
        bench.server.faults().remove(rule);
        bench.server.faults().set_state(State::Up);
        bench.until("connected", || is("Connected"));
        assert_eq!(bench.session().cluster.record.uid, first.cluster.record.uid);
        assert_eq!(bench.session().number, number, "everything is listed again");
    }
}

/// Its last lists may be another cluster's, even if the next probe reaches the right one.
#[test]
fn session_ends_when_a_reader_meets_another_cluster() {
    let bench = Bench::connected(ProbeTiming::default());
    let session = bench.session();
    let rule = lie(&bench);
    assert!(bench.connection.check(&session).is_err());
    assert!(session.stop.raised());
    bench.server.faults().remove(rule);
    bench.connection.offer(Ok(bench.config("other")));
    bench.until("connected", || bench.connection.is_connected());
    assert_eq!(bench.session().number, 2);
}

#[test]
fn identity_that_becomes_readable_begins_another_session() {
    let bench = Bench::new(eager());
    let rule = hide(&bench);
    bench.connection.offer(Ok(bench.config("remote-sync")));
    bench.until("connected", || bench.connection.is_connected());
    bench.wait_for_probes();
    assert_eq!((bench.session().cluster.record.uid, bench.session().number), (None, 1));
    assert!(bench.metrics().contains("remote_sync_cluster_identity_verified{remote=\"hub\"} 0\n"));
    bench.server.faults().remove(rule);
    let number = || bench.connection.session().map_or(0, |session| session.number);
    bench.until("connected", || number() == 2);
    assert!(bench.session().cluster.record.uid.is_some());
    assert!(bench.metrics().contains("remote_sync_cluster_identity_verified{remote=\"hub\"} 1\n"));
}

#[test]
fn identity_that_fails_to_be_read_is_said_and_proves_nothing() {
    let interval = Duration::from_millis(200);
    let bench = Bench::connected(ProbeTiming { interval, ..quick(HOUR) });
    let session = bench.session();
    for code in [500, 503, 429] {
        let rule = bench.answer(code);
        assert!(bench.connection.check(&session).is_err());
        let said = || bench.connection.error().is_some_and(|why| why.contains(&code.to_string()));
        bench.until("said", said);
        bench.server.faults().remove(rule);
        bench.until("well", || bench.failures() == 0);
        bench.connection.check(&session).unwrap();
    }
    assert_eq!(bench.session().number, session.number);
}

#[test]
fn record_of_a_removed_remote_does_not_return() {
    let (records, stop) = (ClusterRecords::default(), Stop::default());
    let admit = || records.admit("hub", &Ok(Uid::parse(OTHER).unwrap()), &stop);
    assert!(matches!(admit(), Ok(Ok(_))));
    stop.raise();
    records.forget("hub");
    assert!(matches!(admit(), Err(Error::Unreachable(_))));
    assert!(!lock(&records.known).forget("hub"));
}

/// A person may have accepted the cluster meanwhile.
#[test]
fn records_are_read_once_and_before_a_refusal() {
    let bench = Bench::connected(ProbeTiming::default());
    let mut records = ClusterRecords::default();
    records.map = Some(("default".into(), "records".into()));
    assert!(records.local.set(Arc::clone(&bench.connection)).is_ok());
    let is_read = |request: &Request| request.verb == "get" && request.resource == "configmaps";
    let uid = |last: u8| Uid::parse(&format!("0d6ff0b4-3b39-4b5b-9f5c-00000000000{last}")).unwrap();
    let cases = [("a", 2, true, 1), ("b", 3, true, 1), ("a", 2, true, 1), ("a", 4, false, 2)];
    for (name, last, is_admitted, reads) in cases {
        let admitted = records.admit(name, &Ok(uid(last)), &Stop::default()).unwrap();
        assert_eq!(admitted.is_ok(), is_admitted, "{name} {last}");
        let requests = bench.server.requests();
        assert_eq!(requests.iter().filter(|request| is_read(request)).count(), reads);
    }
}
