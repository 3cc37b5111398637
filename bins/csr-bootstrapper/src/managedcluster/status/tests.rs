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
fn joining_the_first_patch_equals_the_go_agents() {
    let clock = at(BEFORE, "ManagedClusterConditionClockSynced", "True", "Synced", "synced");
    let mut cluster = cluster(&[hub_accepted(), clock.clone()]);
    cluster["status"]["version"] = json!({});
    let expected = json!({
        "conditions": [hub_accepted(), clock, joined(NOW), available(NOW)],
        "version": {"kubernetes": "v1.34.3"},
    });
    assert_eq!(differences(&cluster, WELL), expected);
}

#[test]
fn joining_nothing_is_written_before_acceptance_or_twice() {
    let acceptance = |status| at(BEFORE, "HubAcceptedManagedCluster", status, "", "");
    let (denied, unknown) = (acceptance("False"), acceptance("Unknown"));
    let differ = at(BEFORE, "ManagedClusterConditionClockSynced", "False", "", "");
    let known = [hub_accepted(), joined(BEFORE), available(BEFORE)];
    for conditions in [&[][..], &[denied], &[unknown], &[hub_accepted(), differ], &known] {
        let claims = [json!({"name": "id.k8s.io", "value": "a"})];
        let claims = Some(&claims[..]).filter(|_| conditions.len() < 3);
        let spoke = SpokeStatus { claims, ..WELL };
        assert_eq!(differences(&cluster(conditions), spoke), json!({}));
    }
}

#[test]
fn available_follows_the_health() {
    let failing = ApiServerHealth::Failing("etcd".into());
    let ill = |time| at(time, AVAILABLE, "False", UNAVAILABLE, "etcd");
    let lost = at(BEFORE, AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", "stopped");
    let earlier = at(BEFORE, AVAILABLE, "False", UNAVAILABLE, "old");
    for (before, health, after) in [
        (&available(BEFORE), &failing, Some(ill(NOW))),
        // A change of the message alone keeps the transition time.
        (&earlier, &failing, Some(ill(BEFORE))),
        (&earlier, &ApiServerHealth::Ok, Some(available(NOW))),
        (&lost, &ApiServerHealth::Ok, Some(available(NOW))),
        // Not without a look.
        (&lost, &ApiServerHealth::Unknown, None),
    ] {
        let cluster = cluster(&[hub_accepted(), before.clone(), joined(BEFORE)]);
        // The version of an unhealthy spoke stays.
        let version = Some(if *health == ApiServerHealth::Ok { "v1.34.3" } else { "v1.35.0" });
        let after = after.map(|it| json!({"conditions": [hub_accepted(), it, joined(BEFORE)]}));
        let expected = after.unwrap_or_else(|| json!({}));
        assert_eq!(differences(&cluster, SpokeStatus { health, version, ..WELL }), expected);
    }
}

#[test]
fn rotation_is_reported_before_acceptance_and_while_the_clocks_differ() {
    let differ = at(BEFORE, "ManagedClusterConditionClockSynced", "False", "", "");
    let message = "what happened".to_owned();
    let rotated = Condition::new("False", "R", message.clone());
    let wanted = at(NOW, "ClusterCertificateRotated", "False", "R", &message);
    for before in [vec![], vec![hub_accepted(), differ]] {
        let spoke = SpokeStatus { rotated: Some(&rotated), ..WELL };
        let after = [before.clone(), vec![wanted.clone()]].concat();
        assert_eq!(differences(&cluster(&before), spoke), json!({"conditions": after}));
    }
}

#[test]
fn version_and_claims_are_written_when_they_change() {
    let mut cluster = cluster(&[hub_accepted(), joined(BEFORE), available(BEFORE)]);
    let newer = SpokeStatus { version: Some("v1.35.0"), ..WELL };
    assert_eq!(differences(&cluster, newer), json!({"version": {"kubernetes": "v1.35.0"}}));
    let one = json!([{"name": "id.k8s.io", "value": "a"}]);
    for (known, claims, written) in [
        (json!(null), &one, true),
        // None at all is as good as an empty list.
        (json!(null), &json!([]), false),
        (json!([]), &json!([]), false),
        (one.clone(), &one, false),
        (one.clone(), &json!([]), true),
    ] {
        cluster["status"]["clusterClaims"] = known;
        let spoke = SpokeStatus { claims: claims.as_array().map(Vec::as_slice), ..WELL };
        let expected = if written { json!({"clusterClaims": claims}) } else { json!({}) };
        assert_eq!(differences(&cluster, spoke), expected);
    }
}
