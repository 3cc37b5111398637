//! Server certificates and CA bundles: F17 and F18.

use std::sync::Arc;

use dev_apiserver::{Ca, Options};
use rcgen::{CertificateParams, date_time_ymd};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    identity::{Data, kubeconfig},
    rogue::{Authority, Rogue},
    scene::Scene,
};

use crate::support::{BACK, LOST, failures, running, wait_for_renewal};

fn secret(kubeconfig: &Value) -> Data {
    [("kubeconfig".to_owned(), kubeconfig.to_string().into_bytes())].into()
}

/// A kubeconfig for a server under the test's control, with a token that it must never see.
fn to(rogue: &Rogue, ca: &str) -> Data {
    secret(&kubeconfig(&rogue.address.to_string(), ca, &json!({"token": "secret-token"})))
}

#[test]
fn f17_a_server_that_is_not_the_right_one_is_refused_in_precise_words() {
    let (scene, sidecar) = running("impostor");
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let here = ["127.0.0.1"];
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(2090, 1, 1);
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
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for(BACK);
}

#[test]
fn f17_the_servers_own_certificate_in_the_bundle_is_trusted_as_go_does() {
    let (scene, _sidecar) = running("leaf");
    let ours = Authority::new("ours");
    let leaf = ours.sign(&["127.0.0.1"], |_| {});
    // A CA's certificate that a server presents as its own.
    let root = Authority::new("127.0.0.1");
    for (pair, bundle) in [(leaf.clone(), &leaf.0), (root.own(), &root.pem)] {
        let rogue = Rogue::start(&pair, b"HTTP/1.1 200 OK\r\n\r\n");
        scene.put_secret(&to(&rogue, bundle));
        eventually("it is asked", || (rogue.requests() > 0).then_some(()));
    }
}

#[test]
fn f17_a_certificate_in_the_bundle_is_checked_as_any_other() {
    let (scene, sidecar) = running("pinned");
    let ours = Authority::new("ours");
    let of = |name: &str, change: &dyn Fn(&mut CertificateParams)| ours.sign(&[name], change);
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    let other = of("127.0.0.1", &|_| {});
    for (words, pair, bundle) in [
        ("not valid for name \"127.0.0.1\"", of("127.0.0.2", &|_| {}), None),
        ("certificate has expired", of("127.0.0.1", &expired), None),
        ("UnknownIssuer", of("127.0.0.1", &|_| {}), Some(&other.0)),
    ] {
        let rogue = Rogue::start(&pair, b"HTTP/1.1 200 OK\r\n\r\n");
        scene.put_secret(&to(&rogue, bundle.unwrap_or(&pair.0)));
        sidecar.wait_for(words);
        assert_eq!(rogue.requests(), 0, "{words}: no credential was sent");
    }
}

/// The key of some ingress in the bundle makes nobody a CA, and an expired CA is none.
#[test]
fn f17_only_an_authority_within_its_time_vouches_for_others() {
    let (scene, sidecar) = running("authority");
    let ingress = Authority::leaf("127.0.0.1");
    let expired = Authority::with("expired", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    for (round, authority) in [ingress, expired].iter().enumerate() {
        let pair = authority.sign(&["127.0.0.1"], |_| {});
        let rogue = Rogue::start(&pair, b"HTTP/1.1 200 OK\r\n\r\n");
        scene.put_secret(&to(&rogue, &authority.pem));
        eventually("it is tried", || (rogue.connections() > 1).then_some(()));
        assert_eq!(rogue.requests(), 0, "{round}: no credential was sent\n{}", sidecar.log());
    }
    assert!(sidecar.count("UnknownIssuer") > 0, "{}", sidecar.log());
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
        sidecar.wait_for_times("keeping the current", round + 1);
        assert_eq!(sidecar.count("certificate-authority that holds no certificate"), round + 1);
    }
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
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
