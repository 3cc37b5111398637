//! Missing RBAC rights: one log line names verb and resource, and work resumes once they are granted. Only here
//! does the audit expect a 403.

use std::{collections::BTreeSet, time::Instant};

use serde_json::{Value, json};
use suite::{
    needs::{Need, needs},
    rights::revoke,
    scene::{Scene, manifests},
    stays, within,
};

use crate::support::{BLIND, failures, renewals, renews};

/// The name of its Role on both clusters.
const ROLE: &str = "my-addon-addon-lease-controller";

#[test]
fn f12_the_right_to_update_the_lease() {
    let scene = Scene::new("revoked-update");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let revoked = revoke(&scene.hub, &scene.cluster, ROLE, "update", "leases");
    let error = format!("error=\"update leases {}/my-addon on the hub: 403", scene.cluster);
    sidecar.wait_for(&format!("server=\"the hub\" {error}"));
    sidecar.wait_for("cannot update resource \"leases\" in API group \"coordination.k8s.io\"");
    let (tries, start) = (failures(&sidecar, "hub"), Instant::now());
    scene.ages(2500);
    let (tries, passed) = (failures(&sidecar, "hub") - tries, start.elapsed().as_secs_f64());
    assert!(tries < 10.0 * passed, "{tries} tries in {passed} s");
    assert_eq!(sidecar.warnings("lease renewal failed"), 1, "{}", sidecar.log());
    let before = renewals(&sidecar, "hub");
    revoked.grant();
    within(5, "it is renewed again", || renewals(&sidecar, "hub") > before);
    sidecar.wait_for("lease is renewed again");
}

#[test]
fn kalc25_the_right_to_create_the_lease() {
    let scene = Scene::new("revoked-create");
    let revoked = revoke(&scene.hub, &scene.cluster, ROLE, "create", "leases");
    let sidecar = scene.start(&[]);
    sidecar.wait_for("server=\"the hub\" error=\"create leases");
    stays("there is no Lease", || scene.lease().is_none());
    assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
    revoked.grant();
    within(5, "the Lease is there", || scene.lease().is_some());
}

#[test]
fn the_right_to_create_is_missed_when_the_lease_is_deleted() {
    let scene = Scene::new("revoked-recreate");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let revoked = revoke(&scene.hub, &scene.cluster, ROLE, "create", "leases");
    scene.hub.delete(&scene.hub_lease());
    sidecar.wait_for("server=\"the hub\" error=\"create leases");
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
    within(10, "it is renewed", || {
        scene.lease().is_some_and(|lease| lease["spec"]["renewTime"].is_string())
    });
}

#[test]
fn kalc_row_5_the_right_to_read_the_secret() {
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
fn the_right_to_watch_the_secret() {
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
fn the_right_to_read_the_pod() {
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
fn the_rights_of_the_election() {
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

#[test]
fn kalc21_the_manifests_grant_nothing_wide() {
    let all: Vec<_> = manifests("managed").into_iter().chain(manifests("hub")).collect();
    assert!(all.len() >= 4, "{all:?}");
    let mut granted = BTreeSet::new();
    for object in all {
        let kind = object["kind"].as_str().unwrap_or_default();
        assert!(!kind.starts_with("Cluster"), "{object}");
        assert_ne!(object["roleRef"]["kind"], "ClusterRole", "{object}");
        granted.extend(object["rules"].as_array().into_iter().flatten().flat_map(grants));
    }
    let expected = [
        "coordination.k8s.io leases create",
        "coordination.k8s.io leases get named",
        "coordination.k8s.io leases update named",
        "core pods list",
        "core pods watch",
        "core secrets get named",
        "core secrets list named",
        "core secrets watch named",
    ];
    assert_eq!(granted, expected.map(str::to_owned).into());
}

/// Each right of a rule alone, and whether it is for objects by their names.
fn grants(rule: &Value) -> Vec<String> {
    let all = |field: &str| -> Vec<&str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let named = if all("resourceNames").is_empty() { "" } else { " named" };
    let mut rights = Vec::new();
    for group in all("apiGroups") {
        let group = if group.is_empty() { "core" } else { group };
        for resource in all("resources") {
            for verb in all("verbs") {
                rights.push(format!("{group} {resource} {verb}{named}"));
            }
        }
    }
    rights
}
