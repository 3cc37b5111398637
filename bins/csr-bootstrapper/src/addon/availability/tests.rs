use shared::time::{micro_time, seconds_time};

use super::*;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn ago(seconds: u64) -> SystemTime {
    now() - Duration::from_secs(seconds)
}

/// An add-on with this object's fields.
fn addon(more: &Value) -> Value {
    let mut addon = json!({
        "metadata": {"name": "test", "namespace": "cluster1", "uid": "u-1", "resourceVersion": "7"},
        "status": {"namespace": "addons"},
    });
    for field in ["metadata", "status"] {
        for (key, value) in more[field].as_object().into_iter().flatten() {
            addon[field][key] = value.clone();
        }
    }
    addon
}

fn renewed(time: SystemTime) -> AddOnLease {
    AddOnLease::of(&json!({"spec": {"renewTime": micro_time(time)}}))
}

/// Status, reason and message by this Lease.
fn told(addon: &Value, lease: AddOnLease) -> [String; 3] {
    let (Availability { status, reason, message }, _) =
        AddOn::of(addon).unwrap().by_lease("test", lease, now());
    [status, reason, message]
}

fn texts(all: [&str; 3]) -> [String; 3] {
    all.map(str::to_owned)
}

#[test]
fn addon_lease_no_lease() {
    let unknown = "The status of test add-on is unknown.";
    let expected = texts(["Unknown", "ManagedClusterAddOnLeaseNotFound", unknown]);
    assert_eq!(told(&addon(&json!({})), AddOnLease::Absent), expected);
}

#[test]
fn addon_lease_hosted_no_lease() {
    let hosting = json!({"addon.open-cluster-management.io/hosting-cluster-name": "hosting1"});
    let hosted = addon(&json!({"metadata": {"annotations": hosting}}));
    let message = "The status of test add-on is unknown. No lease found on hosting cluster \"hosting1\"; \
                   verify it matches the cluster where this managed cluster's klusterlet actually runs.";
    let expected = texts(["Unknown", "ManagedClusterAddOnLeaseNotFound", message]);
    assert_eq!(told(&hosted, AddOnLease::Absent), expected);
    let leases = AddOn::of(&hosted).unwrap().leases;
    assert_eq!(leases, LeaseNamespace { hosted: true, name: "addons".into() });
}

#[test]
fn addon_lease_stale_and_fresh() {
    let addon = addon(&json!({}));
    let message = "test add-on is available.";
    let fresh = texts(["True", "ManagedClusterAddOnLeaseUpdated", message]);
    let message = "test add-on is not available.";
    let stale = texts(["False", "ManagedClusterAddOnLeaseUpdateStopped", message]);
    for (age, expected) in [(0, &fresh), (299, &fresh), (300, &stale), (3600, &stale)] {
        assert_eq!(told(&addon, renewed(ago(age))), *expected, "{age}");
    }
    let ahead = renewed(now() + Duration::from_secs(3600));
    assert_eq!(told(&addon, ahead), fresh, "of a clock that is ahead");
}

#[test]
fn addon_lease_is_looked_at_again_when_it_goes_stale() {
    let addon = AddOn::of(&addon(&json!({}))).unwrap();
    let until = |lease| addon.by_lease("test", lease, now()).1;
    assert_eq!(until(renewed(ago(100))), Some(now() + Duration::from_secs(200)));
    assert_eq!((until(renewed(ago(300))), until(AddOnLease::Absent)), (None, None));
}

/// Upstream's agent crashes on it.
#[test]
fn addon_lease_without_a_renew_time_counts_from_its_creation() {
    for (created, status) in [(10, "True"), (300, "False")] {
        let lease = json!({
            "metadata": {"creationTimestamp": seconds_time(ago(created))}, "spec": {"renewTime": null},
        });
        assert_eq!(told(&addon(&json!({})), AddOnLease::of(&lease))[0], status);
    }
    for odd in [json!({}), json!(null), json!({"spec": {"renewTime": "yesterday"}})] {
        assert_eq!(told(&addon(&json!({})), AddOnLease::of(&odd))[0], "False", "{odd}");
    }
}

#[test]
fn addon_lease_customized_is_somebody_elses() {
    let mode = |mode: &str| AddOn::of(&addon(&json!({"status": {"healthCheck": {"mode": mode}}})));
    assert!(mode("Customized").unwrap().customized);
    assert!(!mode("Lease").unwrap().customized);
}

/// Upstream's queueKeyFunc.
#[test]
fn addon_lease_install_namespace() {
    let key = "addon.open-cluster-management.io/v1alpha1-install-namespace";
    let namespace = |told: &str, annotation: &str| {
        let more = json!({
            "metadata": {"annotations": {key: annotation}}, "status": {"namespace": told},
        });
        AddOn::of(&addon(&more)).map(|addon| addon.leases.name)
    };
    assert_eq!(namespace("told", "annotated").as_deref(), Some("told"));
    assert_eq!(namespace("", "annotated").as_deref(), Some("annotated"));
    assert_eq!(namespace("", "").as_deref(), Some("open-cluster-management-agent-addon"));
    for odd in ["../kube-system", "A", "a/b", "a?watch=true"] {
        assert_eq!(namespace(odd, ""), None, "it would change the path of a request");
    }
}

#[test]
fn addon_lease_a_patch_is_of_this_very_object_and_changes_one_condition() {
    let other = json!({"type": "Progressing", "status": "False", "lastTransitionTime": "then"});
    let before = json!({"type": "Available", "status": "True", "reason": "old", "message": "old",
        "lastTransitionTime": "then"});
    let known = addon(&json!({"status": {"conditions": [before, other]}}));
    let (wanted, _) = AddOn::of(&known).unwrap().by_lease("test", renewed(now()), now());
    let patch = wanted.patch(&known, now()).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "u-1", "resourceVersion": "7"}));
    let conditions = &patch["status"]["conditions"];
    assert_eq!(conditions[0]["reason"], "ManagedClusterAddOnLeaseUpdated");
    assert_eq!(conditions[0]["lastTransitionTime"], "then", "the status is the same");
    assert_eq!((&conditions[1], conditions[2].is_null()), (&other, true));
    assert_eq!(wanted.patch(&json!([]), now()), None);
    let after = addon(&patch);
    let told = AddOn::of(&after).unwrap().available;
    assert_eq!(told, Some(wanted), "unchanged status: nothing more to write");
}
