//! Input that is unusable, and credentials that are lost: the process goes on, and works once it can.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    identity::{Data, token_in},
    needs::{Need, needs},
    spoke::Spoke,
    within,
};

use crate::{
    joining::support::{
        bootstrap_unknown, is_seen, joined, roles, settled, stays_as_it_is, version,
        wait_for_another, waits,
    },
    support::make_cluster,
};

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

/// Neither list nor watch requests, which are looked up every 15 s; nor create the cluster, which somebody else does.
#[test]
fn bootstrap_identity_that_may_only_post_and_get_joins() {
    if !needs(Need::Embedded, "rights can be taken away at once") {
        return;
    }
    let spoke = Spoke::new("only-get");
    let (faults, user) = (spoke.hub.cluster.faults(), spoke.how.user());
    let forbid = || Rule::new(Action::Forbid).user(&user);
    faults.add(forbid().resource("managedclusters"));
    for verb in ["list", "watch"] {
        faults.add(forbid().verb(verb).resource("certificatesigningrequests"));
    }
    let sidecar = spoke.start(&[]);
    spoke.hub.approve_next(&spoke.cluster);
    within(60, "the certificate is saved", || spoke.certificate());
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(roles(&spoke), ["bootstrap"], "{}", sidecar.log());
    assert!(spoke.hub.managed_cluster(&spoke.cluster).is_none());
    make_cluster(&spoke, true);
    is_seen(&spoke.hub, &spoke.cluster);
}

/// The program remembers the hub.
#[test]
fn emptied_secret_comes_back_without_bootstrap_kubeconfig() {
    let (spoke, sidecar) = joined("emptied");
    let before = spoke.credential().expect("the Secret");
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    let foreign: Data = [("theirs".to_owned(), b"stays".to_vec())].into();
    spoke.put_secret(&spoke.secret, &foreign);
    let now = wait_for_another(&spoke, &before);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["agent", "bootstrap"], "{}", sidecar.log());
    assert_eq!(now["theirs"], b"stays");
    for key in ["kubeconfig", "cluster-name"] {
        assert_eq!(now[key], before[key], "{key}");
    }
}

/// Longer than the others: 30 to 60 s tell a refusal from a hub that restarts, and the loop looks every 15 s.
#[test]
fn refused_certificate_is_replaced_after_its_patience() {
    if !needs(Need::Embedded, "401 can be asked for") {
        return;
    }
    let (spoke, sidecar) = joined("refused");
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let (before, written) = (spoke.credential().expect("the Secret"), version(&spoke));
    let faults = spoke.hub.cluster.faults();
    let unauthorized = Action::Answer { code: 401, body: None, retry_after: None };
    let rule = faults.add(Rule::new(unauthorized).user(&spoke.user()));
    spoke.hub_relay.cut();
    let start = Instant::now();
    within(100, "the bootstrap identity asks", || {
        assert_eq!(version(&spoke), written, "it stays until it is replaced");
        roles(&spoke).len() > 1
    });
    assert!(start.elapsed() > Duration::from_secs(30), "{:?}", start.elapsed());
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains("does not accept the certificate"), "{why}");
    // Accepted again, the old certificate would need no other one.
    spoke.hub.approve_next(&spoke.cluster);
    wait_for_another(&spoke, &before);
    faults.remove(rule);
    settled(&spoke, &sidecar);
    stays_as_it_is(&spoke, &mut { sidecar });
    assert_eq!(roles(&spoke), ["bootstrap", "bootstrap"]);
}
