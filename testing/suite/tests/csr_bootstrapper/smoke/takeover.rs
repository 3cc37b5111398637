//! From OCM's own agent to the program and back with one credential; on the real control plane alone.

use suite::{
    eventually,
    needs::{Need, needs},
    ocm::Bootstrap,
    spoke::Spoke,
};

use crate::joining::support::{gives_signs, is_seen, roles, settled, stays_unchanged, version};

/// A stage for each of them, for one cluster on the hub and by one way.
pub(crate) fn stages(name: &str) -> Option<(Spoke, Spoke)> {
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
fn go_agent_uses_our_credential_unchanged() {
    let Some((go, ours)) = stages("give") else { return };
    let mut sidecar = ours.start(&[]);
    settled(&ours, &sidecar);
    sidecar.terminate();
    let written = ours.credential().expect("the Secret");
    go.put_secret(&go.secret, &written);
    let before = version(&go);
    let mut agent = go.start_go_agent(&[]);
    gives_signs(&go);
    assert!(agent.alive(), "{}", agent.log());
    assert_eq!((version(&go), go.credential()), (before, Some(written)));
    assert_eq!(roles(&go), ["bootstrap"], "our request");
}
