//! Conditions, version, claims and namespaces that this agent wants in the ManagedCluster's status. No I/O, no clock.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::health::ApiServerHealth;
use crate::{
    capacity::Capacity,
    conditions::{Condition, has, set},
    state::Rotated,
};

pub(crate) const AVAILABLE: &str = "ManagedClusterConditionAvailable";
pub(crate) const JOINED: &str = "ManagedClusterJoined";

/// What was found out about the spoke.
#[derive(Clone)]
pub(crate) struct SpokeStatus<'a> {
    pub(crate) health: &'a ApiServerHealth,
    pub(crate) version: Option<&'a str>,
    /// The result of the last rotation.
    pub(crate) rotated: Option<&'a Rotated>,
    /// The claims to report, while they are known and the spoke is well.
    pub(crate) claims: Option<&'a [Value]>,
    /// The nodes' resources, while they are known and the spoke is well.
    pub(crate) capacity: Option<&'a Capacity>,
    /// The `managedNamespaces` to write, if the hub has others.
    pub(crate) namespaces: Option<Value>,
}

/// What has to change in the status of `cluster`.
///
/// `rotated` is reported even before the hub accepts the cluster, and while the hub finds that the clocks
/// differ; the rest is not (ocm `pkg/registration/spoke/managedcluster/status_controller.go:160-165`, and
/// `pkg/registration/register/secret_controller.go`, which writes `rotated` by itself). The version of an
/// unhealthy spoke stays as it is.
pub(crate) fn differences(
    cluster: &Value,
    spoke: SpokeStatus<'_>,
    now: SystemTime,
) -> Map<String, Value> {
    let known = &cluster["status"];
    let accepted = accepted(cluster) && !clocks_differ(cluster);
    let joined = || Condition::new("True", "ManagedClusterJoined", "Managed cluster joined".into());
    let wanted = [
        (JOINED, accepted.then(joined)),
        (AVAILABLE, spoke.health.condition().filter(|_| accepted)),
        ("ClusterCertificateRotated", spoke.rotated.map(Rotated::condition)),
    ];
    let before = known["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = before.clone();
    for (kind, condition) in wanted {
        if let Some(condition) = condition {
            set(&mut conditions, kind, &condition, now);
        }
    }
    let mut status = Map::new();
    if conditions != before {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    if !accepted {
        return status;
    }
    let version = spoke.version.filter(|_| *spoke.health == ApiServerHealth::Ok);
    if let Some(version) = version.filter(|version| known["version"]["kubernetes"] != *version) {
        status.insert("version".to_owned(), json!({"kubernetes": version}));
    }
    // None at all is as good as an empty list.
    let claims = known["clusterClaims"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(wanted) = spoke.claims.filter(|wanted| claims != *wanted) {
        status.insert("clusterClaims".to_owned(), json!(wanted));
    }
    status.extend(spoke.capacity.map(|it| it.differences(known)).unwrap_or_default());
    status.extend(spoke.namespaces.map(|it| ("managedNamespaces".to_owned(), it)));
    status
}

/// Returns whether the hub finds that this agent's clock differs from its own.
pub(crate) fn clocks_differ(cluster: &Value) -> bool {
    has(cluster, "ManagedClusterConditionClockSynced", "False")
}

/// Returns whether the hub accepted the cluster: by its condition, not by the `hubAcceptsClient` that leads to it,
/// as the condition comes after the rights on the hub.
pub(crate) fn accepted(cluster: &Value) -> bool {
    has(cluster, "HubAcceptedManagedCluster", "True")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apiclient::time::seconds_time;

    use super::*;

    const BEFORE: &str = "2026-11-21T11:39:01Z";

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": BEFORE})
    }

    fn spoke<'a>(health: &'a ApiServerHealth, version: &'a str) -> SpokeStatus<'a> {
        SpokeStatus {
            health,
            version: Some(version),
            rotated: None,
            claims: None,
            capacity: None,
            namespaces: None,
        }
    }

    /// The object on the hub after these conditions were written.
    fn cluster(conditions: Vec<Value>) -> Value {
        json!({
            "metadata": {"name": "cluster1", "uid": "u-1", "resourceVersion": "295"},
            "spec": {"hubAcceptsClient": true},
            "status": {"conditions": conditions, "version": {"kubernetes": "v1.34.3"}},
        })
    }

    fn hub_accepted() -> Value {
        let message = "Accepted by hub cluster admin";
        condition("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", message)
    }

    fn joined() -> Value {
        condition(JOINED, "True", "ManagedClusterJoined", "Managed cluster joined")
    }

    fn available() -> Value {
        let message = "Managed cluster is available";
        condition(AVAILABLE, "True", "ManagedClusterAvailable", message)
    }

    fn patch(
        cluster: &Value,
        spoke: SpokeStatus<'_>,
        rotated: Option<&Rotated>,
        now: SystemTime,
    ) -> Option<Value> {
        let status = differences(cluster, SpokeStatus { rotated, ..spoke }, now);
        (!status.is_empty()).then(|| json!({"status": status}))
    }

    fn patched(
        cluster: &Value,
        health: &ApiServerHealth,
        rotated: Option<&Rotated>,
    ) -> Option<Value> {
        patch(cluster, spoke(health, "v1.34.3"), rotated, now())
    }

    /// The condition of this type in a patch.
    fn said(patch: &Value, kind: &str) -> Value {
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
    }

    #[test]
    fn joining_the_first_patch_is_the_one_that_the_go_agent_sends() {
        let clock = condition("ManagedClusterConditionClockSynced", "True", "Synced", "synced");
        let mut cluster = cluster(vec![hub_accepted(), clock.clone()]);
        cluster["status"]["version"] = json!({});
        let at = |mut condition: Value| {
            condition["lastTransitionTime"] = json!(seconds_time(now()));
            condition
        };
        let expected = json!({
            "status": {
                "conditions": [hub_accepted(), clock, at(joined()), at(available())],
                "version": {"kubernetes": "v1.34.3"},
            },
        });
        assert_eq!(patched(&cluster, &ApiServerHealth::Ok, None), Some(expected));
    }

    #[test]
    fn joining_before_acceptance_nothing_is_said() {
        let denied = condition("HubAcceptedManagedCluster", "False", "HubClusterAdminDenied", "");
        for conditions in [vec![], vec![denied]] {
            assert_eq!(patched(&cluster(conditions), &ApiServerHealth::Ok, None), None);
        }
    }

    #[test]
    fn joining_what_is_said_already_is_not_written() {
        let cluster = cluster(vec![hub_accepted(), joined(), available()]);
        for health in [ApiServerHealth::Ok, ApiServerHealth::Unknown] {
            assert_eq!(patched(&cluster, &health, None), None);
        }
    }

    #[test]
    fn available_is_false_and_the_version_stays_while_ill() {
        let cluster = cluster(vec![hub_accepted(), joined(), available()]);
        let ill =
            ApiServerHealth::Failing("The kube-apiserver is not ok, status code: 500, etcd".into());
        let patch = patch(&cluster, spoke(&ill, "v1.35.0"), None, now()).unwrap();
        let told = said(&patch, AVAILABLE);
        assert_eq!(told["status"], "False");
        assert_eq!(told["reason"], "ManagedClusterKubeAPIServerUnavailable");
        assert_eq!(told["message"], "The kube-apiserver is not ok, status code: 500, etcd");
        assert_eq!(told["lastTransitionTime"], seconds_time(now()));
        assert_eq!(said(&patch, JOINED), joined(), "the others are as they were");
        assert!(patch["status"]["version"].is_null());
    }

    #[test]
    fn available_another_message_is_no_transition() {
        let reason = "ManagedClusterKubeAPIServerUnavailable";
        let conditions =
            vec![hub_accepted(), joined(), condition(AVAILABLE, "False", reason, "old")];
        let patch =
            patched(&cluster(conditions), &ApiServerHealth::Failing("new".into()), None).unwrap();
        assert_eq!(said(&patch, AVAILABLE), condition(AVAILABLE, "False", reason, "new"));
    }

    #[test]
    fn available_after_the_hub_lost_sight_of_the_cluster() {
        let reason = "ManagedClusterLeaseUpdateStopped";
        let unknown = condition(AVAILABLE, "Unknown", reason, "stopped updating its lease.");
        let cluster = cluster(vec![hub_accepted(), unknown, joined()]);
        assert_eq!(patched(&cluster, &ApiServerHealth::Unknown, None), None, "not without a look");
        let patch = patched(&cluster, &ApiServerHealth::Ok, None).unwrap();
        let told = said(&patch, AVAILABLE);
        assert_eq!(
            (&told["status"], &told["reason"]),
            (&json!("True"), &json!("ManagedClusterAvailable"))
        );
        assert_eq!(patch["status"]["conditions"][1], told, "in place");
    }

    #[test]
    fn a_version_that_is_new_is_written_alone() {
        let cluster = cluster(vec![hub_accepted(), joined(), available()]);
        let patch = patch(&cluster, spoke(&ApiServerHealth::Ok, "v1.35.0"), None, now()).unwrap();
        assert_eq!(patch["status"], json!({"version": {"kubernetes": "v1.35.0"}}));
    }

    #[test]
    fn the_rotation_is_told_also_before_acceptance() {
        for (good, reason) in
            [(true, "ClientCertificateUpdated"), (false, "ClientCertificateUpdateFailed")]
        {
            let message = "what happened".to_owned();
            let rotated = if good { Rotated::Done(message) } else { Rotated::Failed(message) };
            for conditions in [vec![], vec![hub_accepted(), joined(), available()]] {
                let cluster = cluster(conditions);
                let patch = patched(&cluster, &ApiServerHealth::Ok, Some(&rotated)).unwrap();
                let told = said(&patch, "ClusterCertificateRotated");
                let status = if good { "True" } else { "False" };
                assert_eq!(told["status"], status);
                assert_eq!(
                    (&told["reason"], &told["message"]),
                    (&json!(reason), &json!("what happened"))
                );
            }
        }
    }

    #[test]
    fn nothing_but_the_rotation_is_said_while_the_clocks_differ() {
        let differ = |status: &str| {
            let kind = "ManagedClusterConditionClockSynced";
            cluster(vec![hub_accepted(), condition(kind, status, "", "")])
        };
        assert_eq!(patched(&differ("False"), &ApiServerHealth::Ok, None), None);
        assert!(patched(&differ("True"), &ApiServerHealth::Ok, None).is_some());
        // People with bad clocks look for exactly this.
        let rotated = Rotated::Failed("no".into());
        let patch = patched(&differ("False"), &ApiServerHealth::Ok, Some(&rotated)).unwrap();
        assert_eq!(said(&patch, "ClusterCertificateRotated")["status"], "False");
        assert_eq!(said(&patch, JOINED), Value::Null);
    }

    #[test]
    fn only_the_condition_counts_as_acceptance() {
        let status = |status: &str| {
            json!({"spec": {"hubAcceptsClient": true},
                "status": {"conditions": [{"type": "HubAcceptedManagedCluster", "status": status}]}})
        };
        assert!(accepted(&status("True")));
        for not in [cluster(vec![]), status("False"), status("Unknown"), json!({}), json!(null)] {
            assert!(!accepted(&not), "{not}");
        }
    }

    #[test]
    fn claim_is_written_when_it_changes() {
        let claims = [json!({"name": "id.k8s.io", "value": "a"})];
        let mut known = cluster(vec![hub_accepted(), joined(), available()]);
        let told = |known: &Value, health: &ApiServerHealth, claims: &[Value]| {
            let spoke = SpokeStatus { claims: Some(claims), ..spoke(health, "v1.34.3") };
            let patch = patch(known, spoke, None, now())?;
            Some(patch["status"]["clusterClaims"].clone()).filter(|claims| !claims.is_null())
        };
        let ok = &ApiServerHealth::Ok;
        assert_eq!(told(&known, ok, &claims), Some(json!(claims)));
        let reported = &ApiServerHealth::Unknown;
        assert_eq!(told(&known, reported, &claims), Some(json!(claims)));
        assert_eq!(told(&known, ok, &[]), None, "none is as good as an empty list");
        known["status"]["clusterClaims"] = json!(claims);
        assert_eq!(told(&known, ok, &claims), None);
        assert_eq!(told(&known, ok, &[]), Some(json!([])), "the last one is gone");
        known["status"]["clusterClaims"] = json!([]);
        assert_eq!(told(&known, ok, &[]), None);
        let unaccepted = cluster(vec![]);
        assert_eq!(told(&unaccepted, ok, &claims), None);
    }
}
