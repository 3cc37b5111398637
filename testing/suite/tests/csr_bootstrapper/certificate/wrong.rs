//! Wrong certificates that a signer may issue (F45), and those that only look odd.

use suite::{
    needs::{Need, needs},
    sidecar::Sidecar,
    spoke::Spoke,
};

use crate::certificate::{
    forge::{self, Subject},
    support::{csr, ended, issue, joined_by, nothing_more, pem, said, signed, subject},
};

const DAY: i64 = 24 * 3600;

/// A cluster that waits for its certificate: the agent, the name and the PEM of its request.
fn asking(name: &str) -> (Spoke, Sidecar, String, Vec<u8>) {
    let spoke = Spoke::new(name);
    let sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    let request = pem(&csr(&spoke, &name).expect("the request"));
    (spoke, sidecar, name, request)
}

/// What is issued is refused in these words: told, nothing saved, and nothing asked for at once.
#[track_caller]
fn refuses(what: &str, words: &str, make: impl FnOnce(&Spoke, &[u8]) -> String) {
    let (spoke, mut sidecar, name, request) = asking(what);
    issue(&spoke, &name, make(&spoke, &request));
    let message = said(&spoke, "CertificateRejected");
    let expected = format!("CSR {name} was answered with ");
    assert!(message.starts_with(&expected) && message.contains(words), "{message}");
    nothing_more(&spoke, 1500);
    assert_eq!(spoke.credential(), None);
    assert!(spoke.pending().is_some(), "until there is another request, it is kept");
    assert_eq!(spoke.count_events("CertificateRejected"), 1);
    assert_eq!(ended(&sidecar, "CertificateRejected"), 1.0);
    assert!(sidecar.alive());
}

/// What is issued is refused in these words, being for the right key and this subject.
#[track_caller]
fn refuses_for(what: &str, words: &str, change: impl FnOnce(&mut Subject)) {
    refuses(what, words, |spoke, request| {
        let mut subject = subject(spoke, -300, DAY);
        change(&mut subject);
        forge::certificate(request, &subject)
    });
}

#[test]
fn f45_for_another_key() {
    refuses("other-key", "that is for another key", |spoke, _| {
        forge::pair(&subject(spoke, -300, DAY)).0
    });
}

#[test]
fn f45_for_another_user() {
    refuses_for("other-user", "that is for user", |subject| subject.user += "2");
}

#[test]
fn f45_for_another_group() {
    refuses_for("other-group", "that is for other groups than", |subject| {
        subject.groups[0] += "2";
    });
}

#[test]
fn f45_without_a_group() {
    refuses_for("no-group", "that is for other groups than", |subject| {
        subject.groups.pop();
    });
}

#[test]
fn f45_expired() {
    refuses_for("expired", "that expired at", |subject| subject.until = -60);
}

#[test]
fn f45_not_valid_yet() {
    refuses_for("future", "that is not valid before", |subject| subject.from = 3600);
}

#[test]
fn f45_a_chain_in_the_wrong_order() {
    refuses("order", "that is not the first in its chain", |spoke, request| {
        let leaf = forge::certificate(request, &subject(spoke, -300, DAY));
        spoke.hub.cluster.ca.clone() + &leaf
    });
}

#[test]
fn f45_a_chain_with_an_expired_authority() {
    refuses("old-authority", "that expired at", |spoke, request| {
        let leaf = forge::certificate(request, &subject(spoke, -300, DAY));
        let authority = Subject { user: "ca".into(), groups: Vec::new(), from: -DAY, until: -60 };
        leaf + &forge::pair(&authority).0
    });
}

/// ocm01: this is where the Go agent crashes.
#[test]
fn ocm01_what_is_no_certificate() {
    if !needs(Need::Embedded, "its validation refuses it") {
        return;
    }
    let block =
        |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    refuses("not-der", "cannot be read", |_, _| block("AAAA"));
    refuses("not-base64", "cannot be read", |_, _| block("!!!!"));
    refuses("no-pem", "holds no certificate", |_, _| "hello".into());
    refuses("a-key", "holds no certificate", |spoke, _| forge::pair(&subject(spoke, 0, DAY)).1);
    refuses("half", "cannot be read", |spoke, request| {
        let leaf = forge::certificate(request, &subject(spoke, -300, DAY));
        leaf + &block("AAAA")
    });
}

#[test]
fn ocm01_what_is_not_even_base64() {
    if !needs(Need::Embedded, "its validation refuses it") {
        return;
    }
    let (spoke, mut sidecar, name, _) = asking("not-text");
    let server = spoke.hub.cluster.server();
    let all = ("certificates.k8s.io/v1", "certificatesigningrequests");
    server.alter(all.0, all.1, "", &name, |csr| {
        csr["status"]["certificate"] = "%%%".into();
        true
    });
    assert!(said(&spoke, "CertificateRejected").contains("a certificate that is not base64"));
    assert!(sidecar.alive());
}

/// What is issued is taken as it is, and the hub takes it from there.
#[track_caller]
fn takes(what: &str, make: impl FnOnce(&Spoke, &str) -> String) {
    let (spoke, sidecar, name, _) = asking(what);
    let good = signed(&spoke, &csr(&spoke, &name).expect("the request"));
    issue(&spoke, &name, make(&spoke, &good));
    joined_by(&spoke, &name);
    sidecar.wait_for_code("/readyz", 200);
    nothing_more(&spoke, 500);
    assert_eq!(spoke.count_events("CertificateRejected"), 0);
}

#[test]
fn f45_a_chain_with_its_authority_is_taken() {
    takes("chain", |spoke, good| good.to_owned() + &spoke.hub.cluster.ca);
}

#[test]
fn f45_words_around_a_certificate_are_no_harm() {
    takes("words", |_, good| format!("Issued by hand.\n\n{good}\nEnd of the words.\n"));
}

#[test]
fn f45_lines_as_windows_writes_them_are_no_harm() {
    takes("crlf", |_, good| good.replace('\n', "\r\n"));
}

#[test]
fn f45_other_blocks_around_a_certificate_are_no_harm() {
    if !needs(Need::Embedded, "its validation refuses them") {
        return;
    }
    let block = "-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----\n";
    takes("blocks", |_, good| format!("{block}{good}{block}"));
}
