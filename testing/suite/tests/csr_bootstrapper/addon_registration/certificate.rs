//! Certificates of add-ons by CSR, for the hub's API server and for signers of their own.

use std::time::{Duration, Instant};

use apiclient::resource::SECRETS;
use dev_apiserver::SignerOptions;
use serde_json::{Value, json};
use suite::{
    eventually,
    identity::Data,
    needs::{Need, needs},
    pause, stays,
};

use super::support::*;
use crate::{
    addon::{renew, seconds_ago},
    support::{account, sent},
};

pub(crate) fn keys(data: &Data) -> Vec<&str> {
    data.keys().map(String::as_str).collect()
}

#[test]
fn addon_registration_of_two_signers_and_of_one_twice() {
    let (spoke, _agent, namespace) = stage("addon-two", &[]);
    let all = json!([
        {"signerName": KUBE_CLIENT},
        {"signerName": CUSTOM},
        {"signerName": CUSTOM, "subject": {"user": "second"}},
    ]);
    add(&spoke, &namespace, &all);
    let both = eventually("it asks for both", || Some(csrs(&spoke)).filter(|all| all.len() == 2));
    for csr in both {
        let name = csr["metadata"]["name"].as_str().expect("a name");
        spoke.hub.approve_csr(name);
        if csr["spec"]["signerName"] == CUSTOM {
            sign(&spoke, name, &user(&spoke));
        }
    }
    certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let (data, _) = certificate(&spoke.managed, &namespace, CUSTOM_SECRET, None);
    assert_eq!(keys(&data), ["cluster-name", "tls.crt", "tls.key"]);
    stays("no more", || csrs(&spoke).len() == 2);
}

/// The namespace comes after the certificate.
#[test]
fn addon_registration_namespace_missing_at_first() {
    let (spoke, agent, _) = stage("addon-late", &[]);
    let namespace = format!("{}-late", spoke.namespace);
    if !needs(Need::Embedded, "rights are in a namespace that does not exist yet") {
        return;
    }
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    agent.wait_for("the credential of an add-on is not kept");
    spoke.managed.create_namespace(&namespace);
    spoke.allow_addons(&spoke.managed, &namespace);
    certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(csrs(&spoke).len(), 1);
}

#[test]
fn addon_registration_is_rotated() {
    if !needs(Need::Embedded, "certificates are short") {
        return;
    }
    let (spoke, _agent, namespace) = stage("addon-rotated", &[]);
    let server = spoke.hub.cluster.server();
    let short = Duration::from_secs(6);
    server.set_signer(SignerOptions {
        auto_approve: true,
        lifetime: short,
        backdate: Duration::ZERO,
    });
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    let (first, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let (next, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&first));
    assert_ne!(first["tls.key"], next["tls.key"]);
    assert_eq!(first["kubeconfig"], next["kubeconfig"]);
}

/// Whoever changes it again and again must not flood the hub.
#[test]
fn addon_registration_stops_if_it_is_too_frequent() {
    let (spoke, _agent, namespace) = stage("addon-frequent", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    for number in 1..=15 {
        let subject = json!({"user": format!("user-{number}")});
        let asks = |csrs: &[Value]| csrs.len() >= number.min(10);
        eventually("it asks", || Some(csrs(&spoke)).filter(|all| asks(all)));
        register(&spoke, &json!([{"signerName": KUBE_CLIENT, "subject": subject}]));
    }
    let condition = told(&spoke, "ClusterCertificateRotated", "False");
    let message = "Stop creating csr since there are too many csr created already on hub";
    assert_eq!(condition["message"], message);
    stays("no more", || csrs(&spoke).len() == 10);
}

#[test]
fn addon_registration_secret_that_somebody_deletes_comes_back() {
    let (spoke, _agent, namespace) = stage("addon-deleted", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    let (old, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    // Before that, the same certificate would be saved again.
    eventually("the request is forgotten", || has_no_request(&spoke));
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.delete(&secret);
    spoke.hub.approve_next(&spoke.cluster);
    let (new, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&old));
    assert_ne!(old["tls.key"], new["tls.key"], "the old key is lost");
    // What is next to it is put right without the hub.
    let broken = json!({"data": {"kubeconfig": null}});
    spoke.managed.merge(&secret, &broken);
    eventually("it is whole again", || {
        data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).as_ref() == Some(&new)
    });
    assert_eq!(csrs(&spoke).len(), 2);
}

/// What an agent with an add-on does while nothing happens but that the add-on's agent renews its Lease.
#[test]
fn addon_at_rest_costs_nothing() {
    if !needs(Need::Embedded, "requests are counted") {
        return;
    }
    let (spoke, agent, namespace) = stage("addon-quiet", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    spoke.hub.approve_next(&spoke.cluster);
    told(&spoke, "ClusterCertificateRotated", "True");
    told(&spoke, "Available", "True");
    eventually("the store is settled", || has_no_request(&spoke));
    pause(1000);
    let of_hub = || sent(&spoke).iter().filter(|it| it.resource != "leases").count();
    let of_managed = || {
        let all = spoke.managed.requests_of(&account(&spoke));
        // The add-on's Lease may be read as often as it changes.
        all.iter().filter(|it| it.resource != "leases").count()
    };
    let (hub, managed, used) = (of_hub(), of_managed(), agent.cpu_time());
    let start = Instant::now();
    for _ in 0..20 {
        renew(&spoke.managed, &namespace, &seconds_ago(0));
        pause(150);
    }
    assert_eq!(of_hub(), hub);
    // The health check each second, and the version with it.
    let most = 2 * (start.elapsed().as_secs() as usize + 1);
    assert!(of_managed() - managed <= most, "{most}: {}", of_managed() - managed);
    // A loop that wakes itself would take all of a processor.
    let took = agent.cpu_time() - used;
    assert!(took < Duration::from_secs(1), "{took:?} in 3 s");
    assert_eq!(csrs(&spoke).len(), 1);
}
