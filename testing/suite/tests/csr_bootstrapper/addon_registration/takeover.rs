//! From OCM's own agent to the program and back with the credentials of add-ons; on the real control plane alone.

use apiclient::resource::SECRETS;
use suite::{eventually, ocm::AVAILABLE, sidecar::Sidecar, spoke::Spoke, stays};

use super::support::*;
use crate::smoke::takeover::{gives_signs_of_life, stages};

/// The Go agent with its add-ons; without another flag of gates the last one counts.
fn go_agent(spoke: &Spoke) -> Sidecar {
    spoke.start_go_agent(&["--feature-gates=AddonManagement=true"])
}

/// A hub that is asked for nothing more, and a Secret that nobody writes.
fn unchanged(spoke: &Spoke, namespace: &str, version: &str) {
    stays("nothing is written or requested", || {
        let secret = spoke.managed.get(&SECRETS.object(namespace, KUBE_CLIENT_SECRET));
        let now = secret.expect("the Secret")["metadata"]["resourceVersion"].clone();
        now == version && csrs(spoke).len() == 1
    });
}

fn version(spoke: &Spoke, namespace: &str) -> String {
    let secret = spoke.managed.get(&SECRETS.object(namespace, KUBE_CLIENT_SECRET));
    secret.expect("the Secret")["metadata"]["resourceVersion"].as_str().expect("text").to_owned()
}

#[test]
fn addon_registration_takes_over_from_the_go_agent_and_back() {
    let Some((go, ours)) = stages("addon") else { return };
    let namespace = ours.addon_namespace();
    let mut agent = go_agent(&go);
    go.hub.wait_for_condition(&go.cluster, AVAILABLE, "True");
    add(&go, &namespace, &of_signer(KUBE_CLIENT));
    go.hub.approve_next(&go.cluster);
    certificate(&go.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let by_go = told(&go, "ClusterCertificateRotated", "True");
    has_driver(&go, "csr");
    agent.kill();

    let before = version(&go, &namespace);
    ours.put_secret(&ours.secret, &go.credential().expect("the Secret"));
    let mut sidecar = ours.start(&[]);
    eventually("it knows of the registration", || ours.read_secret(STORE));
    unchanged(&ours, &namespace, &before);
    assert_eq!(told(&ours, "ClusterCertificateRotated", "True"), by_go, "the hub cannot tell");
    sidecar.stops_as_asked();

    go.put_secret(&go.secret, &ours.credential().expect("the Secret"));
    let _agent = go_agent(&go);
    gives_signs_of_life(&go);
    unchanged(&go, &namespace, &before);
}

/// The certificate that the program obtained is good for the Go agent.
#[test]
fn addon_registration_is_taken_over_by_the_go_agent() {
    let Some((go, ours)) = stages("heir") else { return };
    let namespace = ours.addon_namespace();
    let mut sidecar = crate::support::joins(&ours, &[]);
    // Without a user, an agent before OCM 1.3 would want its own.
    let named = serde_json::json!({"user": user(&ours), "groups": [group(&ours)]});
    add(&ours, &namespace, &serde_json::json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    ours.hub.approve_next(&ours.cluster);
    certificate(&ours.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let by_us = told(&ours, "ClusterCertificateRotated", "True");
    sidecar.stops_as_asked();
    let before = version(&ours, &namespace);
    go.put_secret(&go.secret, &ours.credential().expect("the Secret"));
    let mut agent = go_agent(&go);
    gives_signs_of_life(&go);
    unchanged(&go, &namespace, &before);
    assert_eq!(told(&go, "ClusterCertificateRotated", "True"), by_us);
    // It removes what the program wrote.
    go.hub.delete_addon(&go.cluster, ADDON);
    gone(&go.managed, &namespace, KUBE_CLIENT_SECRET);
    assert!(agent.alive(), "{}", agent.log());
}
