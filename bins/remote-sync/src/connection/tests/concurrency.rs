//! TestClusterCacheConcurrency: many clusters at once, a fifth of them dead; a hundred times faster than
//! upstream's, which retries after 30 s and probes every 10 s. Half of the dead ones refuse connections, the
//! others are silent.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use super::*;

const CLUSTERS: usize = 100;
const RETRY: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(100);
/// Delay that a busy machine may add.
const SLACK: Duration = Duration::from_secs(2);

#[test]
fn test_cluster_cache_concurrency() {
    let server = Server::start(Options::default()).unwrap();
    let closed = closed_port();
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let stop = Stop::default();
    let timing = ProbeTiming { retry: RETRY, interval: INTERVAL, timeout: SECOND, failures: 5 };
    let events = Arc::new(AtomicUsize::new(0));
    let good = config(&server, "remote-sync");
    let connections: Vec<Arc<Connection>> = (0..CLUSTERS)
        .map(|i| {
            let settings = settings(&format!("cluster-{i}"), timing);
            let count = events.clone();
            let notify = Box::new(move |_| {
                count.fetch_add(1, Relaxed);
            });
            let listener = Listener { silences: Vec::new(), notify };
            let connection = start(settings, CredentialSource::Offered, listener, &stop).unwrap();
            let address = match i % 10 {
                0 => closed.to_string(),
                1 => hole.local_addr().unwrap().to_string(),
                _ => server.address().to_string(),
            };
            connection
                .offer(Ok(ClusterConfig { server: format!("https://{address}"), ..good.clone() }));
            connection
        })
        .collect();
    let dead = |i: usize| i % 10 < 2;

    let started = Instant::now();
    let settled = |(i, connection): (usize, &Arc<Connection>)| match dead(i) {
        true => connection.health().last_connect_failure.is_some(),
        false => connection.is_connected(),
    };
    while !connections.iter().enumerate().all(settled) {
        assert!(started.elapsed() < 20 * SECOND, "each is connected or dead");
        thread::sleep(Duration::from_millis(10));
    }

    // One consumer per cluster, all at once.
    let until = Instant::now() + 3 * SECOND;
    let consumers: Vec<_> = connections
        .iter()
        .enumerate()
        .map(|(i, connection)| {
            let connection = connection.clone();
            let role = match i {
                _ if dead(i) => Role::Dead,
                _ if i % 2 == 0 => Role::Quiet,
                _ => Role::Busy,
            };
            thread::spawn(move || consume(&connection, role, until))
        })
        .collect();
    for consumer in consumers {
        consumer.join().unwrap();
    }
    assert_eq!(events.load(Relaxed), CLUSTERS * 8 / 10, "each healthy one was connected, once");
    stop.raise();
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Dead,
    /// Nothing but its probes says that it is well.
    Quiet,
    /// Its consumer's requests say so.
    Busy,
}

/// Tries to connect in vain, or good probes.
fn count(connection: &Connection, role: Role) -> u64 {
    match role {
        Role::Dead => connection.health().failures.into(),
        _ => connection.state().health.probes.0,
    }
}

/// What holds for a cluster at every moment, and that the supervisor goes on, however long that takes here.
fn consume(connection: &Connection, role: Role, until: Instant) {
    let goal = count(connection, role) + if role == Role::Busy { 0 } else { 3 };
    let patience = until + 30 * SECOND;
    while Instant::now() < until || count(connection, role) < goal {
        assert!(Instant::now() < patience, "it is neither tried nor probed any more");
        let (asked, client) = (Instant::now(), connection.client());
        assert!(asked.elapsed() < SLACK, "a reader waits for nothing");
        let health = connection.health();
        if role == Role::Dead {
            assert!(is_down(connection));
            // A silent server takes the timeout as well.
            let failed = health.last_connect_failure.unwrap().elapsed();
            assert!(failed <= RETRY.mul_f64(1.2) + SECOND + SLACK, "{failed:?}");
            assert!(health.error.unwrap().contains("is not reachable"));
        } else {
            let client = client.unwrap();
            if role == Role::Busy {
                assert_eq!(client.text("/livez").unwrap().0, 200);
            }
            let success = connection.health().last_success.unwrap().elapsed();
            assert!(success <= INTERVAL.mul_f64(1.2) + SLACK, "{success:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// An address without a listener.
fn closed_port() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
