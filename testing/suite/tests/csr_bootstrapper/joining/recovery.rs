//! Startup with unusable input, which is repaired later: the process goes on and works then.

use suite::{
    eventually,
    identity::Data,
    needs::{Need, needs},
    sidecar::Sidecar,
    spoke::Spoke,
    throughout,
};

use crate::joining::support::{
    bootstrap_unknown, joined, kubeconfig, let_in, roles, settled, wait_for_another,
};

/// The program waits, lives, and says what for; nothing was asked.
#[track_caller]
pub(crate) fn waits(spoke: &Spoke, sidecar: &mut Sidecar, why: &str) {
    let (code, answer) = sidecar.ask("/readyz");
    assert!(code == 503 && answer.contains(why), "{code} {answer}");
    throughout(500, "it waits", || {
        sidecar.alive() && sidecar.ask("/healthz").0 == 200 && sidecar.ask("/readyz").0 == 503
    });
    assert!(spoke.hub.csrs_of(&spoke.cluster).is_empty(), "nothing was asked");
}

// ocm spokeagent_recovery_test.go:25
#[test]
fn unusable_bootstrap_kubeconfig_is_waited_out() {
    let spoke = Spoke::new("recover-junk");
    spoke.put_bootstrap("this: is\nno: kubeconfig\n");
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    eventually("it says why", || {
        sidecar.ask("/readyz").1.contains("there is no bootstrap kubeconfig").then_some(())
    });
    waits(&spoke, &mut sidecar, "there is no bootstrap kubeconfig");
    let whole = spoke.bootstrap_kubeconfig();
    spoke.put_bootstrap(&whole[..whole.len() / 2]);
    waits(&spoke, &mut sidecar, "there is no bootstrap kubeconfig");
    spoke.put_bootstrap(&whole);
    let_in(&spoke);
    settled(&spoke, &sidecar);
}

#[test]
fn the_bootstrap_file_comes_later_and_in_halves() {
    let spoke = Spoke::auto("recover-file");
    let whole = spoke.bootstrap_kubeconfig();
    let file = spoke.directory.path().join("bootstrap.kubeconfig");
    let mut sidecar = spoke.start_as(|command| {
        command.arg("-bootstrap-kubeconfig").arg(&file);
    });
    sidecar.wait_for("no valid bootstrap kubeconfig");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("the file is written");
    sidecar.wait_for_times("no valid bootstrap kubeconfig", 2);
    waits(&spoke, &mut sidecar, "there is no bootstrap kubeconfig");
    spoke.write_bootstrap(&whole);
    settled(&spoke, &sidecar);
}

// ocm spokeagent_rebootstrap_test.go:476
#[test]
fn unknown_bootstrap_token_is_waited_out() {
    let spoke = Spoke::new("recover-token");
    spoke.put_bootstrap(&bootstrap_unknown(&spoke));
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("Unauthorized");
    waits(&spoke, &mut sidecar, &spoke.secret);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let_in(&spoke);
    settled(&spoke, &sidecar);
}

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
    let token = serde_json::from_str::<serde_json::Value>(&first).expect("JSON");
    let token = token["users"][0]["user"]["token"].as_str().expect("a token").to_owned();
    spoke.hub.cluster.server().revoke(&token);
    spoke.hub_relay.cut();
    sidecar.wait_for("Unauthorized");
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"], "the request from before");
}

#[test]
fn the_bootstrap_kubeconfig_is_deleted_while_a_request_waits() {
    let spoke = Spoke::new("recover-deleted");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    spoke.delete_secret(&spoke.bootstrap);
    eventually("it says what is missing", || {
        let (code, why) = sidecar.ask("/readyz");
        (code == 503 && why.contains("there is no bootstrap kubeconfig to request one with"))
            .then_some(())
    });
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"], "the request from before");
}

// --- the credential ---

/// Puts what `change` makes of a good credential into the Secret while the program is away.
fn after_a_crash(name: &str, change: impl FnOnce(&Spoke, &mut Data)) -> (Spoke, Sidecar, Data) {
    let (spoke, mut sidecar) = joined(name);
    sidecar.kill();
    let mut data = spoke.credential().expect("the Secret");
    change(&spoke, &mut data);
    spoke.put_secret(&spoke.secret, &data);
    let sidecar = spoke.start(&[]);
    (spoke, sidecar, data)
}

/// A second request by the bootstrap identity brings another certificate.
#[track_caller]
fn asks_once_more(spoke: &Spoke, sidecar: &Sidecar, before: &Data) -> Data {
    spoke.hub.approve_next(&spoke.cluster);
    let now = wait_for_another(spoke, before);
    settled(spoke, sidecar);
    assert_eq!(roles(spoke), ["bootstrap", "bootstrap"]);
    assert!(kubeconfig(&now).starts_with("apiVersion: v1\n"), "{}", kubeconfig(&now));
    now
}

/// Where upstream ends with an error (ocm `register/common.go:129-136`), a second request.
#[test]
fn the_kubeconfig_in_the_secret_is_half_written() {
    let (spoke, sidecar, before) = after_a_crash("recover-half", |_, data| {
        let half = data["kubeconfig"].len() / 2;
        data.get_mut("kubeconfig").expect("the kubeconfig").truncate(half);
    });
    asks_once_more(&spoke, &sidecar, &before);
}

// --- upstream's four ways to start (ocm `pkg/registration/spoke/spokeagent.go:101-111`) ---
// A bootstrap kubeconfig alone is in smoke/join.rs, both in restart.rs, an expired credential in certificate/clock.rs.

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
