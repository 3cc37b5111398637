//! The cases of clustercache's own tests (cluster-api `controllers/clustercache/*_test.go`), named in comments, and
//! cases that it lacks. Left out:
//! - TestClusterCacheConcurrency: the suite has remotes that are dead beside one that is well.
//! - TestReconcile's filter and TestBuildClusterAccessorConfigDefaultTransform,
//!   TestConnectWithDefaultTransform: which clusters are connected is decided elsewhere, and a connection
//!   has no cache whose objects could be transformed.
//! - TestWatch's set of names: a watch is a thread that lives as long as its session.
//! - TestConnect without a Secret, other servers, and servers that never answer: scenarios of the suite have them.

mod identity;
mod model;
mod pure;

use std::time::Duration;

use apiclient::{error::Error, lock::lock, stop::Stop};
use dev_apiserver::{Action, Options, Rule, Server};
use kubeconfig::config::{Auth, ClusterConfig, Trust};
use sidecar::metrics::Metrics;

use super::{schedule::ProbeSchedule, supervisor::Supervisor, *};

const SECOND: Duration = Duration::from_secs(1);

/// A server, its connection, and the supervisor, which the test drives.
struct Bench {
    server: Server,
    connection: Arc<Connection>,
    supervisor: Supervisor,
}

impl Bench {
    fn new(timing: ProbeTiming) -> Self {
        Self::with(timing, |_| {})
    }

    fn with(timing: ProbeTiming, adapt: impl FnOnce(&mut ConnectionConfig)) -> Self {
        let server = Server::start(Options::default()).unwrap();
        let mut settings = settings("hub", timing);
        adapt(&mut settings);
        let connection = Connection::new(settings, &Stop::default());
        let supervisor = Supervisor::new(connection.clone(), Vec::new(), || 0.5);
        Self { server, connection, supervisor }
    }

    /// A connected one.
    fn connected(timing: ProbeTiming) -> Self {
        let mut bench = Self::new(timing);
        bench.connection.offer(Ok(bench.config()));
        bench.supervisor.run_once();
        assert!(bench.connection.is_connected(), "{:?}", bench.connection.to_json());
        bench
    }

    fn config(&self) -> ClusterConfig {
        config(&self.server, "remote-sync")
    }

    /// Waits until a probe is due, and performs it.
    fn probe(&mut self) -> Duration {
        std::thread::sleep(self.connection.settings.timing.interval);
        self.supervisor.run_once()
    }

    fn probes(&self) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|request| request.path.ends_with("/kube-system")).count()
    }

    fn answer(&self, code: u16) {
        self.server.faults().clear();
        let action = Action::Answer { code, body: None, retry_after: None };
        self.server.faults().add(Rule::new(action).resource("namespaces"));
    }

    fn schedule(&self) -> ProbeSchedule {
        self.connection.state().schedule.clone()
    }

    /// The number of sessions so far, and whether there is one.
    fn sessions(&self) -> (u64, bool) {
        let connections = self.connection.state().sessions;
        (connections, self.connection.is_connected())
    }

    fn uid(&self) -> Option<Uid> {
        self.connection.session().unwrap().cluster.uid
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        self.connection.add_to(&mut metrics);
        metrics.to_string()
    }
}

fn settings(name: &str, timing: ProbeTiming) -> ConnectionConfig {
    ConnectionConfig {
        name: name.into(),
        timing,
        request: 2 * SECOND,
        limiter: RateLimiter::new(0, 0),
        records: Arc::new(ClusterRecords::default()),
    }
}

/// A timing with probes that are due at once.
fn quick() -> ProbeTiming {
    ProbeTiming { interval: Duration::from_millis(20), ..ProbeTiming::default() }
}

/// The same with retries that are due at once, too.
fn eager() -> ProbeTiming {
    ProbeTiming { retry: Duration::from_millis(20), ..quick() }
}

fn config(server: &Server, user: &str) -> ClusterConfig {
    ClusterConfig {
        server: server.url(),
        trust: Trust::Bundle(server.ca().certificate_pem.clone().into_bytes()),
        server_name: None,
        identity: None,
        auth: Auth::Token(server.token(user, &["system:masters"]).into()),
        proxy: None,
        namespace: None,
    }
}

fn is_down(connection: &Connection) -> bool {
    let sentence = format!("the connection to cluster {} is down", connection.name());
    matches!(connection.client(), Err(Error::Unreachable(why)) if why == sentence)
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
fn a_secret_that_goes_ends_the_session_and_may_come_back() {
    let mut bench = Bench::connected(ProbeTiming::default());
    let session = bench.connection.session().unwrap();
    bench.connection.offer(Err(Error::NotFound("it was deleted".into())));
    assert_eq!(bench.supervisor.run_once(), 30 * SECOND);
    assert!(is_down(&bench.connection) && session.stop.raised());
    assert_eq!(bench.connection.error().as_deref(), Some("it was deleted"));
    bench.connection.offer(Ok(bench.config()));
    bench.supervisor.run_once();
    assert!(bench.connection.is_connected(), "{:?}", bench.connection.to_json());
}
