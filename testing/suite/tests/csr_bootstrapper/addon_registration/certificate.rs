//! Certificates of add-ons by CSR, for the hub's API server and for signers of their own.

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::SignerOptions;
use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    stays, throughout,
};

use super::support::*;
use crate::support::{sent, words};

pub(crate) fn keys(data: &suite::identity::Data) -> Vec<&str> {
    data.keys().map(String::as_str).collect()
}

#[test]
fn addon_registration_asks_as_the_go_agent_does() {
    let (spoke, _agent, namespace) = stage("addon-request", &[]);
    let subject = json!({"user": "me", "groups": ["g2", "g1", "g2"], "organizationUnit": ["u1"]});
    add(&spoke, &namespace, &json!([{"signerName": KUBE_CLIENT, "subject": subject}]));
    let csr = eventually("it asks", || csrs(&spoke).pop());
    let labels = json!({
        "open-cluster-management.io/cluster-name": spoke.cluster,
        "open-cluster-management.io/addon-name": ADDON,
    });
    assert_eq!(csr["metadata"]["labels"], labels);
    let spec = &csr["spec"];
    assert_eq!(spec["signerName"], KUBE_CLIENT);
    assert_eq!(spec["usages"], json!(["digital signature", "key encipherment", "client auth"]));
    assert_eq!(spec["username"], spoke.user());
    let text = String::from_utf8(pem(&csr)).expect("PEM");
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let der = BASE64_STANDARD.decode(body).expect("base64");
    let host = b"addon1.addon.open-cluster-management.io";
    assert!(der.windows(host.len()).any(|part| part == host));
    spoke.hub.approve_csr(csr["metadata"]["name"].as_str().expect("a name"));
    let (_, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(issued.bearer.common_name, "me");
    assert_eq!(issued.bearer.organizations, ["g1", "g2"]);
}

#[test]
fn addon_registration_for_a_signer_of_its_own() {
    let (spoke, _agent, namespace) = stage("addon-custom", &[]);
    add(&spoke, &namespace, &of_signer(CUSTOM));
    let name = spoke.hub.approve_next(&spoke.cluster);
    sign(&spoke, &name, &user(&spoke));
    let (data, _) = certificate(&spoke.managed, &namespace, CUSTOM_SECRET, None);
    assert_eq!(keys(&data), ["cluster-name", "tls.crt", "tls.key"]);
    told(&spoke, "ClusterCertificateRotated", "True");
    has_driver(&spoke, "");
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
    certificate(&spoke.managed, &namespace, CUSTOM_SECRET, None);
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

/// A failure after a success is the first one again: it is a warning.
#[test]
fn addon_registration_fails_now_and_then() {
    if !needs(Need::Embedded, "the server fails when it is asked to") {
        return;
    }
    let (spoke, agent, namespace) = stage("addon-fails", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    let (whole, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let secret = apiclient::resource::SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    let warnings = || {
        let log = agent.log();
        let is_warning = |line: &&str| line.starts_with('W') && line.contains("is not kept");
        log.lines().filter(is_warning).count()
    };
    for times in 1..=2 {
        let denied = spoke.managed.faults().deny("get", "secrets", &namespace);
        spoke.managed.merge(&secret, &json!({"data": {"kubeconfig": null}}));
        eventually("it is logged", || (warnings() == times).then_some(()));
        spoke.managed.faults().remove(denied);
        eventually("it is whole again", || {
            (data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET) == Some(whole.clone()))
                .then_some(())
        });
    }
}

#[test]
fn addon_registration_is_rotated() {
    if !needs(Need::Embedded, "certificates are short") {
        return;
    }
    let (spoke, _agent, namespace) = stage("addon-rotated", &[]);
    let server = spoke.hub.cluster.server();
    let short = std::time::Duration::from_secs(6);
    server.set_signer(SignerOptions {
        auto_approve: true,
        lifetime: short,
        backdate: std::time::Duration::ZERO,
    });
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    let (first, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let (next, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&first));
    assert_ne!(first["tls.key"], next["tls.key"]);
    assert_eq!(first["kubeconfig"], next["kubeconfig"]);
}

/// A certificate of another subject takes its place, and until then the old one stays.
#[test]
fn addon_registration_of_another_subject() {
    let (spoke, _agent, namespace) = stage("addon-subject", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    let (old, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    register(&spoke, &json!([{"signerName": KUBE_CLIENT, "subject": {"user": "other"}}]));
    let name = spoke.hub.next_csr(&spoke.cluster);
    let now = || data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    assert_eq!(now().as_ref(), Some(&old));
    spoke.hub.approve_csr(&name);
    let (_, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&old));
    assert_eq!(issued.bearer.common_name, "other");
}

/// Whoever changes it again and again must not flood the hub.
#[test]
fn addon_registration_stops_if_it_is_too_frequent() {
    let (spoke, agent, namespace) = stage("addon-frequent", &[]);
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
    drop(agent);
}

#[test]
fn addon_registration_denied_is_told() {
    let (spoke, _agent, namespace) = stage("addon-denied", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    let name = spoke.hub.next_csr(&spoke.cluster);
    spoke.hub.deny_csr(&name);
    let condition = told(&spoke, "ClusterCertificateRotated", "False");
    let message = condition["message"].as_str().expect("a message");
    let expected = format!("Failed to rotated client certificate CSR {name} was denied");
    assert!(message.starts_with(&expected), "{message}");
    stays("it rests", || csrs(&spoke).len() == 1);
}

#[test]
fn addon_registration_secret_that_somebody_deletes_comes_back() {
    let (spoke, _agent, namespace) = stage("addon-deleted", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    let (old, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    // Before that, the same certificate would be saved again.
    eventually("the request is forgotten", || {
        let stored = spoke.read_secret(STORE)?;
        let has_key = |text: &Vec<u8>| String::from_utf8_lossy(text).contains("tls.key");
        (!stored.values().any(has_key)).then_some(())
    });
    let secret = apiclient::resource::SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.delete(&secret);
    spoke.hub.approve_next(&spoke.cluster);
    let (new, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&old));
    assert_ne!(old["tls.key"], new["tls.key"], "the old key is lost");
    // What is next to it is put right without the hub.
    let broken = json!({"data": {"kubeconfig": null}});
    spoke.managed.merge(&secret, &broken);
    eventually("it is whole again", || {
        (data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET) == Some(new.clone())).then_some(())
    });
    assert_eq!(csrs(&spoke).len(), 2);
}

#[test]
fn addon_registration_at_rest_costs_nothing() {
    if !needs(Need::Embedded, "requests are counted") {
        return;
    }
    let (spoke, agent, namespace) = stage("addon-quiet", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    told(&spoke, "ClusterCertificateRotated", "True");
    eventually("the store is settled", || {
        let stored = spoke.read_secret(STORE)?;
        let all = stored.values().map(|value| String::from_utf8_lossy(value).into_owned());
        all.into_iter().all(|text| !text.contains("tls.key")).then_some(())
    });
    suite::pause(1000);
    let account = format!("system:serviceaccount:{}:csr-bootstrapper", spoke.namespace);
    let of_hub = || sent(&spoke).iter().filter(|it| it.resource != "leases").map(words).count();
    let of_managed = || spoke.managed.requests_of(&account).len();
    let (hub, before) = (of_hub(), agent.cpu_time());
    let health = of_managed();
    let start = std::time::Instant::now();
    suite::pause(3000);
    assert_eq!(of_hub(), hub);
    // The health check each second, and the version with it.
    let most = 2 * (start.elapsed().as_secs() as usize + 1);
    assert!(of_managed() - health <= most, "{most}: {}", of_managed() - health);
    // A loop that wakes itself would take all of a processor.
    let took = agent.cpu_time() - before;
    assert!(took < std::time::Duration::from_secs(1), "{took:?} in 3 s");
    throughout(100, "one request", || csrs(&spoke).len() == 1);
}
