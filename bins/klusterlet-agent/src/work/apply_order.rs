//! Apply order of manifests, by kind alone (ocm `manifestwork_reconciler.go:50-97`).

/// The rank of an unlisted kind, after all listed ones.
const OTHER: usize = 1000;

const RANKS: [&[&str]; 7] = [
    &[
        "PriorityClass",
        "Namespace",
        "CustomResourceDefinition",
        "StorageClass",
        "PersistentVolume",
        "PodSecurityPolicy",
    ],
    &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    &["NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"],
    &["Secret", "ConfigMap", "PersistentVolumeClaim"],
    &["Service"],
    &[
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "StatefulSet",
        "Job",
        "CronJob",
    ],
    &[
        "APIService",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ],
];

/// Returns the rank of a kind: a stable sort by rank puts dependencies first.
pub(crate) fn rank(kind: &str) -> usize {
    RANKS.iter().position(|kinds| kinds.contains(&kind)).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_what_they_need_and_others_keep_their_order() {
        let mut kinds = ["Zebra", "Job", "Service", "Apple", "Role", "Secret", "Namespace"];
        kinds.sort_by_key(|kind| rank(kind));
        assert_eq!(kinds, ["Namespace", "Role", "Secret", "Service", "Job", "Zebra", "Apple"]);
    }
}
