//! TestReconcile: one cluster from its creation to its end, step by step.

use std::collections::BTreeSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::*;

fn between(low: u32, wait: Duration, high: u32) -> bool {
    low * SECOND <= wait && wait <= high * SECOND
}

#[test]
fn test_reconcile() {
    let mut bench = Bench::new(ProbeTiming::default());
    // A queue as consumers have it, without duplicates.
    let queue = Arc::new(Mutex::new(BTreeSet::new()));
    let push = queue.clone();
    let notify = Box::new(move |_| {
        lock(&push).insert("fleet/hub");
    });
    let notifier = Notifier::new(Listener { silences: Vec::new(), notify }, Instant::now());
    bench.supervisor =
        Supervisor::new(bench.connection.clone(), CredentialSource::Offered, notifier, || 0.5);

    // s1: nothing was offered yet.
    assert_eq!(bench.supervisor.run_once(), 10 * SECOND, "s1");
    let health = bench.connection.health();
    assert_eq!((health.phase, health.failures), (Phase::Waiting, 0), "s1");

    let feed = |secret| offer_secret(&bench.connection, "fleet/hub-kubeconfig", secret, None);
    feed(None);
    assert_eq!(bench.supervisor.run_once(), 30 * SECOND, "s3");
    let kubeconfig = BASE64_STANDARD.encode(bench.server.kubeconfig());
    feed(Some(&json!({"data": {"value": kubeconfig}})));
    assert!(between(28, bench.supervisor.run_once(), 30), "s4");
    assert!(is_down(&bench.connection), "s4");
    bench.age(30 * SECOND);
    assert!(between(8, bench.supervisor.run_once(), 10), "s5");
    assert!(bench.connection.is_connected(), "s5: {:?}", bench.connection.health());
    assert!(between(8, bench.supervisor.run_once(), 10), "s6");
    assert_eq!(bench.probes(), 1, "s6: only that of connecting");
    bench.age(10 * SECOND);
    bench.connection.doubt();
    assert!(between(8, bench.supervisor.run_once(), 10), "s7");
    assert_eq!((bench.probes(), bench.connection.health().failures), (2, 0), "s7");

    bench.answer(401);
    bench.age(10 * SECOND);
    bench.connection.doubt();
    assert_eq!(bench.supervisor.run_once(), Duration::from_millis(1), "s8");
    let health = bench.connection.health();
    assert_eq!((health.phase, health.failures), (Phase::Disconnected, 1), "s8");
    assert!(is_down(&bench.connection), "s8");

    bench.connection.stop.raise();
    bench.supervisor.run();
    assert!(is_down(&bench.connection), "s9");
    assert_eq!(lock(&queue).len(), 1, "s9");
    assert_eq!(Arc::strong_count(&bench.connection), 1, "s9: nothing else keeps it");
}
