//! Startup with unusable input, which is repaired later: the process goes on and works then.

use suite::{
    eventually,
    identity::token_in,
    needs::{Need, needs},
    spoke::Spoke,
};

use crate::joining::support::{bootstrap_unknown, joined, roles, settled, waits};

// ocm spokeagent_recovery_test.go:25
#[test]
fn the_bootstrap_file_comes_later_and_in_halves() {
    let spoke = Spoke::auto("recover-file");
    let whole = spoke.bootstrap_kubeconfig();
    let file = spoke.directory.path().join("bootstrap.kubeconfig");
    let mut sidecar = spoke.start_as(|command| {
        command.arg("-bootstrap-kubeconfig").arg(&file);
    });
    sidecar.wait_for("no valid bootstrap kubeconfig");
    spoke.write_bootstrap(&whole[..whole.len() / 2]);
    sidecar.wait_for_times("no valid bootstrap kubeconfig", 2);
    waits(&spoke, &mut sidecar, "there is no bootstrap kubeconfig");
    spoke.write_bootstrap(&whole);
    settled(&spoke, &sidecar);
}

// ocm spokeagent_rebootstrap_test.go:476
#[test]
fn the_bootstrap_token_ends_while_a_request_waits() {
    if !needs(Need::Embedded, "a token can be revoked") {
        return;
    }
    let spoke = Spoke::new("recover-revoked");
    let first = spoke.bootstrap_kubeconfig();
    spoke.put_bootstrap(&first);
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    spoke.hub.cluster.server().revoke(&token_in(&first));
    spoke.hub_relay.cut();
    sidecar.wait_for("Unauthorized");
    spoke.delete_secret(&spoke.bootstrap);
    eventually("it says what is missing", || {
        let (code, why) = sidecar.ask("/readyz");
        code == 503 && why.contains("there is no bootstrap kubeconfig to request one with")
    });
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"], "the request from before");
}

// Of upstream's four ways to start (ocm `pkg/registration/spoke/spokeagent.go:101-111`), a bootstrap kubeconfig alone is in
// smoke/join.rs, both in restart.rs, an expired credential in certificate/clock.rs.
#[test]
fn good_credential_needs_no_bootstrap_kubeconfig() {
    let (spoke, mut sidecar) = joined("start-3");
    sidecar.terminate();
    let before = spoke.credential();
    for bad in [bootstrap_unknown(&spoke), "junk".to_owned(), String::new()] {
        spoke.put_bootstrap(&bad);
        let sidecar = spoke.start(&[]);
        sidecar.wait_for_code("/readyz", 200);
        settled(&spoke, &sidecar);
        assert_eq!((spoke.credential(), roles(&spoke)), (before.clone(), vec!["bootstrap"]));
    }
}
