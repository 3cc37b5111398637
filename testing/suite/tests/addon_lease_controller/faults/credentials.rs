//! F21: files that change while they are read.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use shared::{
    config::Auth,
    error::Error,
    kubeconfig::{self, Reach},
};
use suite::{files::Mount, identity, scene::Scene};

use crate::support::{failures, start_with_file, wait_for_renewal};

#[test]
fn f21_files_that_are_swapped_as_a_set_are_taken_as_a_set() {
    let scene = Scene::new("mounted");
    let server = scene.hub.server();
    let mut mount = Mount::new(&scene.directory.path().join("hub"), &["kubeconfig", "token"]);
    let kubeconfig = scene.hub_kubeconfig(&json!({"tokenFile": "token"}));
    let old = server.token(&scene.hub_user(), &[]);
    mount.publish(&[("kubeconfig", &kubeconfig), ("token", &old)]);
    let path = mount.root.join("kubeconfig");
    let sidecar = start_with_file(&scene, &path);
    sidecar.wait_for("lease renewal started");
    for _ in 0..2 {
        let token = server.token(&scene.hub_user(), &[]);
        mount.publish(&[("kubeconfig", &kubeconfig), ("token", &token)]);
        server.revoke(&old);
        wait_for_renewal(&scene);
    }
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn f21_a_swap_while_the_files_are_read_never_mixes_two_versions() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let mut mount = Mount::new(&directory.path().join("hub"), &["kubeconfig", "token"]);
    let authority = dev_apiserver::Ca::new("authority").certificate_pem;
    // The server's port and the token carry the version.
    let mut publish = move |version: u32| {
        let user = json!({"tokenFile": "token"});
        let address = format!("127.0.0.1:{}", 10_000 + version % 1000);
        let kubeconfig = identity::kubeconfig(&address, &authority, &user).to_string();
        let token = (10_000 + version % 1000).to_string();
        mount.publish(&[("kubeconfig", &kubeconfig), ("token", &token)]);
    };
    publish(0);
    let (over, path) = (AtomicBool::new(false), directory.path().join("hub/kubeconfig"));
    thread::scope(|scope| {
        scope.spawn(|| (1..).take_while(|_| !over.load(SeqCst)).for_each(&mut publish));
        let (start, mut good) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            match kubeconfig::from_file(&path, Reach::Beside) {
                Ok(access) => {
                    good += 1;
                    let Auth::Token(token) = access.auth else { panic!("a token") };
                    over.store(!access.server.ends_with(token.as_str()), SeqCst);
                    assert!(
                        access.server.ends_with(token.as_str()),
                        "{} with {}",
                        access.server,
                        *token
                    );
                }
                // The old version goes away under the reader.
                Err(Error::BadConfig(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        over.store(true, SeqCst);
        assert!(good > 100, "{good} good reads");
    });
}
