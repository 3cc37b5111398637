//! Joining: from a bootstrap kubeconfig alone to a cluster that the hub finds available.

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::Request;
use suite::{
    needs::{Need, needs},
    ocm,
    spoke::{AGENT, PENDING, Spoke},
};

use crate::{
    joining::support::{roles, settled},
    support::asking,
};

const KEYS: [&str; 5] = ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"];

// ocm spokecluster_joining_test.go:38
#[test]
fn cluster_joins_once_a_person_approves_and_accepts() {
    let (spoke, sidecar, csr) = asking("join");
    assert!(csr.starts_with(&format!("{}-", spoke.cluster)), "{csr}");
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, ocm::ACCEPTED, "True");
    assert!(spoke.credential().is_none(), "nothing is saved while the request waits");
    let (code, why) = sidecar.ask("/readyz");
    assert!(code == 503 && why.contains(&spoke.secret), "{code} {why}");
    spoke.hub.approve_csr(&csr);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
    for reason in ["CSRCreated", "ClientCertificateCreated", "HubClientConfigReady"] {
        assert_eq!(spoke.count_events(reason), 1, "{reason}");
    }
    let secret = spoke.managed.client.get(&SECRETS.object(&spoke.namespace, &spoke.secret));
    let uid = &secret.unwrap()["metadata"]["uid"];
    let events = spoke.events();
    let of_the_secret =
        |reason| events.iter().any(|e| e["reason"] == reason && e["involvedObject"]["uid"] == *uid);
    assert!(uid.is_string() && of_the_secret("HubClientConfigReady"), "{events:?}");
    if needs(Need::Embedded, "requests are logged") {
        secret_is_written_once_and_whole(&spoke);
    }
}

// ocm spokecluster_autoapproval_test.go:26; `pkg/registration/register/common.go:37-64` and
// `secret_controller.go:176-184`
#[test]
fn trusted_cluster_joins_alone_with_the_go_agents_secret() {
    let spoke = Spoke::auto("join-secret");
    let sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    let data = spoke.credential().expect("the Secret");
    assert_eq!(data.keys().collect::<Vec<_>>(), KEYS);
    let text = |key: &str| String::from_utf8(data[key].clone()).expect("UTF-8");
    assert_eq!((text("cluster-name"), text("agent-name")), (spoke.cluster.clone(), AGENT.into()));
    assert_eq!(text("kubeconfig"), expected_kubeconfig(&spoke));
    let requests = spoke.hub.csrs_of(&spoke.cluster);
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(ocm::reasons(&requests[0]), ["AutoApprovedByHubCSRApprovingController"]);
    assert_eq!(Some(text("tls.crt")), ocm::certificate(&requests[0]), "as the hub gave it");
    // PKCS #8 where the Go agent writes SEC 1; Go, OpenSSL and rustls read either.
    assert!(text("tls.key").starts_with("-----BEGIN PRIVATE KEY-----\n"), "the key");

    let secret = spoke.managed.get(&SECRETS.object(&spoke.namespace, &spoke.secret));
    let secret = secret.expect("the Secret");
    assert_eq!(secret["type"], "Opaque");
    for absent in ["labels", "annotations", "ownerReferences", "finalizers"] {
        assert!(secret["metadata"][absent].is_null(), "{absent}");
    }
}

fn expected_kubeconfig(spoke: &Spoke) -> String {
    format!(
        "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {}
    server: https://{}
  name: default
contexts:
- context:
    cluster: default
    namespace: configuration
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: tls.crt
    client-key: tls.key
",
        BASE64_STANDARD.encode(&spoke.hub.cluster.ca),
        spoke.hub_relay.address,
    )
}

fn secret_is_written_once_and_whole(spoke: &Spoke) {
    let written = writes(spoke, &spoke.secret);
    assert_eq!(verbs(&written), ["create"]);
    let data = written[0].json()["data"].as_object().cloned().expect("data");
    assert_eq!(data.keys().collect::<Vec<_>>(), KEYS);
    // The key was safe before the hub heard of it.
    let pending = writes(spoke, PENDING);
    assert_eq!(verbs(&pending), ["create", "update"], "emptied");
    let mut posted = spoke.hub.cluster.server().requests();
    posted.retain(|it| it.verb == "create" && it.resource == "certificatesigningrequests");
    assert_eq!(posted.len(), 1, "one request");
    assert!(posted[0].time > pending[0].time, "stored first, then posted");
}

fn verbs(requests: &[Request]) -> Vec<&str> {
    requests.iter().map(|request| request.verb.as_str()).collect()
}

/// What was written to a Secret by anybody.
fn writes(spoke: &Spoke, name: &str) -> Vec<Request> {
    let mut all = spoke.managed.server().requests();
    all.retain(|request| {
        request.resource == "secrets"
            && ["create", "update", "patch", "delete"].contains(&request.verb.as_str())
            && (request.name == name || request.json()["metadata"]["name"] == name)
    });
    all
}
