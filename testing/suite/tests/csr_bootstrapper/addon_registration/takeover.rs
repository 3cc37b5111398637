//! From the program to OCM's own agent with the credential of an add-on, on the real control plane alone; the way
//! back is in smoke/takeover.rs for the cluster's own credential.

use apiclient::resource::SECRETS;
use serde_json::json;
use suite::stays;

use super::support::*;
use crate::{joining::support::gives_signs, smoke::takeover::stages, support::joins};

/// The certificate that the program obtained is good for the Go agent.
#[test]
fn addon_registration_is_taken_over_by_the_go_agent() {
    let Some((go, ours)) = stages("heir") else { return };
    let namespace = ours.addon_namespace();
    let mut sidecar = joins(&ours, &[]);
    // Without a user, an agent before OCM 1.3 would want its own.
    let named = json!({"user": user(&ours), "groups": [group(&ours)]});
    add(&ours, &namespace, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    ours.hub.approve_next(&ours.cluster);
    certificate(&ours.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let by_us = told(&ours, "ClusterCertificateRotated", "True");
    sidecar.stops_as_asked();
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    let before = ours.managed.get(&secret);
    go.put_secret(&go.secret, &ours.credential().expect("the Secret"));
    // Without another flag of gates the last one counts.
    let mut agent = go.start_go_agent(&["--feature-gates=AddonManagement=true"]);
    gives_signs(&go);
    stays("nothing is written or requested", || {
        go.managed.get(&secret) == before && csrs(&go).len() == 1
    });
    assert_eq!(told(&go, "ClusterCertificateRotated", "True"), by_us);
    // It removes what the program wrote.
    go.hub.delete_addon(&go.cluster, ADDON);
    gone(&go.managed, &namespace, KUBE_CLIENT_SECRET);
    assert!(agent.alive(), "{}", agent.log());
}
