//! From OCM's own agent to the program and back with the same credentials; only on the real control plane.

use apiclient::resource::SECRETS;
use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::Bootstrap,
    spoke::Spoke,
    stays,
};

use crate::{
    addon_registration::support::*,
    support::{gives_signs, is_seen, roles, settled, stays_unchanged, version},
};

/// A stage for each of them, for one cluster on the hub and by one way.
fn stages(name: &str) -> Option<(Spoke, Spoke)> {
    if !needs(Need::Real, "the Go agent is there") {
        return None;
    }
    let go = Spoke::for_go(&format!("go-{name}"), Bootstrap::Auto);
    let mut ours = Spoke::auto(name);
    ours.cluster.clone_from(&go.cluster);
    ours.put_bootstrap(&go.bootstrap_kubeconfig());
    Some((go, ours))
}

#[test]
fn go_agents_credential_is_used_unchanged() {
    let Some((go, ours)) = stages("take") else { return };
    let mut agent = go.start_go_agent(&[]);
    go.wait_for_certificate();
    is_seen(&go.hub, &go.cluster);
    agent.kill();
    let written = go.credential().expect("the Secret");
    ours.put_secret(&ours.secret, &written);
    let before = version(&ours);
    let mut sidecar = ours.start(&[]);
    sidecar.wait_for_code("/readyz", 200);
    settled(&ours, &sidecar);
    stays_unchanged(&ours, &mut sidecar);
    assert_eq!((version(&ours), ours.credential()), (before, Some(written)));
    assert_eq!(roles(&ours), ["bootstrap"], "the Go agent's request");
    // It serves the cluster from now on.
    ours.hub.set_lease_duration(&ours.cluster, 1);
    eventually("the clock is compared", || {
        ours.hub.condition(&ours.cluster, "ManagedClusterConditionClockSynced")
    });
}

/// It compares the kubeconfig byte by byte (ocm `register/secret_controller.go:57-61`).
#[test]
fn go_agent_uses_our_credentials_unchanged() {
    let Some((go, ours)) = stages("give") else { return };
    let namespace = ours.addon_namespace();
    let mut sidecar = ours.start(&[]);
    settled(&ours, &sidecar);
    // Without a user, an agent before OCM 1.3 would want its own.
    let named = json!({"user": user(&ours), "groups": [group(&ours)]});
    add(&ours, &namespace, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    ours.hub.approve_next(&ours.cluster);
    certificate(&ours.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let by_us = told(&ours, "ClusterCertificateRotated", "True");
    sidecar.terminate();
    let written = ours.credential().expect("the Secret");
    go.put_secret(&go.secret, &written);
    let (before, requests) = (version(&go), roles(&go));
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    let of_addon = go.managed.get(&secret);
    // Without another flag of gates the last one counts.
    let mut agent = go.start_go_agent(&["--feature-gates=AddonManagement=true"]);
    gives_signs(&go);
    stays("nothing is written or requested", || {
        go.managed.get(&secret) == of_addon && roles(&go) == requests
    });
    assert_eq!((version(&go), go.credential()), (before, Some(written)));
    assert_eq!(told(&go, "ClusterCertificateRotated", "True"), by_us);
    // It removes what the program wrote.
    go.hub.delete_addon(&go.cluster, ADDON);
    gone(&go.managed, &namespace, KUBE_CLIENT_SECRET);
    assert!(agent.alive(), "{}", agent.log());
}
