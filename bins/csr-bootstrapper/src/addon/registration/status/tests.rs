use serde_json::json;

use super::*;
use crate::addon::managed_cluster_addon::{TOKEN_REFRESHED, tests::addon};

fn known(status: serde_json::Value) -> AddOn {
    AddOn::of(&addon(&json!({"status": status}))).unwrap()
}

fn condition(status: &str, message: &str) -> Condition {
    Condition::new(status, "R", message.to_owned())
}

fn of_kube_client(user: &str) -> serde_json::Value {
    json!([{"signerName": "example.com/x"}, {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": user}}])
}

#[test]
fn addon_driver_is_told_for_the_hubs_api_server_alone() {
    let told = |status| wanted(&known(status), "csr", None, Vec::new()).driver;
    assert_eq!(told(json!({"registrations": of_kube_client("")})), Some("csr"));
    assert_eq!(told(json!({"registrations": [{"signerName": "example.com/x"}]})), Some(""));
    let none = known(json!({}));
    assert!(!differs(&none, &wanted(&none, "csr", None, Vec::new())));
    let stale = known(json!({"kubeClientDriver": "csr"}));
    assert!(differs(&stale, &wanted(&stale, "csr", None, Vec::new())));
}

#[test]
fn addon_failed_certificate_of_two_is_told() {
    let (good, bad) = (condition("True", "good"), condition("False", "bad"));
    for all in [[good.clone(), bad.clone()], [bad.clone(), good]] {
        let told = all.map(|condition| (ROTATED, condition)).into();
        assert_eq!(
            wanted(&known(json!({})), "csr", None, told).conditions,
            [(ROTATED, bad.clone())]
        );
    }
    let both = vec![(ROTATED, condition("True", "a")), (TOKEN_REFRESHED, condition("True", "b"))];
    assert_eq!(wanted(&known(json!({})), "csr", None, both.clone()).conditions, both);
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
    let same = wanted(&addon, "token", Some("me".into()), all);
    assert!(!differs(&addon, &same));
    for other in [
        wanted(&addon, "csr", None, Vec::new()),
        wanted(&addon, "token", Some("other".into()), Vec::new()),
        wanted(&addon, "token", None, vec![(ROTATED, condition("True", "other"))]),
        wanted(&addon, "token", None, vec![(TOKEN_REFRESHED, condition("False", "t"))]),
    ] {
        assert!(differs(&addon, &other), "{other:?}");
    }
}
