//! Trusted certificates: those signed by a CA in the bundle, and, as in Go, those in the bundle itself.

use apiclient::error::Error;
use dev_apiserver::Server;
use kubeconfig::config::Trust;
use rcgen::{CertificateParams, date_time_ymd};
use suite::rogue::{Authority, Rogue};

use crate::{client, lease, server};

const HERE: &str = "127.0.0.1";

fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
}

/// Asks a server with this certificate and key, trusting `bundle`: the error, and whether a request arrived.
fn asked(pair: &(String, String), bundle: &str) -> (Error, bool) {
    let rogue = Rogue::start(pair, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let (_server, mut access): (Server, _) = server();
    access.server = format!("https://{}", rogue.address);
    access.trust = Trust::Bundle(bundle.as_bytes().to_vec());
    let error = client(access).get(&lease("x")).unwrap_err();
    (error, rogue.requests() > 0)
}

#[test]
fn untrusted_server_gets_no_request_and_the_error_says_why() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(2090, 1, 1);
    let (late, elsewhere) = (ours.sign(&[HERE], expired), ours.sign(&["127.0.0.2"], |_| {}));
    for (pair, bundle, words) in [
        (&late, &ours.pem, "certificate expired"),
        (&ours.sign(&[HERE], future), &ours.pem, "certificate not valid yet"),
        (&elsewhere, &ours.pem, "not valid for name \"127.0.0.1\""),
        (&ours.sign(&[HERE], |_| {}), &other.pem, "UnknownIssuer"),
        // In the bundle themselves.
        (&late, &late.0, "certificate has expired"),
        (&elsewhere, &elsewhere.0, "not valid for name \"127.0.0.1\""),
        (&ours.sign(&[HERE], |_| {}), &ours.sign(&[HERE], |_| {}).0, "UnknownIssuer"),
    ] {
        let (error, arrived) = asked(pair, bundle);
        assert!(!arrived, "{words}: a credential was sent");
        assert!(matches!(&error, Error::Unreachable(text) if text.contains(words)), "{error}");
    }
}

#[test]
fn certificate_in_the_bundle_is_trusted_as_in_go() {
    let leaf = Authority::new("ours").sign(&[HERE], |_| {});
    // An authority's certificate that a server presents as its own.
    let root = Authority::new(HERE);
    for (pair, bundle) in [(&leaf, &leaf.0), (&root.own(), &root.pem)] {
        let (error, arrived) = asked(pair, bundle);
        assert!(arrived && matches!(error, Error::Unavailable { .. }), "{error}");
    }
}

#[test]
fn bundle_without_a_certificate_is_refused() {
    let (_server, mut access) = server();
    for bundle in
        ["", "\n", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
    {
        access.trust = Trust::Bundle(bundle.as_bytes().to_vec());
        let error = apiclient::client::Client::new(
            "the hub",
            access.clone(),
            apiclient::client::Reload::Never,
            crate::timing(),
        );
        let error = error.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("holds no usable certificate"), "{bundle:?}: {error}");
    }
}
