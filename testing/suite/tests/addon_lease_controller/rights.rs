//! Missing RBAC rights: one log line names verb and resource, and work resumes once they are granted. Only here
//! does the audit expect a 403.

use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    rights::revoke,
    scene::Scene,
    stays, within,
};

use crate::support::{BLIND, renews};

/// The name of its Role on both clusters.
pub(crate) const ROLE: &str = "my-addon-addon-lease-controller";

#[test]
fn missing_create_right_is_logged_and_waited_out() {
    let scene = Scene::new("revoked-create");
    let revoked = revoke(&scene.hub, &scene.cluster, ROLE, "create", "leases");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("server=\"the hub\" error=\"create leases");
    stays("there is no Lease", || scene.lease().is_none());
    assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
    revoked.grant();
    eventually("the Lease is there", || scene.lease().is_some());
}

#[test]
fn lease_created_by_others_is_renewed_without_create_right() {
    let scene = Scene::new("revoked-return");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = scene.lease().expect("the Lease");
    let _revoked = revoke(&scene.hub, &scene.cluster, ROLE, "create", "leases");
    scene.hub.delete(&scene.hub_lease());
    sidecar.wait_for("server=\"the hub\" error=\"create leases");
    let metadata = json!({"name": before["metadata"]["name"], "namespace": scene.cluster});
    let lease = json!({"apiVersion": before["apiVersion"], "kind": "Lease", "metadata": metadata});
    match &scene.hub.embedded {
        // There the fault denies it to everybody.
        Some(server) => drop(server.put(lease)),
        None => drop(scene.hub.create(&scene.hub_lease().siblings(), &lease)),
    }
    eventually("it is renewed", || {
        scene.lease().is_some_and(|lease| lease["spec"]["renewTime"].is_string())
    });
}

// Row 5 of the Go sidecar's reconcile loop.
#[test]
fn missing_right_to_list_the_secret_is_waited_out() {
    let scene = Scene::new("revoked-secret");
    let revoked = revoke(&scene.managed, &scene.namespace, ROLE, "list", "secrets");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("list secrets");
    stays("there is no Lease", || scene.lease().is_none());
    assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
    revoked.grant();
    renews(&sidecar, "hub", 1);
    sidecar.wait_for("readable again");
}

#[test]
fn missing_right_to_watch_the_secret_is_waited_out() {
    let scene = Scene::new("revoked-watch");
    let revoked = revoke(&scene.managed, &scene.namespace, ROLE, "watch", "secrets");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("watch secrets");
    // What the list returned still counts.
    renews(&sidecar, "hub", 2);
    assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
    revoked.grant();
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials rotated server=\"the hub\"");
}

#[test]
fn missing_right_to_list_the_pod_is_waited_out() {
    let scene = Scene::new("revoked-pod");
    let revoked = revoke(&scene.managed, &scene.namespace, ROLE, "list", "pods");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("list pods");
    stays("what is not known is not called healthy", || scene.lease().is_none());
    assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
    revoked.grant();
    renews(&sidecar, "hub", 1);
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

/// What may be read no more is as it was, and not gone.
#[test]
fn revoked_read_rights_leave_the_last_known_state() {
    if !needs(Need::Embedded, "the log has refusals") {
        return;
    }
    let scene = Scene::new("revoked-reading");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for plural in ["pods", "secrets"] {
        let managed = scene.managed.faults();
        for verb in ["list", "watch"] {
            managed.deny(verb, plural, &scene.namespace);
        }
    }
    scene.managed_relay.cut();
    for plural in ["pods", "secrets"] {
        let refused = || {
            let all = scene.managed.server().requests();
            let lists = all.iter().filter(|it| it.verb == "list" && it.resource == plural);
            lists.filter(|it| it.code == 403).count() > 0
        };
        within(60, &format!("a list of {plural} is refused"), refused);
    }
    // The words that other tests look for in vain.
    sidecar.wait_for(BLIND);
    renews(&sidecar, "hub", 3);
}
