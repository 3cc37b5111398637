//! Rights that are missing for a while: one line that names verb and resource, and work as soon as they
//! are there. The only scenarios in which the audit expects a 403.

use serde_json::json;
use suite::{
    needs::{Need, needs},
    pause,
    scene::Scene,
    within,
};

use crate::support::{renewals, renews, revoke};

#[test]
fn the_right_to_update_the_lease() {
    let scene = Scene::new("revoked-update");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let revoked = revoke(&scene.hub, &scene.cluster, "update", "leases");
    let line = format!(
        "on the hub is not renewed: update leases {}/my-addon on the hub: 403",
        scene.cluster
    );
    sidecar.wait_for(&line);
    sidecar.wait_for("cannot update resource \"leases\" in API group \"coordination.k8s.io\"");
    scene.ages(2500);
    assert_eq!(sidecar.warnings("is not renewed"), 1, "{}", sidecar.log());
    let before = renewals(&sidecar, "hub");
    revoked.grant();
    within(5, "it is renewed again", || renewals(&sidecar, "hub") > before);
    sidecar.wait_for("is renewed again after");
}

#[test]
fn the_right_to_create_the_lease() {
    let scene = Scene::new("revoked-create");
    let revoked = revoke(&scene.hub, &scene.cluster, "create", "leases");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("is not renewed: create leases");
    pause(1500);
    assert!(scene.lease().is_none());
    assert_eq!(sidecar.warnings("403"), 1, "{}", sidecar.log());
    revoked.grant();
    within(5, "the Lease is there", || scene.lease().is_some());
}

#[test]
fn the_right_to_create_is_missed_when_the_lease_is_deleted() {
    let scene = Scene::new("revoked-recreate");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let revoked = revoke(&scene.hub, &scene.cluster, "create", "leases");
    scene.hub.delete(&scene.hub_lease());
    sidecar.wait_for("is not renewed: create leases");
    assert!(scene.lease().is_none());
    revoked.grant();
    within(5, "the Lease is there", || scene.lease().is_some());
}

#[test]
fn a_lease_that_may_not_be_created_is_seen_when_somebody_else_creates_it() {
    let scene = Scene::new("revoked-return");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = scene.lease().expect("the Lease");
    let _revoked = revoke(&scene.hub, &scene.cluster, "create", "leases");
    scene.hub.delete(&scene.hub_lease());
    sidecar.wait_for("is not renewed: create leases");
    let metadata = json!({"name": before["metadata"]["name"], "namespace": scene.cluster});
    let lease = json!({"apiVersion": before["apiVersion"], "kind": "Lease", "metadata": metadata});
    match &scene.hub.embedded {
        // There, nobody may.
        Some(server) => drop(server.put(lease)),
        None => drop(scene.hub.create(&scene.hub_lease().siblings(), &lease)),
    }
    within(10, "it is renewed", || {
        scene.lease().is_some_and(|lease| lease["spec"]["renewTime"].is_string())
    });
}

#[test]
fn row_5_the_right_to_read_the_secret() {
    let scene = Scene::new("revoked-secret");
    let revoked = revoke(&scene.managed, &scene.namespace, "list", "secrets");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("list secrets");
    pause(1500);
    assert_eq!(sidecar.warnings("403"), 1, "{}", sidecar.log());
    assert!(scene.lease().is_none());
    revoked.grant();
    renews(&sidecar, "hub", 1);
    sidecar.wait_for("is readable again after");
}

#[test]
fn the_right_to_watch_the_secret() {
    let scene = Scene::new("revoked-watch");
    let revoked = revoke(&scene.managed, &scene.namespace, "watch", "secrets");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("watch secrets");
    // What the list said is good.
    renews(&sidecar, "hub", 2);
    assert_eq!(sidecar.warnings("403"), 1, "{}", sidecar.log());
    revoked.grant();
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("the hub's credentials were rotated");
}

#[test]
fn the_right_to_read_the_pod() {
    let scene = Scene::new("revoked-pod");
    let revoked = revoke(&scene.managed, &scene.namespace, "list", "pods");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("list pods");
    pause(1500);
    assert_eq!(sidecar.warnings("403"), 1, "{}", sidecar.log());
    assert!(scene.lease().is_none(), "what is not known is not called healthy");
    revoked.grant();
    renews(&sidecar, "hub", 1);
}

#[test]
fn the_rights_of_the_election() {
    let scene = Scene::new("revoked-election");
    let revoked = revoke(&scene.managed, &scene.namespace, "create", "leases");
    // A right that is missing is told whatever the level of the log.
    let sidecar = scene.start(&["-leader-election", "-v=0"]);
    sidecar.wait_for("leader election is failing: create leases");
    pause(1500);
    assert!(scene.lease().is_none(), "nobody leads");
    assert_eq!(sidecar.count("leader election is failing"), 1, "{}", sidecar.log());
    assert!(sidecar.ask("/readyz").1.contains("no replica is known to be the leader"));
    revoked.grant();
    sidecar.wait_for("recovered after");
    sidecar.wait_for("became the leader (");
    renews(&sidecar, "hub", 1);
}

/// F56: what may be read no more is as it was, and not gone.
#[test]
fn f56_without_the_rights_to_read_what_is_known_holds() {
    if !needs(Need::Embedded, "the log has refusals") {
        return;
    }
    let scene = Scene::new("revoked-reading");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for plural in ["pods", "secrets"] {
        let managed = scene.managed.server().faults();
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
    renews(&sidecar, "hub", 3);
}
