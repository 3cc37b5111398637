//! The cases of clustercache's own tests (cluster-api `controllers/clustercache/*_test.go`), named in comments, and
//! cases that it lacks. Left out:
//! - TestClusterCacheConcurrency: the suite has remotes that are dead beside one that is well.
//! - TestReconcile's filter and TestBuildClusterAccessorConfigDefaultTransform,
//!   TestConnectWithDefaultTransform: which clusters are connected is decided elsewhere, and a connection
//!   has no cache whose objects could be transformed.
//! - TestWatch's set of names: a watch is a thread that lives as long as its session; its requests for a
//!   session are in `accessor`.

mod accessor;
mod identity;
mod improvements;
mod model;
mod pure;

use std::time::{Duration, Instant};

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
