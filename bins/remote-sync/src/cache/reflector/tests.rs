//! A kind with too many objects, and checks of the cluster.

use std::{sync::atomic::AtomicU64, thread};

use apiclient::{
    client::{Preconditions, Propagation},
    resource::CONFIGMAPS,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    connection::{ProbeTiming, tests::Bench},
    model::object::Cached,
};

/// Counts how often the kind is resolved.
struct Versions(Arc<AtomicU64>);

impl Watched for Versions {
    type Object = ();

    fn find_kind(&self, _session: &ClusterSession) -> Result<ApiResource> {
        self.0.fetch_add(1, Relaxed);
        Ok(kind())
    }

    fn covers(&self, _namespace: &str, name: &str) -> bool {
        ["one", "two"].contains(&name)
    }

    fn read(&self, object: &Value) -> Option<Cached<()>> {
        let uid = Uid::of(&object["metadata"]["uid"])?;
        let version = object["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
        Some(Cached { uid, version, large: false, value: () })
    }

    fn changed(&self, _key: &str, _object: Option<&Value>, _urgent: bool) {}
}

fn kind() -> ApiResource {
    ApiResource { resource: CONFIGMAPS.clone(), namespaced: true, status: false }
}

fn reflector(
    cluster: &Arc<Connection>,
    store: &Arc<ObjectStore<()>>,
    looks: &Arc<AtomicU64>,
) -> Reflector<Versions> {
    Reflector {
        cluster: cluster.clone(),
        store: store.clone(),
        kind: "configmaps".into(),
        namespace: Some("default".into()),
        name: None,
        supervisor: Stop::default(),
        watched: Versions(looks.clone()),
    }
}

/// Returns whether `done` became true within 10 s.
fn wait_until(done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    done()
}

#[test]
fn kind_that_overflows_by_an_event_is_listed_again() {
    let bench = Bench::connected(ProbeTiming::default());
    let (cluster, session) = (&bench.connection, bench.session());
    let store = ObjectStore::new(&Arc::default(), 1);
    let reflector = reflector(cluster, &store, &Arc::default());
    let (watcher, backoff) = (Watcher::default(), Backoff::new(MAX_WAIT));
    let mut progress = Progress { watcher, backoff, fresh: true };
    let place = |name| CONFIGMAPS.object("default", name);
    let create = |name| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        session.client.create(&place(name), &map).unwrap();
    };
    let number = session.number;
    store.set_kind(Some(Arc::new(kind())));
    create("one");
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| store.is_complete(number));
            create("two");
        });
        reflector.run(&session, &kind(), &mut progress).unwrap_err()
    });
    assert!(matches!(error, Error::TooLarge(_)), "{error}");
    assert_eq!((store.len(), store.is_complete(number)), (0, false));
    assert!(reflector.fail(error, &mut progress) >= RELIST_INTERVAL / 2);
    session
        .client
        .delete(&place("two"), Propagation::Background, &Preconditions::default())
        .unwrap();
    let complete = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let complete = wait_until(|| store.is_complete(number));
            session.stop.raise();
            session.client.close();
            complete
        });
        // The end of the session may fail its next request.
        let _ = reflector.run(&session, &kind(), &mut progress);
        waiter.join().unwrap()
    });
    assert!(complete && store.has(&key::of("default", "one")));
}

#[test]
fn all_but_the_first_list_and_its_watch_look_at_the_kind_again() {
    let bench = Bench::connected(ProbeTiming::default());
    let (cluster, session) = (&bench.connection, bench.session());
    let looks = Arc::new(AtomicU64::new(0));
    let store = ObjectStore::new(&Arc::default(), 1);
    store.set_kind(Some(Arc::new(kind())));
    let reflector = reflector(cluster, &store, &looks);
    let failure = Error::Gone("the list took too long".into());
    let (list, failed) = (|| Event::Init { rewound: false }, || Event::Failed(&failure));
    for (events, expected) in [
        (vec![list(), Event::Watching], 0),
        (vec![list(), Event::Watching, Event::Watching], 1),
        (vec![list(), list(), Event::Watching], 0),
        (vec![list(), failed(), list()], 1),
        (vec![failed(), list(), Event::Watching], 2),
    ] {
        let (watcher, backoff) = (Watcher::default(), Backoff::new(MAX_WAIT));
        let mut progress = Progress { watcher, backoff, fresh: true };
        looks.store(0, Relaxed);
        for event in events {
            assert!(reflector.step(event, &session, &kind(), &mut progress).unwrap());
        }
        assert_eq!(looks.load(Relaxed), expected);
    }
}
