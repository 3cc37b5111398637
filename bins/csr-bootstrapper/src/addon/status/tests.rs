use apiclient::time::{micro_time, seconds_time};

use super::*;
use crate::{
    addon::managed_cluster_addon::tests::{addon, addon_with, hosted_by, object},
    certificate::authority::now,
};

const TOKEN: KubeClientDriver = KubeClientDriver::Token { lifetime: 700 };

fn condition(status: &str, message: &str) -> Condition {
    Condition::new(status, "R", message.to_owned())
}

fn status(
    more: &Value,
    driver: KubeClientDriver,
    conditions: impl IntoIterator<Item = TypedCondition>,
) -> AddOnStatus {
    let addon = addon_with(&json!({"status": more}), driver);
    AddOnStatus::new(&addon, "c1", conditions.into_iter())
}

#[test]
fn patch_changes_conditions_of_this_agent_alone() {
    let other = json!({"type": "Progressing", "status": "False", "lastTransitionTime": "then"});
    let before = json!({"type": "Available", "status": "True", "reason": "old", "message": "old",
        "lastTransitionTime": "then"});
    let wanted = status(&json!({}), KubeClientDriver::Csr, [(AVAILABLE, condition("True", "m"))]);
    let patch = wanted.patch(&object(&json!({"status": {"conditions": [before, other]}})), now());
    let conditions = &patch["conditions"];
    assert_eq!((&conditions[0]["reason"], &conditions[0]["message"]), (&json!("R"), &json!("m")));
    assert_eq!(conditions[0]["lastTransitionTime"], "then", "the status is the same");
    assert_eq!((&conditions[1], conditions[2].is_null()), (&other, true));
    assert!(wanted.patch(&object(&json!({"status": patch})), now()).is_empty(), "once");
}

#[test]
fn driver_and_user_are_written_where_they_differ() {
    let registrations = json!([
        {"signerName": "example.com/x", "subject": {"user": "kept"}},
        {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": "x", "groups": ["g"]}, "more": 1},
    ]);
    let after = json!([
        {"signerName": "example.com/x", "subject": {"user": "kept"}},
        {"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": "system:serviceaccount:c1:test-agent"}, "more": 1},
    ]);
    let known = json!({"registrations": registrations});
    let patch = |wanted: &AddOnStatus, known| {
        json!(wanted.patch(&object(&json!({"status": known})), now()))
    };
    let wanted = status(&known, TOKEN, []);
    let written = patch(&wanted, known.clone());
    assert_eq!(written, json!({"kubeClientDriver": "token", "registrations": after}));
    assert_eq!(patch(&wanted, written.clone()), json!({}), "it is written once");
    let by_csr = status(&known, KubeClientDriver::Csr, []);
    assert_eq!(patch(&by_csr, known), json!({"kubeClientDriver": "csr"}));
    let without = status(&json!({"registrations": [{"signerName": "x.io/s"}]}), TOKEN, []);
    assert_eq!(patch(&without, written), json!({"kubeClientDriver": null}));
    assert_eq!(patch(&without, json!({})), json!({}));
}

#[test]
fn addon_failed_certificate_of_two_is_told() {
    let (good, bad) = (condition("True", "good"), condition("False", "bad"));
    for all in [[good.clone(), bad.clone()], [bad.clone(), good]] {
        let all = all.map(|condition| (AVAILABLE, condition));
        let expected = [(AVAILABLE, bad.clone())].into();
        assert_eq!(status(&json!({}), KubeClientDriver::Csr, all).conditions, expected);
    }
}

fn ago(seconds: u64) -> SystemTime {
    now() - Duration::from_secs(seconds)
}

fn lease(renewed: SystemTime) -> Value {
    json!({"spec": {"renewTime": micro_time(renewed)}})
}

#[test]
fn addon_lease_fresh_stale_and_gone() {
    let updated = ("True", "ManagedClusterAddOnLeaseUpdated", "test add-on is available.");
    let stopped =
        ("False", "ManagedClusterAddOnLeaseUpdateStopped", "test add-on is not available.");
    let unknown =
        ("Unknown", "ManagedClusterAddOnLeaseNotFound", "The status of test add-on is unknown.");
    let created = |seconds| json!({"metadata": {"creationTimestamp": seconds_time(ago(seconds))}});
    for (lease, (status, reason, message)) in [
        (None, unknown),
        (Some(lease(ago(0))), updated),
        (Some(lease(ago(299))), updated),
        (Some(lease(ago(300))), stopped),
        // A clock that is ahead.
        (Some(lease(now() + Duration::from_secs(3600))), updated),
        // Upstream's agent crashes without a renewTime.
        (Some(created(10)), updated),
        (Some(created(300)), stopped),
        (Some(json!({"spec": {"renewTime": "yesterday"}})), stopped),
        (Some(json!(null)), stopped),
    ] {
        let found = super::available(&addon(&json!({})), lease.as_ref(), now());
        assert_eq!(found, Condition::new(status, reason, message.to_owned()), "{lease:?}");
    }
    let message = "The status of test add-on is unknown. No lease found on hosting cluster \"hosting1\"; \
                   verify it matches the cluster where this managed cluster's klusterlet actually runs.";
    assert_eq!(available(&addon(&hosted_by("hosting1")), None, now()).message, message);
}
