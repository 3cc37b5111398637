use super::*;
use crate::addon::managed_cluster_addon::{
    AVAILABLE,
    tests::{addon, now},
};

/// What is wanted of the condition Available.
fn available(condition: Condition) -> AddOnStatus {
    AddOnStatus { conditions: vec![(AVAILABLE, condition)], ..AddOnStatus::default() }
}

#[test]
fn addon_lease_patch_changes_one_condition_of_this_object() {
    let other = json!({"type": "Progressing", "status": "False", "lastTransitionTime": "then"});
    let before = json!({"type": "Available", "status": "True", "reason": "old", "message": "old",
        "lastTransitionTime": "then"});
    let known = addon(&json!({"status": {"conditions": [before, other]}}));
    let wanted = Condition::new("True", "ManagedClusterAddOnLeaseUpdated", "available".into());
    let status = available(wanted.clone()).differences(&known, now());
    let conditions = &status["conditions"];
    assert_eq!(conditions[0]["reason"], "ManagedClusterAddOnLeaseUpdated");
    assert_eq!(conditions[0]["lastTransitionTime"], "then", "the status is the same");
    assert_eq!((&conditions[1], conditions[2].is_null()), (&other, true));
    let after = addon(&json!({"status": status}));
    let told = AddOn::of(&after).unwrap().available;
    assert_eq!(told, Some(wanted.digest()), "unchanged status: nothing more to write");
}

#[test]
fn driver_and_user_are_written_where_they_differ() {
    let registrations = json!([
        {"signerName": "example.com/x", "subject": {"user": "kept"}},
        {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": "x", "groups": ["g"]}, "more": 1},
    ]);
    let known = addon(&json!({"status": {"registrations": registrations}}));
    let wanted = AddOnStatus {
        driver: Some("token"),
        user: Some("account".into()),
        ..AddOnStatus::default()
    };
    let status = json!(wanted.differences(&known, now()));
    let after = json!([
        {"signerName": "example.com/x", "subject": {"user": "kept"}},
        {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": "account"}, "more": 1},
    ]);
    assert_eq!(status, json!({"kubeClientDriver": "token", "registrations": after}));
    let written = addon(&json!({"status": status}));
    assert!(wanted.differences(&written, now()).is_empty(), "it is written once");
    let none = AddOnStatus { driver: Some(""), ..AddOnStatus::default() };
    let removed = json!({"kubeClientDriver": null});
    assert_eq!(json!(none.differences(&written, now())), removed);
    assert!(none.differences(&addon(&json!({})), now()).is_empty());
}
