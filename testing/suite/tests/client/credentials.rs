//! Credentials that change while requests run.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, Reload, Timeouts},
    error::Error,
    reflector::Store,
    stop::Stop,
    watch::Selection,
};
use kubeconfig::config::{Auth, ClusterConfig};
use serde_json::Value;

use crate::{access, client, lease, server, timing};

fn with_token(mut access: ClusterConfig, token: &str) -> ClusterConfig {
    access.identity = None;
    access.auth = Auth::Token(token.to_owned().into());
    access
}

#[test]
fn swapped_identity_is_used_and_leaves_nothing_open() {
    let (server, first) = server();
    let client = client(first);
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let _ = client.get(&lease("x"));
    let before = descriptors();
    for round in 0..100 {
        let user = format!("user-{round}");
        assert!(client.swap(access(&server, &user)).unwrap());
        let _ = client.get(&lease("x"));
        assert_eq!(server.requests().last().unwrap().user, user);
    }
    // Other tests run in this process.
    assert!(descriptors() < before + 100, "{before} became {}", descriptors());
}

#[test]
fn new_token_is_used_from_the_next_request_on() {
    let (server, access) = server();
    let (one, two) = (server.token("one", &[]), server.token("two", &[]));
    let client = client(with_token(access.clone(), &one));
    let _ = client.get(&lease("x"));
    client.swap(with_token(access, &two)).unwrap();
    let _ = client.get(&lease("x"));
    let users: Vec<_> = server.requests().into_iter().map(|request| request.user).collect();
    assert_eq!(users, ["one", "two"]);
}

#[test]
fn the_same_credentials_change_nothing() {
    let (server, access) = server();
    let client = client(access.clone());
    let _ = client.get(&lease("x"));
    assert!(!client.swap(access).unwrap());
    let _ = client.get(&lease("x"));
    assert_eq!(server.counters().connections, 1);
}

#[test]
fn refused_request_rereads_credentials_and_retries_once() {
    let (server, access) = server();
    let (old, new) = (server.token("old", &[]), server.token("new", &[]));
    let loads = Arc::new(AtomicUsize::new(0));
    let (count, fresh) = (loads.clone(), with_token(access.clone(), &new));
    let load = Box::new(move || {
        count.fetch_add(1, SeqCst);
        Ok(fresh.clone())
    });
    let client =
        Client::new("the hub", with_token(access, &old), Reload::WhenRefused(load), timing())
            .unwrap();
    let _ = client.get(&lease("x"));
    assert_eq!(loads.load(SeqCst), 0);
    server.revoke(&old);
    assert!(matches!(client.get(&lease("x")), Err(Error::NotFound(_))));
    assert_eq!(loads.load(SeqCst), 1);
    server.revoke(&new);
    assert!(matches!(client.get(&lease("x")), Err(Error::Unauthorized(_))), "one retry, no loop");
}

#[test]
fn unloadable_credentials_leave_the_old_ones_in_use() {
    let (server, access) = server();
    let token = server.token("old", &[]);
    let load = Box::new(|| Err(Error::BadConfig("half written".into())));
    let old = with_token(access, &token);
    let client = Client::new("the hub", old.clone(), Reload::FromFiles(load), timing()).unwrap();
    server.revoke(&token);
    assert!(matches!(client.get(&lease("x")), Err(Error::Unauthorized(_))));
    assert_eq!(client.config(), old);
}

#[test]
fn expired_certificate_is_refused_on_a_kept_connection() {
    let (server, mut access) = server();
    let (certificate, key) = server.client_certificate("brief", &[], Duration::from_secs(2));
    let identity = access.identity.as_mut().unwrap();
    (identity.certificate, identity.key) = (certificate.into_bytes(), key.into_bytes().into());
    let client = client(access);
    assert!(matches!(client.get(&lease("x")), Err(Error::NotFound(_))));
    assert!(client.certificate_expiry().is_some());
    suite::eventually("it ends", || matches!(client.get(&lease("x")), Err(Error::Unauthorized(_))));
    assert_eq!(server.counters().connections, 1);
}

#[test]
fn running_watch_comes_back_with_the_new_identity() {
    let (server, first) = server();
    let client = Arc::new(client(first));
    let stop = Stop::default();
    let watcher = std::thread::spawn({
        let (client, stop) = (client.clone(), stop.clone());
        move || {
            let store = Store::<Value>::new(1);
            store.run(&client, &Selection::all(lease("x")), &stop, &mut Some, &mut || {});
        }
    });
    let watches = |user: &str| {
        server
            .requests()
            .iter()
            .filter(|request| request.verb == "watch" && request.user == user)
            .count()
    };
    suite::eventually("the first watch", || watches("sidecar") == 1);
    client.swap(access(&server, "other")).unwrap();
    suite::eventually("the second watch", || watches("other") == 1);
    stop.raise();
    // Ends the stream that it waits on.
    client.swap(access(&server, "last")).unwrap();
    watcher.join().unwrap();
}

/// So often a client looks at its files.
const LOOK: Duration = Duration::from_millis(200);

#[test]
fn credential_files_are_read_again_when_it_is_time() {
    let (server, access) = server();
    let (old, new) = (server.token("old", &[]), server.token("new", &[]));
    let fresh = with_token(access.clone(), &new);
    let load = Box::new(move || Ok(fresh.clone()));
    let timing = Timeouts { files: LOOK, ..timing() };
    let made = Instant::now();
    let client =
        Client::new("the hub", with_token(access, &old), Reload::FromFiles(load), timing).unwrap();
    let user = || {
        let _ = client.get(&lease("x"));
        server.requests().last().unwrap().user.clone()
    };
    let first = user();
    // On a busy machine it may be time already.
    assert!(first == "old" || made.elapsed() > LOOK, "{first}");
    suite::pause(250);
    assert_eq!(user(), "new", "without a 401");
    let again = made.elapsed().as_millis() / LOOK.as_millis();
    let (reloads, failures) = client.requests().reloads();
    assert!((1..=again).contains(&u128::from(reloads)) && failures == 0, "{reloads} {failures}");
}

/// Whatever two threads swap at once, the last request speaks as what the client says it is.
#[test]
fn concurrent_swaps_leave_one_identity() {
    let (server, first) = server();
    let client = client(first);
    let (left, right) = (access(&server, "left"), access(&server, "right"));
    std::thread::scope(|scope| {
        for access in [&left, &right] {
            scope.spawn(|| (0..50).for_each(|_| drop(client.swap(access.clone()))));
        }
    });
    let _ = client.get(&lease("x"));
    let user = if client.config() == left { "left" } else { "right" };
    assert_eq!(server.requests().last().unwrap().user, user);
}
