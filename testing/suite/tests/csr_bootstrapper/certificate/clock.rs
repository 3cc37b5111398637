//! Wrong clocks. The hub's is wrong by its Date header and its certificates, the program's by a
//! shim.

use suite::{
    clock::Clock,
    eventually,
    needs::{Need, needs},
    pause,
    sidecar::Sidecar,
    spoke::{EXPIRED, Spoke},
    throughout, within,
};

use crate::certificate::{
    forge,
    support::{
        credential, csr, due_with, ended, issue, joined_by, names, nothing_more, pem, said, subject,
    },
};

/// A cluster whose certificate expired a minute ago.
fn expired(name: &str) -> Spoke {
    let spoke = Spoke::new(name);
    let pair = forge::pair(&subject(&spoke, -3600, -60));
    spoke.put_secret(&spoke.secret, &credential(&spoke, pair));
    spoke
}

#[test]
fn expired_certificate_is_replaced_by_the_bootstrap_identity() {
    let spoke = expired("expired");
    let sidecar = spoke.start(&[]);
    assert!(said(&spoke, "NoValidCertificateFound").contains("has a certificate that expired at"));
    let name = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(csr(&spoke, &name).expect("it")["spec"]["username"], spoke.how.user());
    let (code, body) = sidecar.ask("/readyz");
    assert!(code == 503 && body.contains("expired at"), "{code} {body}");
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(names(&spoke), [name]);
}

#[test]
fn expired_certificate_waits_for_a_bootstrap_kubeconfig() {
    let spoke = expired("stranded");
    spoke.delete_secret(&spoke.bootstrap);
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("and there is no bootstrap kubeconfig to request one with");
    throughout(1000, "it asks for nothing", || names(&spoke).is_empty());
    let (code, body) = sidecar.ask("/readyz");
    assert!(code == 503 && body.contains("no bootstrap kubeconfig"), "{code} {body}");
    assert!(sidecar.alive() && sidecar.ask("/healthz").0 == 200);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let name = spoke.hub.approve_next(&spoke.cluster);
    joined_by(&spoke, &name);
}

/// Up to 25 s. ocm spokeagent_rebootstrap_test.go:528. Who asks now is another one: the request of before is not his.
#[test]
fn certificate_expires_while_its_renewal_waits() {
    if !needs(Need::Embedded, "a certificate that is due has to be made") {
        return;
    }
    let (spoke, old) = due_with("expires", 5);
    let mut sidecar = spoke.start(&[]);
    let renewal = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(csr(&spoke, &renewal).expect("it")["spec"]["username"], spoke.user());
    // It looks at least every 15 s.
    within(60, "it notices", || (sidecar.count(EXPIRED) > 0).then_some(()));
    assert_eq!(spoke.credential(), Some(old));
    let next = eventually("the bootstrap identity asks", || {
        names(&spoke).into_iter().find(|name| *name != renewal)
    });
    assert_eq!(csr(&spoke, &next).expect("it")["spec"]["username"], spoke.how.user());
    assert!(said(&spoke, "CSRForeign").contains(&renewal));
    spoke.hub.approve_csr(&next);
    joined_by(&spoke, &next);
    assert!(sidecar.alive());
    assert_eq!(names(&spoke).len(), 2);
}

/// A hub whose clock is off by `offset` issues a certificate for these seconds, by the true clock.
fn on_a_hub(name: &str, offset: i64, from: i64, until: i64) -> (Spoke, Sidecar) {
    let spoke = Spoke::new(name);
    spoke.hub.cluster.faults().set_date_offset(offset);
    let sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    let request = pem(&csr(&spoke, &name).expect("the request"));
    issue(&spoke, &name, forge::certificate(&request, &subject(&spoke, from, until)));
    (spoke, sidecar)
}

#[test]
fn hub_ahead_issues_future_certificate_which_is_taken() {
    if !needs(Need::Embedded, "its clock is right") {
        return;
    }
    let (spoke, sidecar) = on_a_hub("ahead", 600, 590, 3600 * 24);
    spoke.wait_for_certificate();
    nothing_more(&spoke, 3000);
    assert_eq!((names(&spoke).len(), ended(&sidecar, "Issued")), (1, 1.0));
}

#[test]
fn hub_behind_issues_expired_certificate_which_is_taken() {
    if !needs(Need::Embedded, "its clock is right") {
        return;
    }
    let (spoke, sidecar) = on_a_hub("behind", -600, -3600, -60);
    let saved = eventually("it is saved", || spoke.certificate());
    assert!(saved.not_after < std::time::SystemTime::now());
    // By the hub's clock a tenth of its life is left: it is used for half of that before it is rotated.
    nothing_more(&spoke, 3000);
    assert_eq!((names(&spoke).len(), ended(&sidecar, "Issued")), (1, 1.0));
}

/// An agent whose own clock is off by `ahead` is issued a certificate for these seconds, by the true clock.
fn on_a_clock(name: &str, ahead: i64, from: i64, until: i64) -> Option<(Spoke, Sidecar, Clock)> {
    let spoke = Spoke::new(name);
    let clock = Clock::of(&spoke.command(0))?;
    clock.set(ahead);
    let sidecar = spoke.start_as(|command| {
        command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
        clock.give(command);
    });
    let name = spoke.hub.next_csr(&spoke.cluster);
    let request = pem(&csr(&spoke, &name).expect("the request"));
    issue(&spoke, &name, forge::certificate(&request, &subject(&spoke, from, until)));
    Some((spoke, sidecar, clock))
}

#[test]
fn own_wrong_clock_does_not_judge_the_hubs_certificates() {
    // What is valid from now on is of the future by a clock that is behind; what ends in five minutes is over by
    // one that is ahead. The hub's server shows a certificate that is valid for a year by any clock.
    for (name, ahead, from, until) in [
        ("late", -600, 0, 3600 * 24),
        ("early", 600, -3600, 300),
        ("months", 200 * 86_400, 0, 3600),
    ] {
        let Some((spoke, sidecar, _clock)) = on_a_clock(name, ahead, from, until) else { return };
        spoke.wait_for_certificate();
        nothing_more(&spoke, 3000);
        assert_eq!((names(&spoke).len(), ended(&sidecar, "Issued")), (1, 1.0), "{}", sidecar.log());
    }
}

/// By a clock that jumped the certificate is over, or not valid yet: by the hub's it is neither, as its next answer
/// tells. Until then the session may pause.
#[test]
fn own_clock_that_jumps_ends_no_session_for_good() {
    if !needs(Need::Embedded, "a certificate of some hours has to be made") {
        return;
    }
    let (spoke, _) = due_with("jumps", 4 * 3600);
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let Some(clock) = Clock::of(&spoke.command(0)) else { return };
    let mut sidecar = spoke.start_as(|command| {
        command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
        clock.give(command);
    });
    let each_second = || sidecar.count("renewed every 1 s") + sidecar.count("period=1.0") > 0;
    eventually("a heartbeat each second", || each_second().then_some(()));
    for ahead in [5 * 3600, -5 * 3600, 0] {
        clock.set(ahead);
        // It looks at the clock at least every 15 s.
        for _ in 0..16 {
            let before = spoke.hub.heartbeat(&spoke.cluster);
            pause(1000);
            eventually("the heartbeat goes on", || {
                (spoke.hub.heartbeat(&spoke.cluster) != before).then_some(())
            });
        }
        assert_eq!(sidecar.ask("/readyz").0, 200, "{ahead}: {}", sidecar.log());
    }
    assert!(names(&spoke).is_empty(), "{:?}", names(&spoke));
    assert!(sidecar.alive());
}
