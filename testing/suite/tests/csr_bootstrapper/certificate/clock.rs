//! A certificate that is over, by a clock that is right and by one that is not.

use std::process::Command;

use suite::{clock::Clock, spoke::Spoke, throughout};

use crate::certificate::{
    forge,
    support::{credential, csr, ended, issue, joined_by, names, nothing_more, pem, said, subject},
};

#[test]
fn expired_certificate_waits_for_a_bootstrap_kubeconfig() {
    let spoke = Spoke::new("stranded");
    let pair = forge::pair(&subject(&spoke, -3600, -60));
    spoke.put_secret(&spoke.secret, &credential(&spoke, pair));
    spoke.delete_secret(&spoke.bootstrap);
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("and there is no bootstrap kubeconfig to request one with");
    assert!(said(&spoke, "NoValidCertificateFound").contains("has a certificate that expired at"));
    throughout(1000, "it asks for nothing", || names(&spoke).is_empty());
    let (code, body) = sidecar.ask("/readyz");
    assert!(code == 503 && body.contains("expired at"), "{code} {body}");
    assert!(body.contains("no bootstrap kubeconfig"), "{body}");
    assert!(sidecar.alive() && sidecar.ask("/healthz").0 == 200);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let name = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(csr(&spoke, &name).expect("it")["spec"]["username"], spoke.how.user());
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(names(&spoke), [name]);
}

/// What is valid from now on is of the future by a clock that is behind; what ends in five minutes is over by one that is
/// ahead. The hub's server shows a certificate that is valid for a year by any clock.
#[test]
fn own_wrong_clock_does_not_judge_the_hubs_certificates() {
    for (name, ahead, from, until) in [
        ("late", -600, 0, 3600 * 24),
        ("early", 600, -3600, 300),
        ("months", 200 * 86_400, 0, 3600),
    ] {
        let spoke = Spoke::new(name);
        let Some(clock) = Clock::of(&spoke.command(0)) else { return };
        clock.set(ahead);
        let sidecar = spoke.start_as(|command: &mut Command| {
            command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
            clock.give(command);
        });
        let name = spoke.hub.next_csr(&spoke.cluster);
        let request = pem(&csr(&spoke, &name).expect("the request"));
        issue(&spoke, &name, forge::certificate(&request, &subject(&spoke, from, until)));
        spoke.wait_for_certificate();
        nothing_more(&spoke, 3000);
        assert_eq!((names(&spoke).len(), ended(&sidecar, "Issued")), (1, 1.0), "{}", sidecar.log());
    }
}
