//! Which cluster it is: read again and again, as the answer may change behind a connection that is well.

use dev_apiserver::State;
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

/// Waits for the next probe, and for the connection that may follow from it.
fn read_again(bench: &mut Bench) {
    bench.probe();
    bench.probe();
}

#[test]
fn identity_that_changes_is_refused_until_it_is_back() {
    let mut bench = Bench::connected(eager());
    let (uid, first) = (bench.uid(), bench.connection.session().unwrap().number);
    let lies: [fn(&Bench) -> u64; 2] =
        [lie, |bench| bench.server.faults().deny("get", "namespaces", "")];
    for (lie, number) in lies.into_iter().zip(first + 1..) {
        let rule = lie(&bench);
        read_again(&mut bench);
        assert!(is_down(&bench.connection));
        let error = bench.connection.error().unwrap();
        assert_eq!(bench.connection.state().phase(), "IdentityRefused");
        assert!(
            error.contains("cluster hub is not connected: the uid of its kube-system"),
            "{error}"
        );
        assert!(bench.connection.state().schedule.failures > 0);
        let metric = "remote_sync_cluster_identity_refused{remote=\"hub\"}";
        assert!(bench.metrics().contains(&format!("{metric} 1\n")));
        bench.server.faults().set_state(State::Refuse);
        bench.probe();
        assert_eq!(bench.connection.state().phase(), "Disconnected");
        assert!(bench.metrics().contains(&format!("{metric} 0\n")), "nothing answers");
        bench.server.faults().set_state(State::Up);
        bench.server.faults().remove(rule);
        read_again(&mut bench);
        assert_eq!(bench.uid(), uid);
        let session = bench.connection.session().unwrap();
        assert_eq!(session.number, number, "everything is listed again");
    }
}

/// Its last lists may be another cluster's, even if the next probe reaches the right one.
#[test]
fn session_ends_when_a_reader_meets_another_cluster() {
    let mut bench = Bench::connected(ProbeTiming::default());
    let session = bench.connection.session().unwrap();
    let rule = lie(&bench);
    assert!(bench.connection.check(&session).is_err());
    assert!(session.stop.raised() && is_down(&bench.connection));
    bench.server.faults().remove(rule);
    bench.supervisor.run_once();
    bench.supervisor.run_once();
    assert_eq!(bench.sessions(), (2, true));
}

#[test]
fn identity_that_becomes_readable_begins_another_session() {
    let mut bench = Bench::new(eager());
    let rule = bench.server.faults().deny("get", "namespaces", "");
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    read_again(&mut bench);
    assert_eq!((bench.uid(), bench.connection.session().unwrap().number), (None, 1));
    assert!(bench.metrics().contains("remote_sync_cluster_identity_verified{remote=\"hub\"} 0\n"));
    bench.server.faults().remove(rule);
    read_again(&mut bench);
    assert!(bench.uid().is_some());
    assert_eq!(bench.connection.session().unwrap().number, 2);
    assert!(bench.metrics().contains("remote_sync_cluster_identity_verified{remote=\"hub\"} 1\n"));
}

#[test]
fn identity_that_fails_to_be_read_is_said_and_proves_nothing() {
    let mut bench = Bench::connected(quick());
    let (known, session) = (bench.uid(), bench.connection.session().unwrap());
    for code in [500, 503, 429] {
        let broken = Action::Answer { code, body: None, retry_after: None };
        let rule = bench.server.faults().add(Rule::new(broken).resource("namespaces"));
        assert!(bench.connection.check(&session).is_err());
        bench.probe();
        let error = bench.connection.error().unwrap();
        assert!(error.contains(&code.to_string()), "{error}");
        bench.server.faults().remove(rule);
        bench.connection.check(&session).unwrap();
    }
    assert_eq!(bench.uid(), known);
    assert_eq!(bench.connection.session().unwrap().number, session.number);
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
