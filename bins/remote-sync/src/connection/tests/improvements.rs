//! Cases that clustercache lacks.

use std::{net::TcpListener, thread};

use dev_apiserver::State;

use super::*;

/// Waits, for as long as a busy machine may need.
#[track_caller]
fn until(what: &str, connection: &Connection, done: &dyn Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < 60 * SECOND, "{what}: {:?}", connection.to_json());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn new_credentials_are_used_without_a_new_connection() {
    let mut bench = Bench::connected(quick());
    let session = bench.connection.session().unwrap();
    let (certificate, key) =
        bench.server.client_certificate("me", &["system:masters"], 3600 * SECOND);
    let (certificate, key) = (certificate.into_bytes(), key.into_bytes().into());
    let identity = Some(kubeconfig::config::KeyPair { certificate, key });
    let certified = ClusterConfig { auth: Auth::None, identity, ..bench.config() };
    for new in [config(&bench.server, "rotated"), certified] {
        let old = session.client.config();
        bench.connection.offer(Ok(new.clone()));
        bench.supervisor.run_once();
        assert_eq!(session.client.config(), new);
        let Auth::Token(old) = &old.auth else { panic!("no token") };
        bench.server.revoke(old);
        bench.probe();
        assert_eq!(bench.connection.state().schedule.failures, 0);
        assert_eq!(bench.connection.session().unwrap().number, session.number);
        assert!(!session.stop.raised());
    }
    assert_eq!(bench.sessions(), (1, true));
}

#[test]
fn another_server_is_refused_and_the_first_one_connected_anew() {
    let mut bench = Bench::connected(eager());
    let session = bench.connection.session().unwrap();
    let other = Server::start(Options::default()).unwrap();
    bench.connection.offer(Ok(config(&other, "me")));
    bench.supervisor.run_once();
    assert!(session.stop.raised() && is_down(&bench.connection));
    assert_eq!(bench.sessions(), (1, false));
    bench.supervisor.run_once();
    assert_eq!(bench.connection.state().phase(), "IdentityRefused");
    assert!(bench.metrics().contains("remote_sync_cluster_identity_refused{remote=\"hub\"} 1\n"));
    assert!(bench.metrics().contains("remote_sync_cluster_connected{remote=\"hub\"} 0\n"));
    // Back to the first server.
    bench.connection.offer(Ok(bench.config()));
    bench.probe();
    let third = bench.connection.session().unwrap();
    assert!(!third.client.is(&session.client), "the old one was closed");
    assert_eq!(third.cluster, session.cluster);
    assert!(bench.metrics().contains("remote_sync_cluster_identity_refused{remote=\"hub\"} 0\n"));
}

#[test]
fn what_cannot_be_used_changes_nothing_for_what_is_in_use() {
    let mut bench = Bench::connected(quick());
    for _ in 0..2 {
        bench.connection.offer(Err(Error::BadConfig("half a file".into())));
        bench.probe();
    }
    assert!(bench.connection.is_connected(), "{:?}", bench.connection.to_json());
    assert_eq!(bench.sessions(), (1, true));
}

#[test]
fn a_secret_that_comes_back_is_connected_at_once() {
    let mut bench = Bench::connected(ProbeTiming::default());
    bench.connection.offer(Err(Error::NotFound("it was deleted".into())));
    assert_eq!(bench.supervisor.run_once(), 30 * SECOND);
    assert_eq!(bench.connection.error().as_deref(), Some("it was deleted"));
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    assert!(bench.connection.is_connected(), "{:?}", bench.connection.to_json());
}

/// A server that accepts connections and is silent costs a probe its timeout, and readers nothing.
#[test]
fn a_black_hole_is_bounded_and_nobody_waits_for_it() {
    let timing = ProbeTiming { timeout: Duration::from_millis(500), ..quick() };
    let mut bench = Bench::connected(timing);
    bench.server.faults().set_state(State::Hang);
    for _ in 0..5 {
        bench.probe();
    }
    assert!(is_down(&bench.connection));

    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", hole.local_addr().unwrap());
    let config = ClusterConfig { server, ..bench.config() };
    let timing = ProbeTiming { timeout: 3 * SECOND, ..quick() };
    let stop = Stop::default();
    let connection = supervisor::start(settings("hole", timing), Vec::new(), &stop).unwrap();
    connection.offer(Ok(config));
    assert!(is_down(&connection));
    assert!(connection.error().is_none(), "the reader did not wait for the attempt");
    until("it fails", &connection, &|| {
        connection.error().is_some_and(|why| why.contains("no answer in time"))
    });
    stop.raise();
}
