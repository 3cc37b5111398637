use std::time::Duration;

use super::*;

const BEFORE: &str = "2026-11-21T11:39:01Z";
const NOW: &str = "2027-01-15T08:00:00Z";
const UNAVAILABLE: &str = "ManagedClusterKubeAPIServerUnavailable";
const WELL: SpokeStatus<'_> = SpokeStatus {
    health: &ApiServerHealth::Ok,
    version: Some("v1.34.3"),
    rotated: None,
    claims: None,
    capacity: None,
    namespaces: None,
};

fn at(time: &str, kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": time})
}

fn hub_accepted() -> Value {
    let message = "Accepted by hub cluster admin";
    at(BEFORE, "HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", message)
}

fn joined(time: &str) -> Value {
    at(time, JOINED, "True", "ManagedClusterJoined", "Managed cluster joined")
}

fn available(time: &str) -> Value {
    at(time, AVAILABLE, "True", "ManagedClusterAvailable", "Managed cluster is available")
}

fn differ() -> Value {
    at(BEFORE, "ManagedClusterConditionClockSynced", "False", "", "")
}

/// The object on the hub with these conditions.
fn cluster(conditions: &[Value]) -> Value {
    let status = json!({"conditions": conditions, "version": {"kubernetes": "v1.34.3"}});
    json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true}, "status": status})
}

fn differences(cluster: &Value, spoke: SpokeStatus<'_>) -> Value {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    Value::Object(super::differences(cluster, spoke, now))
}

#[test]
fn conditions_are_written_once_and_as_far_as_the_hub_accepts() {
    let acceptance = |status| at(BEFORE, "HubAcceptedManagedCluster", status, "", "");
    let synced = at(BEFORE, "ManagedClusterConditionClockSynced", "True", "Synced", "synced");
    let failing = ApiServerHealth::Failing("etcd".into());
    let ill = |time, message| at(time, AVAILABLE, "False", UNAVAILABLE, message);
    let lost = at(BEFORE, AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", "stopped");
    let rotated = Condition::new("False", "R", "what happened".to_owned());
    let [with_rotated, down, unseen] = [
        SpokeStatus { rotated: Some(&rotated), ..WELL },
        SpokeStatus { health: &failing, ..WELL },
        SpokeStatus { health: &ApiServerHealth::Unknown, ..WELL },
    ];
    let rotated = at(NOW, "ClusterCertificateRotated", "False", "R", "what happened");
    let known = |available| vec![hub_accepted(), available, joined(BEFORE)];
    for (before, spoke, after) in [
        // As the Go agent writes it.
        (
            vec![hub_accepted(), synced.clone()],
            &WELL,
            Some(vec![hub_accepted(), synced, joined(NOW), available(NOW)]),
        ),
        (vec![], &WELL, None),
        (vec![acceptance("False")], &WELL, None),
        (vec![acceptance("Unknown")], &WELL, None),
        (vec![hub_accepted(), differ()], &WELL, None),
        (known(available(BEFORE)), &WELL, None),
        (vec![], &with_rotated, Some(vec![rotated.clone()])),
        (
            vec![hub_accepted(), differ()],
            &with_rotated,
            Some(vec![hub_accepted(), differ(), rotated]),
        ),
        (known(available(BEFORE)), &down, Some(known(ill(NOW, "etcd")))),
        // A change of the message alone keeps the transition time.
        (known(ill(BEFORE, "old")), &down, Some(known(ill(BEFORE, "etcd")))),
        (known(ill(BEFORE, "old")), &WELL, Some(known(available(NOW)))),
        (known(lost.clone()), &WELL, Some(known(available(NOW)))),
        // Not without a look.
        (known(lost), &unseen, None),
    ] {
        let expected = after.map_or_else(|| json!({}), |after| json!({"conditions": after}));
        assert_eq!(differences(&cluster(&before), spoke.clone()), expected, "{before:?}");
    }
}

#[test]
fn version_and_claims_are_written_when_they_change() {
    let failing = ApiServerHealth::Failing("etcd".into());
    let newer = SpokeStatus { version: Some("v1.35.0"), ..WELL };
    let ill = SpokeStatus { health: &failing, ..newer.clone() };
    let known = [hub_accepted(), joined(BEFORE), available(BEFORE)];
    let version = json!({"kubernetes": "v1.35.0"});
    assert_eq!(differences(&cluster(&known), newer), json!({"version": version}));
    assert_eq!(differences(&cluster(&known), ill)["version"], json!(null));
    let one = json!([{"name": "id.k8s.io", "value": "a"}]);
    for (conditions, before, claims, written) in [
        (&known[..], json!(null), &one, true),
        // An empty list equals none.
        (&known, json!(null), &json!([]), false),
        (&known, json!([]), &json!([]), false),
        (&known, one.clone(), &one, false),
        (&known, one.clone(), &json!([]), true),
        (&[], json!(null), &one, false),
        (&[hub_accepted(), differ()], json!(null), &one, false),
    ] {
        let mut cluster = cluster(conditions);
        cluster["status"]["clusterClaims"] = before;
        let spoke = SpokeStatus { claims: claims.as_array().map(Vec::as_slice), ..WELL };
        let expected = if written { json!({"clusterClaims": claims}) } else { json!({}) };
        assert_eq!(differences(&cluster, spoke), expected);
    }
}
