//! From nothing but a bootstrap kubeconfig to a cluster that the hub calls available.

use suite::{eventually, spoke::Spoke};

#[test]
fn joins_once_a_human_approves_and_accepts() {
    let spoke = Spoke::new("join");
    let sidecar = spoke.start(&[]);
    let csr = spoke.hub.approve_next(&spoke.cluster);
    assert!(csr.starts_with(&format!("{}-", spoke.cluster)), "{csr}");
    spoke.hub.accept(&spoke.cluster);
    spoke.wait_for_certificate();
    for kind in
        ["HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"]
    {
        spoke.hub.wait_for_condition(&spoke.cluster, kind, "True");
    }
    eventually("the stored request is removed", || spoke.pending().is_none().then_some(()));
    sidecar.wait_for_code("/readyz", 200);
}
