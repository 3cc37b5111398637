use super::*;
use crate::addon::managed_cluster_addon::{
    AVAILABLE, ROTATED, TOKEN_REFRESHED,
    tests::{addon, now},
};

#[test]
fn addon_lease_patch_changes_one_condition_of_this_object() {
    let other = json!({"type": "Progressing", "status": "False", "lastTransitionTime": "then"});
    let before = json!({"type": "Available", "status": "True", "reason": "old", "message": "old",
        "lastTransitionTime": "then"});
    let known = addon(&json!({"status": {"conditions": [before, other]}}));
    let wanted = Condition::new("True", "ManagedClusterAddOnLeaseUpdated", "available".into());
    let conditions = [(AVAILABLE, wanted.clone())].into();
    let status = AddOnStatus { conditions, ..AddOnStatus::default() }.patch(&known, now());
    let conditions = &status["conditions"];
    assert_eq!(conditions[0]["reason"], "ManagedClusterAddOnLeaseUpdated");
    assert_eq!(conditions[0]["lastTransitionTime"], "then", "the status is the same");
    assert_eq!((&conditions[1], conditions[2].is_null()), (&other, true));
    let after = addon(&json!({"status": status}));
    let known = AddOn::of(&after).unwrap().conditions;
    assert_eq!(
        known,
        [(AVAILABLE, wanted.digest())].into(),
        "unchanged status: nothing more to write"
    );
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
    let status = json!(wanted.patch(&known, now()));
    let after = json!([
        {"signerName": "example.com/x", "subject": {"user": "kept"}},
        {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": "account"}, "more": 1},
    ]);
    assert_eq!(status, json!({"kubeClientDriver": "token", "registrations": after}));
    let written = addon(&json!({"status": status}));
    assert!(wanted.patch(&written, now()).is_empty(), "it is written once");
    let none = AddOnStatus { driver: Some(""), ..AddOnStatus::default() };
    let removed = json!({"kubeClientDriver": null});
    assert_eq!(json!(none.patch(&written, now())), removed);
    assert!(none.patch(&addon(&json!({})), now()).is_empty());
}

fn of(
    addon: &AddOn,
    all: Vec<TypedCondition>,
    driver: &'static str,
    user: Option<&str>,
) -> AddOnStatus {
    let mut status = AddOnStatus::default();
    status.set_driver(addon, driver, user.map(str::to_owned));
    all.into_iter().for_each(|condition| status.add(condition));
    status
}

fn known(status: Value) -> AddOn {
    AddOn::of(&addon(&json!({"status": status}))).unwrap()
}

fn condition(status: &str, message: &str) -> Condition {
    Condition::new(status, "R", message.to_owned())
}

fn of_kube_client(user: &str) -> Value {
    json!([{"signerName": "example.com/x"}, {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": user}}])
}

#[test]
fn addon_driver_is_told_for_the_hubs_api_server_alone() {
    let told = |status| of(&known(status), Vec::new(), "csr", None).driver;
    assert_eq!(told(json!({"registrations": of_kube_client("")})), Some("csr"));
    assert_eq!(told(json!({"registrations": [{"signerName": "example.com/x"}]})), Some(""));
    let none = known(json!({}));
    assert!(!of(&none, Vec::new(), "csr", None).differs_from(&none));
    let stale = known(json!({"kubeClientDriver": "csr"}));
    assert!(of(&stale, Vec::new(), "csr", None).differs_from(&stale));
}

#[test]
fn addon_failed_certificate_of_two_is_told() {
    let (good, bad) = (condition("True", "good"), condition("False", "bad"));
    for all in [[good.clone(), bad.clone()], [bad.clone(), good]] {
        let told = all.map(|condition| (ROTATED, condition)).into();
        let expected = [(ROTATED, bad.clone())].into();
        assert_eq!(of(&known(json!({})), told, "csr", None).conditions, expected);
    }
    let both = [(ROTATED, condition("True", "a")), (TOKEN_REFRESHED, condition("True", "b"))];
    let told = of(&known(json!({})), both.to_vec(), "csr", None).conditions;
    assert_eq!(told, both.into());
}

#[test]
fn addon_registration_what_the_hub_knows_is_not_written() {
    let conditions = json!([
        {"type": ROTATED, "status": "True", "reason": "R", "message": "m"},
        {"type": TOKEN_REFRESHED, "status": "True", "reason": "R", "message": "t"},
    ]);
    let addon = known(json!({
        "registrations": of_kube_client("me"), "kubeClientDriver": "token", "conditions": conditions,
    }));
    let all = vec![(ROTATED, condition("True", "m")), (TOKEN_REFRESHED, condition("True", "t"))];
    let same = of(&addon, all, "token", Some("me"));
    assert!(!same.differs_from(&addon));
    for other in [
        of(&addon, Vec::new(), "csr", None),
        of(&addon, Vec::new(), "token", Some("other")),
        of(&addon, vec![(ROTATED, condition("True", "other"))], "token", None),
        of(&addon, vec![(TOKEN_REFRESHED, condition("False", "t"))], "token", None),
    ] {
        assert!(other.differs_from(&addon), "{other:?}");
    }
}
