//! Clustercache's tests of one accessor: TestConnect, TestDisconnect, TestHealthCheck, TestWatch.

use super::*;

/// What ends the use of credentials.
fn missing() -> Result<ClusterConfig> {
    Err(Error::NotFound("there is no Secret fleet/hub-kubeconfig".into()))
}

#[test]
fn connecting_without_a_secret_fails() {
    let mut bench = Bench::new(ProbeTiming::default());
    assert!(is_down(&bench.connection), "before the first try");
    bench.connection.offer(missing());
    bench.supervisor.run_once();
    assert!(is_down(&bench.connection));
    assert_eq!(
        bench.connection.error().as_deref(),
        Some("there is no Secret fleet/hub-kubeconfig")
    );
    let schedule = bench.schedule();
    assert!(schedule.last_probe.is_some());
    assert_eq!(schedule.failures, 1);
    assert_eq!(bench.connection.state().phase(), "Disconnected");
}

#[test]
fn a_connection_is_made_once_and_ends_when_withdrawn() {
    let mut bench = Bench::new(quick());
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    let session = bench.connection.session().unwrap();
    let schedule = bench.schedule();
    assert_eq!((bench.connection.state().phase(), schedule.failures), ("Connected", 0));
    assert!(schedule.last_probe.is_some() && bench.connection.error().is_none());
    assert!(session.cluster.uid.is_some());
    let namespaces = apiclient::resource::Resource::v1("", "namespaces", "Namespace");
    session.client.get(&namespaces.cluster_object("default")).unwrap();
    let all = session.client.document("/api/v1/namespaces").unwrap();
    assert!(all["items"].as_array().unwrap().len() >= 4);
    assert_eq!(bench.sessions(), (1, true));

    // Connecting again changes nothing.
    bench.supervisor.run_once();
    bench.probe();
    assert_eq!(bench.connection.session().unwrap().number, session.number);
    assert!(bench.connection.client().unwrap().is(&session.client));
    assert!(!session.stop.raised());

    let before = bench.schedule().last_probe;
    bench.connection.offer(missing());
    // Nor does disconnecting again.
    for _ in 0..2 {
        bench.supervisor.run_once();
        assert!(is_down(&bench.connection) && session.stop.raised());
        assert_eq!((bench.sessions(), bench.schedule().last_probe), ((1, false), before));
    }
}

/// TestHealthCheck: 401, 400, either after four failures, 200, and the failures counted.
#[test]
fn a_probes_answer_is_counted_and_told() {
    for (code, before, connected, failures) in [
        (401, 0, false, 1),
        (400, 0, true, 1),
        (400, 4, false, 5),
        (401, 4, false, 5),
        (200, 0, true, 0),
    ] {
        let mut bench = Bench::connected(quick());
        bench.answer(400);
        for _ in 0..before {
            bench.probe();
        }
        bench.server.faults().clear();
        if code != 200 {
            bench.answer(code);
        }
        let (last, count) = (bench.schedule(), bench.probes());
        bench.probe();
        let now = bench.schedule();
        assert_eq!(bench.probes(), count + 1, "{code}");
        assert_eq!(bench.connection.is_connected(), connected, "{code} after {before}");
        assert_eq!(now.failures, failures, "{code} after {before}");
        assert!(now.last_probe > last.last_probe);
        let label = if code == 200 { "success" } else { "error" };
        let good = u8::from(code == 200);
        let metrics = bench.metrics();
        for line in [
            format!("remote_sync_cluster_healthy{{remote=\"hub\"}} {good}\n"),
            format!(
                "remote_sync_cluster_probes_total{{remote=\"hub\",result=\"{label}\"}} {}\n",
                before + 1
            ),
        ] {
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
    }
}

/// A watch needs a session, gets the same one as often as it asks, and another one once that has ended.
#[test]
fn a_session_lasts_until_the_connection_ends() {
    let mut bench = Bench::new(quick());
    assert!(bench.connection.session().is_err(), "not connected");
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    let first = bench.connection.session().unwrap();
    assert_eq!(bench.connection.session().unwrap().number, first.number);
    bench.answer(401);
    bench.probe();
    assert!(first.stop.raised());
    bench.server.faults().clear();
    std::thread::sleep(Duration::from_millis(2));
    bench.supervisor.run_once();
    let second = bench.connection.session().unwrap();
    assert_eq!((second.number, second.stop.raised()), (first.number + 1, false));
    assert!(second.client.text("/livez").is_ok());
    assert!(first.client.text("/livez").is_err(), "nothing can begin on the one before");
}
