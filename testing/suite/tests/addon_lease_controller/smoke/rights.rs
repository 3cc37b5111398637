//! A missing right is named in one log line, and the manifests grant no more than the program uses.

use std::{collections::BTreeSet, time::Instant};

use serde_json::Value;
use suite::{
    eventually,
    rights::revoke,
    scene::{Scene, manifests},
};

use crate::{
    rights::ROLE,
    support::{failures, renewals},
};

#[test]
fn missing_update_right_is_logged_once() {
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
    eventually("it is renewed again", || renewals(&sidecar, "hub") > before);
    sidecar.wait_for("lease renewal recovered");
}

#[test]
fn manifests_grant_single_objects_where_rbac_can() {
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
