//! Whom the sidecar trusts: F17 and F18.

use std::sync::Arc;

use dev_apiserver::{Ca, Options};
use rcgen::date_time_ymd;
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    identity::{Data, kubeconfig},
    scene::Scene,
};

use crate::{
    rogue::{Authority, Rogue},
    tools::{BACK, LOST, running, wait_for_renewal, warnings},
};

fn secret(kubeconfig: &Value) -> Data {
    [("kubeconfig".to_owned(), kubeconfig.to_string().into_bytes())].into()
}

/// A kubeconfig for a server of the test's own, with a token that it must never see.
fn to(rogue: &Rogue, ca: &str) -> Data {
    secret(&kubeconfig(&rogue.address.to_string(), ca, &json!({"token": "secret-token"})))
}

#[test]
fn f17_a_server_that_is_not_the_right_one_is_refused_in_precise_words() {
    let (scene, sidecar) = running("impostor");
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let here = ["127.0.0.1"];
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    let future =
        |params: &mut rcgen::CertificateParams| params.not_before = date_time_ymd(2090, 1, 1);
    let cases = [
        ("certificate expired", ours.sign(&here, expired), &ours.pem),
        ("certificate not valid yet", ours.sign(&here, future), &ours.pem),
        (
            "not valid for name \"127.0.0.1\"",
            ours.sign(&["10.0.0.1", "hub.example"], |_| {}),
            &ours.pem,
        ),
        ("UnknownIssuer", ours.sign(&here, |_| {}), &other.pem),
    ];
    for (words, pair, ca) in cases {
        let rogue = Rogue::start(&pair, b"HTTP/1.1 200 OK\r\n\r\n");
        scene.put_secret(&to(&rogue, ca));
        sidecar.wait_for(words);
        assert_eq!(rogue.requests(), 0, "{words}: no credential was sent");
        assert!(rogue.connections() > 0);
    }
    assert_eq!(warnings(&sidecar, LOST), 1, "{}", sidecar.log());
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for(BACK);
}

#[test]
fn f17_a_leaf_that_is_given_as_the_authority_is_refused_or_trusted_but_never_a_crash() {
    let (scene, sidecar) = running("leaf");
    let ours = Authority::new("ours");
    let leaf = ours.sign(&["127.0.0.1"], |_| {});
    let rogue = Rogue::start(&leaf, b"HTTP/1.1 200 OK\r\n\r\n");
    // The server's own certificate in place of the one that signed it.
    scene.put_secret(&to(&rogue, &leaf.0));
    sidecar.wait_for("UnknownIssuer");
    assert_eq!(rogue.requests(), 0);
    // An authority's certificate that a server shows as its own.
    let root = Authority::new("127.0.0.1");
    let rogue = Rogue::start(&root.own(), b"HTTP/1.1 200 OK\r\n\r\n");
    scene.put_secret(&to(&rogue, &root.pem));
    sidecar.wait_for("CaUsedAsEndEntity");
    assert_eq!(rogue.requests(), 0);
}

#[test]
fn f17_an_address_among_the_names_is_enough() {
    let (scene, sidecar) = running("address");
    let ours = Authority::new("ours");
    let pair = ours.sign(&["127.0.0.1"], |_| {});
    let rogue = Rogue::start(&pair, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    scene.put_secret(&to(&rogue, &ours.pem));
    sidecar.wait_for(": 503 without a Kubernetes Status");
    assert!(rogue.requests() > 0);
}

#[test]
fn f18_a_bundle_without_a_certificate_is_refused_and_the_old_one_stays() {
    let (scene, sidecar) = running("no-bundle");
    let good = &scene.hub.ca;
    let address = scene.hub_relay.address.to_string();
    let user = json!({"token": "t"});
    let cut = &good[..good.len() / 2];
    for (round, bundle) in
        ["\n", "not PEM", cut, &good.replace("MII", "AAA")].into_iter().enumerate()
    {
        scene.put_secret(&secret(&kubeconfig(&address, bundle, &user)));
        sidecar.wait_for_times("in use stay", round + 1);
        assert_eq!(sidecar.count("certificate-authority that holds no certificate"), round + 1);
    }
    wait_for_renewal(&scene);
    assert_eq!(sidecar.count(LOST), 0, "{}", sidecar.log());
}

/// A second hub with an authority of its own and the same namespace.
fn second_hub(scene: &Scene) -> Arc<Cluster> {
    let options = Options { ca: Some(Ca::new("new")), ..Options::default() };
    let hub = Cluster::embedded_with("second", options);
    hub.server().create_namespace(&scene.cluster);
    hub
}

#[test]
fn f18_a_bundle_of_the_old_and_the_new_authority_works_with_both() {
    let (scene, sidecar) = running("two-authorities");
    let second = second_hub(&scene);
    let bundle = format!("{}{}", scene.hub.ca, second.ca);
    let address = scene.hub_relay.address.to_string();
    let put = |hub: &Cluster| {
        let token = hub.server().token(&scene.hub_user(), &[]);
        scene.put_secret(&secret(&kubeconfig(&address, &bundle, &json!({"token": token}))));
    };
    put(&scene.hub);
    sidecar.wait_for("were rotated");
    wait_for_renewal(&scene);
    // The hub is replaced: its certificate is known already, the token is not.
    scene.hub_relay.redirect(&second.address);
    sidecar.wait_for(": 401: ");
    put(&second);
    sidecar.wait_for(BACK);
    let there =
        || second.server().get("coordination.k8s.io/v1", "leases", &scene.cluster, "my-addon");
    eventually("the Lease is on the new hub", there);
    assert_eq!(sidecar.count("UnknownIssuer"), 0, "{}", sidecar.log());
}
