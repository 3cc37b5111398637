//! Joining: from a bootstrap kubeconfig alone to a cluster that the hub finds available.

use apiclient::resource::SECRETS;
use suite::{ocm, spoke::AGENT};

use crate::{
    certificate::csr,
    support::{asking, kubeconfig, roles, settled},
};

/// What is saved is the Go agent's Secret.
// ocm spokecluster_joining_test.go:38; `pkg/registration/register/common.go:37-64` and `secret_controller.go:176-184`
#[test]
fn cluster_joins_once_a_person_approves_and_accepts() {
    let (spoke, sidecar, name) = asking("join");
    assert!(name.starts_with(&format!("{}-", spoke.cluster)), "{name}");
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, ocm::ACCEPTED, "True");
    assert!(spoke.credential().is_none(), "nothing is saved while the request waits");
    let (code, why) = sidecar.ask("/readyz");
    assert!(code == 503 && why.contains(&spoke.secret), "{code} {why}");
    spoke.hub.approve_csr(&name);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);

    let data = spoke.credential().expect("the Secret");
    let keys: Vec<_> = data.keys().collect();
    assert_eq!(keys, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    let text = |key: &str| String::from_utf8(data[key].clone()).expect("UTF-8");
    assert_eq!((text("cluster-name"), text("agent-name")), (spoke.cluster.clone(), AGENT.into()));
    assert!(kubeconfig(&data).contains(&spoke.hub_relay.address.to_string()), "{data:?}");
    let issued = ocm::certificate(&csr(&spoke, &name).expect("the CSR"));
    assert_eq!(Some(text("tls.crt")), issued, "as the hub gave it");
    // PKCS #8 where the Go agent writes SEC 1; Go, OpenSSL and rustls read either.
    assert!(text("tls.key").starts_with("-----BEGIN PRIVATE KEY-----\n"), "the key");
    let secret = spoke.managed.get(&SECRETS.object(&spoke.namespace, &spoke.secret));
    let secret = secret.expect("the Secret");
    assert_eq!(secret["type"], "Opaque");
    for absent in ["labels", "annotations", "ownerReferences", "finalizers"] {
        assert!(secret["metadata"][absent].is_null(), "{absent}");
    }

    for reason in ["CSRCreated", "ClientCertificateCreated", "HubClientConfigReady"] {
        assert_eq!(spoke.count_events(reason), 1, "{reason}");
    }
    let (events, uid) = (spoke.events(), &secret["metadata"]["uid"]);
    let mut of_the_secret = events.iter().filter(|it| it["involvedObject"]["uid"] == *uid);
    assert!(of_the_secret.any(|it| it["reason"] == "HubClientConfigReady"), "{events:?}");
}
