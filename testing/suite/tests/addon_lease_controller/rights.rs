//! Missing RBAC rights: one log line names verb and resource, and work resumes once they are granted. The audit expects
//! a 403 only here.

use suite::{rights::revoke, scene::Scene, stays};

use crate::support::renews;

/// The name of its Role on both clusters.
pub(crate) const ROLE: &str = "addon-lease-controller:my-addon";
/// The one for the Secret with the hub's kubeconfig.
const SECRET_ROLE: &str = "addon-lease-controller-hub-secret:my-addon";

/// What is not known is not called healthy.
#[test]
fn missing_right_to_list_secret_or_pod_is_waited_out() {
    for (kind, role) in [("secrets", SECRET_ROLE), ("pods", ROLE)] {
        let scene = Scene::new("revoked-list");
        let revoked = revoke(&scene.managed, &scene.namespace, role, "list", kind);
        let sidecar = scene.start(&[]);
        sidecar.wait_for(&format!("list {kind}"));
        stays("there is no Lease", || scene.lease().is_none());
        assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
        revoked.grant();
        renews(&sidecar, "hub", 1);
    }
}

#[test]
fn missing_right_of_the_election_is_waited_out() {
    let scene = Scene::new("revoked-election");
    let revoked = revoke(&scene.managed, &scene.namespace, ROLE, "create", "leases");
    // A missing right is logged at every level.
    let sidecar = scene.start(&["-leader-election", "-v=0"]);
    sidecar.wait_for("error=\"create leases");
    stays("nobody leads", || scene.lease().is_none());
    assert_eq!(sidecar.count("leader election is failing"), 1, "{}", sidecar.log());
    assert!(sidecar.ask("/readyz").1.contains("no replica is known to be the leader"));
    revoked.grant();
    sidecar.wait_for("leader election recovered");
    sidecar.wait_for("became the leader");
    renews(&sidecar, "hub", 1);
}
