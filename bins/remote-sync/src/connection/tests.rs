//! The cases of clustercache's own tests (cluster-api `controllers/clustercache/*_test.go`), named in comments, and
//! cases that it lacks. Left out:
//! - TestClusterCacheConcurrency: the suite has unreachable remotes beside a healthy one.
//! - TestReconcile's filter and TestBuildClusterAccessorConfigDefaultTransform,
//!   TestConnectWithDefaultTransform: which clusters are connected is decided elsewhere, and a connection
//!   has no cache whose objects could be transformed.
//! - TestWatch's set of names: a watch is a thread that lives as long as its session.
//! - TestConnect without a Secret, other servers, and servers that never answer: scenarios of the suite have them.

mod identity;

use std::{thread, time::Duration};

use apiclient::{error::Error, lock::lock, resource::NAMESPACES, stop::Stop};
use dev_apiserver::{Action, Options, Rule, Server};
use kubeconfig::config::{Auth, ClusterConfig, Trust};
use sidecar::metrics::Metrics;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A server and its supervised connection.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) connection: Arc<Connection>,
    credentials: Stop,
    stop: Stop,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

impl Bench {
    /// Without credentials.
    fn new(timing: ProbeTiming) -> Self {
        let (server, stop) = (Server::start(Options::default()).unwrap(), Stop::default());
        let credentials = Stop::default();
        let config = ConnectionConfig {
            name: "hub".into(),
            timing,
            request: 2 * SECOND,
            limiter: RateLimiter::new(0, 0),
            records: Arc::new(ClusterRecords::default()),
            credentials: credentials.clone(),
        };
        let connection = supervisor::start(config, Vec::new(), &stop).unwrap();
        Self { server, connection, credentials, stop }
    }

    pub(crate) fn connected(timing: ProbeTiming) -> Self {
        let bench = Self::new(timing);
        bench.connection.offer(Ok(bench.config("remote-sync")));
        bench.until("connected", || bench.connection.is_connected());
        bench
    }

    fn config(&self, user: &str) -> ClusterConfig {
        ClusterConfig {
            server: self.server.url(),
            trust: Trust::Bundle(self.server.ca().certificate_pem.clone().into_bytes()),
            server_name: None,
            identity: None,
            auth: Auth::Token(self.server.token(user, &["system:masters"]).into()),
            proxy: None,
            namespace: None,
        }
    }

    #[track_caller]
    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < 20 * SECOND, "not {what}: {:?}", self.connection.to_json());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for two probes that begin after this.
    fn wait_for_probes(&self) {
        let probes = || self.connection.state().probes.iter().sum::<u64>();
        let before = probes();
        self.until("probed", || probes() >= before + 2);
    }

    /// Reads of kube-system: probes and attempts to connect.
    fn reads(&self) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|request| request.path.ends_with("/kube-system")).count()
    }

    fn answer(&self, code: u16) -> u64 {
        let action = Action::Answer { code, body: None, retry_after: None };
        self.server.faults().add(Rule::new(action).resource("namespaces"))
    }

    fn failures(&self) -> u32 {
        self.connection.state().failures
    }

    pub(crate) fn session(&self) -> ClusterSession {
        self.connection.session().unwrap()
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        self.connection.add_to(&mut metrics);
        metrics.to_string()
    }
}

/// Probes every 20 ms, and retries after this.
fn quick(retry: Duration) -> ProbeTiming {
    ProbeTiming { retry, interval: Duration::from_millis(20), ..ProbeTiming::default() }
}

/// Probes and retries at once.
fn eager() -> ProbeTiming {
    quick(Duration::from_millis(20))
}

/// TestHealthCheck: 401 ends the connection, and so does the fifth other failure in a row.
#[test]
fn failed_probes_are_counted_and_end_the_connection() {
    // After a 401 the next attempt follows at once, and fails, too.
    for (code, probes, failures) in [(401, 1, 2), (400, 5, 5)] {
        let bench = Bench::connected(quick(HOUR));
        bench.wait_for_probes();
        assert!(bench.metrics().contains("remote_sync_cluster_healthy{remote=\"hub\"} 1\n"));
        bench.answer(code);
        bench.until("lost", || bench.failures() == failures && !bench.connection.is_connected());
        let metrics = bench.metrics();
        for line in [
            "healthy{remote=\"hub\"} 0\n",
            &format!("probes_total{{remote=\"hub\",result=\"error\"}} {probes}\n"),
        ] {
            assert!(metrics.contains(&format!("remote_sync_cluster_{line}")), "{line}{metrics}");
        }
    }
}

#[test]
fn a_sign_of_life_undoes_a_failed_probe() {
    let bench = Bench::connected(quick(HOUR));
    bench.answer(400);
    let failed = || bench.connection.state().probes[1] > 10;
    bench.until("probed", || bench.session().client.text("/livez").is_ok() && failed());
}

#[test]
fn dead_server_is_tried_after_the_retry_or_with_other_credentials() {
    let bench = Bench::new(quick(HOUR));
    bench.answer(500);
    let config = bench.config("remote-sync");
    for (offered, reads) in [(config.clone(), 1), (config, 1), (bench.config("other"), 2)] {
        bench.connection.offer(Ok(offered));
        bench.until("tried", || bench.reads() == reads && bench.failures() as usize == reads);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(bench.reads(), reads);
    }
}

#[test]
fn doubt_halves_the_interval_once() {
    let interval = 4 * SECOND;
    let bench = Bench::connected(ProbeTiming { interval, ..ProbeTiming::default() });
    let begun = Instant::now();
    bench.until("probed", || {
        bench.connection.doubt();
        bench.reads() > 1
    });
    let took = begun.elapsed();
    assert!(took > interval / 4 && took < interval, "{took:?}");
}

#[test]
fn refused_request_has_the_credentials_read_at_once() {
    let bench = Bench::connected(ProbeTiming::default());
    for (code, wakes) in [(500, 0), (401, 1)] {
        let rule = bench.answer(code);
        let asked =
            bench.connection.send(&mut |client| client.get(&NAMESPACES.cluster_object("one")));
        assert_eq!((asked.is_err(), bench.credentials.wakes()), (true, wakes), "{code}");
        bench.server.faults().remove(rule);
    }
}

/// A watch needs a session, gets the same one as often as it asks, and another one once that has ended.
#[test]
fn a_session_lasts_until_the_connection_ends() {
    let bench = Bench::new(eager());
    assert!(bench.connection.session().is_err(), "not connected");
    bench.connection.offer(Ok(bench.config("remote-sync")));
    bench.until("connected", || bench.connection.is_connected());
    let first = bench.session();
    bench.wait_for_probes();
    assert_eq!(bench.session().number, first.number);
    let rule = bench.answer(401);
    bench.until("lost", || first.stop.raised());
    bench.server.faults().remove(rule);
    bench.until("connected", || bench.connection.is_connected());
    let second = bench.session();
    assert_eq!((second.number, second.stop.raised()), (first.number + 1, false));
    assert!(second.client.text("/livez").is_ok());
    assert!(first.client.text("/livez").is_err(), "nothing can begin on the one before");
}

#[test]
fn new_credentials_are_used_without_a_new_connection() {
    let bench = Bench::connected(quick(HOUR));
    let session = bench.session();
    let (certificate, key) = bench.server.client_certificate("me", &["system:masters"], HOUR);
    let (certificate, key) = (certificate.into_bytes(), key.into_bytes().into());
    let identity = Some(kubeconfig::config::KeyPair { certificate, key });
    let certified = ClusterConfig { auth: Auth::None, identity, ..bench.config("me") };
    for new in [bench.config("rotated"), certified] {
        let old = session.client.config();
        bench.connection.offer(Ok(new.clone()));
        bench.until("used", || session.client.config() == new);
        let Auth::Token(old) = &old.auth else { panic!("no token") };
        bench.server.revoke(old);
        // What cannot be used changes nothing.
        bench.connection.offer(Err(Error::BadConfig("half a file".into())));
        bench.wait_for_probes();
        assert_eq!((bench.failures(), bench.session().number), (0, session.number));
    }
    assert!(!session.stop.raised());
}

#[test]
fn a_secret_that_goes_ends_the_session_and_may_come_back() {
    let bench = Bench::connected(ProbeTiming::default());
    let session = bench.session();
    bench.connection.offer(Err(Error::NotFound("it was deleted".into())));
    bench.until("lost", || session.stop.raised());
    let sentence = "the connection to cluster hub is down";
    let error = bench.connection.client().err();
    assert!(matches!(error, Some(Error::Unreachable(why)) if why == sentence));
    assert_eq!(bench.connection.error().as_deref(), Some("it was deleted"));
    bench.connection.offer(Ok(bench.config("remote-sync")));
    bench.until("connected", || bench.connection.is_connected());
}
