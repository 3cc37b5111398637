//! Which cluster it is: read again and again, as the answer may change behind a connection that is well.

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

fn uid(bench: &Bench) -> String {
    match bench.connection.identity() {
        ClusterIdentity::Known(uid) => uid,
        identity => panic!("{identity:?}"),
    }
}

/// Waits for the next read of the identity, and for the connection that may follow from it.
fn read_again(bench: &mut Bench) {
    bench.probe();
    bench.supervisor.run_once();
}

#[test]
fn a_wrong_answer_holds_a_cluster_while_it_lasts() {
    let mut bench = Bench::connected(quick());
    let (uid, first) = (uid(&bench), bench.connection.session().unwrap().number);
    let rule = lie(&bench);
    read_again(&mut bench);
    let changed = ClusterIdentity::Changed { was: uid.clone(), now: OTHER.into() };
    assert_eq!(bench.connection.identity(), changed);
    read_again(&mut bench);
    assert_eq!(bench.connection.session().unwrap().number, first + 1, "the same again is no news");
    bench.server.faults().remove(rule);
    read_again(&mut bench);
    assert_eq!(bench.connection.identity(), ClusterIdentity::Known(uid));
    let session = bench.connection.session().unwrap();
    assert_eq!(session.number, first + 2, "everything is listed anew");
}

#[test]
fn a_known_identity_that_is_forbidden_holds_the_cluster() {
    let mut bench = Bench::connected(quick());
    let uid = uid(&bench);
    let rule = bench.server.faults().deny("get", "namespaces", "");
    read_again(&mut bench);
    let identity = bench.connection.session().unwrap().identity;
    assert!(
        matches!(&identity, ClusterIdentity::Hidden { was, why } if *was == uid && why.contains("403")),
        "{identity:?}"
    );
    assert_eq!(bench.connection.health().phase, Phase::IdentityHidden);
    bench.server.faults().remove(rule);
    read_again(&mut bench);
    assert_eq!(bench.connection.identity(), ClusterIdentity::Known(uid));
}

#[test]
fn an_identity_that_becomes_known_begins_another_session() {
    let mut bench = Bench::new(quick());
    let rule = bench.server.faults().deny("get", "namespaces", "");
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    read_again(&mut bench);
    let session = bench.connection.session().unwrap();
    assert_eq!(session.number, 1);
    assert!(matches!(session.identity, ClusterIdentity::Unknown(_)), "{:?}", session.identity);
    bench.server.faults().remove(rule);
    read_again(&mut bench);
    assert_eq!((uid(&bench), bench.connection.session().unwrap().number), (uid(&bench), 2));
}

#[test]
fn an_unreadable_identity_is_told_and_proves_nothing() {
    let mut bench = Bench::connected(quick());
    let (known, session) = (bench.connection.identity(), bench.connection.session().unwrap());
    for code in [500, 503, 429] {
        let broken = Action::Answer { code, body: None, retry_after: None };
        let rule = bench.server.faults().add(Rule::new(broken).resource("namespaces"));
        assert!(bench.connection.is_still_there(&session).is_err());
        bench.probe();
        let unread = bench.connection.health().unread.unwrap();
        assert!(unread.contains(&code.to_string()), "{unread}");
        bench.server.faults().remove(rule);
        assert!(bench.connection.is_still_there(&session).unwrap());
        assert_eq!(bench.connection.health().unread, None);
    }
    assert_eq!(bench.connection.identity(), known);
    assert_eq!(bench.connection.session().unwrap().number, session.number);
}

#[test]
fn a_uid_accepted_at_run_time_is_the_clusters_own() {
    let mut bench = Bench::connected(quick());
    lie(&bench);
    read_again(&mut bench);
    assert_eq!(bench.connection.health().phase, Phase::IdentityChanged);
    bench.connection.accept(Some("another".into()));
    read_again(&mut bench);
    assert_eq!(bench.connection.health().phase, Phase::IdentityChanged);
    bench.connection.accept(Some(OTHER.into()));
    bench.supervisor.run_once();
    bench.supervisor.run_once();
    assert_eq!(bench.connection.identity(), ClusterIdentity::Known(OTHER.into()));
    assert!(bench.connection.is_accepted(OTHER) && bench.connection.is_genuine(OTHER));
}

#[test]
fn a_uid_for_which_a_cluster_was_held_is_not_remembered() {
    let mut bench = Bench::new(quick());
    let rule = lie(&bench);
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    assert_eq!(uid(&bench), OTHER);
    assert!(bench.connection.hold(Some("another one shows it, too".into())));
    assert!(!bench.connection.hold(Some("another one shows it, too".into())), "no news");
    assert_eq!(bench.connection.health().phase, Phase::IdentityConflict);
    assert!(bench.metrics().contains("remote_sync_cluster_identity_conflict{remote=\"hub\"} 1\n"));
    bench.server.faults().remove(rule);
    read_again(&mut bench);
    assert_ne!(uid(&bench), OTHER);
}

/// Other requests postpone a probe, but not the look at which cluster it is.
#[test]
fn the_identity_is_read_in_each_interval_whatever_else_is_asked() {
    let timing = ProbeTiming { interval: Duration::from_millis(100), ..quick() };
    let mut bench = Bench::connected(timing);
    let client = bench.connection.client().unwrap();
    let reads = |bench: &Bench| {
        let requests = bench.server.requests();
        requests.iter().filter(|request| request.path.ends_with("/kube-system")).count()
    };
    let (before, started) = (reads(&bench), Instant::now());
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(50));
        client.text("/livez").unwrap();
        bench.supervisor.run_once();
    }
    let most = started.elapsed().as_millis() as usize / 100 + 1;
    let count = reads(&bench) - before;
    assert!((3..=most).contains(&count), "{count} reads, at most {most}");
}

#[test]
fn only_a_change_of_identity_is_a_reason_to_reconnect() {
    use super::super::identity::reason_to_reconnect;
    let known = |uid: &str| ClusterIdentity::Known(uid.into());
    let unknown = |why: &str| ClusterIdentity::Unknown(why.into());
    let hidden = |why: &str| ClusterIdentity::Hidden { was: "1".into(), why: why.into() };
    let changed = |now: &str| ClusterIdentity::Changed { was: "1".into(), now: now.into() };
    for (before, now, news) in [
        (known("1"), known("1"), false),
        (known("1"), known("2"), true),
        (known("1"), hidden("a"), true),
        (known("1"), changed("2"), true),
        (unknown("a"), unknown("b"), false),
        (unknown("a"), known("1"), true),
        (hidden("a"), hidden("b"), false),
        (hidden("a"), known("1"), true),
        (hidden("a"), changed("2"), true),
        (changed("2"), changed("2"), false),
        (changed("2"), changed("3"), true),
        (changed("2"), known("1"), true),
        (changed("2"), hidden("a"), true),
    ] {
        let reason = reason_to_reconnect(&before, &now);
        assert_eq!(reason.is_some(), news, "{before:?} {now:?}: {reason:?}");
    }
}
