//! OCM's klusterlet agent and this one in turn, in mode Singleton on the real servers: neither requests a certificate
//! nor writes what the other applied.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use suite::{
    cluster::resource,
    needs::{Need, needs},
    ocm::{AVAILABLE, Bootstrap, is_true, serve_applied_works, serve_claims, works},
    pause,
    spoke::Spoke,
    within,
};

/// Both pass over all works in this time.
const TURN: u64 = 12_000;
const CLUSTER_SCOPED: [&str; 3] = ["ClusterRole", "ClusterRoleBinding", "PriorityClass"];
const REWRITTEN: &str = "PersistentVolumeClaim";
const FLAGS: [&str; 2] =
    ["--feature-gates=AddonManagement=true,ClusterClaim=true", "--cluster-healthcheck-period=60s"];

/// Plural, kind, API version and content of an object of each kind. A Job is left out: OCM's agent fails to write it at
/// each of its starts, so that its conditions call it not applied.
fn kinds() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let labels = json!({"app": "a"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {
            "restartPolicy": "Always",
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
        },
    });
    let mut job_pod = pod.clone();
    job_pod["spec"]["restartPolicy"] = json!("Never");
    let set = json!({"selector": {"matchLabels": labels}, "template": pod});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "t", "namespace": "default"}]);
    let role =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "t"});
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        ("configmaps", "ConfigMap", "v1", json!({"data": {"k": "v"}})),
        ("secrets", "Secret", "v1", json!({"stringData": {"k": "v"}})),
        ("serviceaccounts", "ServiceAccount", "v1", json!({})),
        (
            "services",
            "Service",
            "v1",
            json!({"spec": {"selector": labels, "ports": [{"port": 80}]}}),
        ),
        (
            "limitranges",
            "LimitRange",
            "v1",
            json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}),
        ),
        ("resourcequotas", "ResourceQuota", "v1", json!({"spec": {"hard": {"pods": "10"}}})),
        (
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            "v1",
            json!({"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}),
        ),
        ("deployments", "Deployment", "apps/v1", json!({"spec": set})),
        ("daemonsets", "DaemonSet", "apps/v1", json!({"spec": set})),
        ("statefulsets", "StatefulSet", "apps/v1", {
            let mut spec = set.clone();
            spec["serviceName"] = json!("t");
            json!({"spec": spec})
        }),
        (
            "cronjobs",
            "CronJob",
            "batch/v1",
            json!({"spec": {
                "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": {"template": job_pod}},
            }}),
        ),
        (
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            json!({"spec": {
                "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "t"},
            }}),
        ),
        (
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            "policy/v1",
            json!({"spec": {
                "minAvailable": 1, "selector": {"matchLabels": labels},
            }}),
        ),
        (
            "networkpolicies",
            "NetworkPolicy",
            "networking.k8s.io/v1",
            json!({"spec": {"podSelector": {}}}),
        ),
        (
            "ingresses",
            "Ingress",
            "networking.k8s.io/v1",
            json!({"spec": {"defaultBackend": {
                "service": {"name": "t", "port": {"number": 80}},
            }}}),
        ),
        (
            "leases",
            "Lease",
            "coordination.k8s.io/v1",
            json!({"spec": {"leaseDurationSeconds": 60}}),
        ),
        ("roles", "Role", rbac, json!({"rules": rules})),
        (
            "rolebindings",
            "RoleBinding",
            rbac,
            json!({"subjects": subjects, "roleRef": role("Role")}),
        ),
        ("clusterroles", "ClusterRole", rbac, json!({"rules": rules})),
        (
            "clusterrolebindings",
            "ClusterRoleBinding",
            rbac,
            json!({"subjects": subjects, "roleRef": role("ClusterRole")}),
        ),
        ("priorityclasses", "PriorityClass", "scheduling.k8s.io/v1", json!({"value": 7})),
    ]
}

/// The spoke with one work of all kinds, each object with the spoke's own name.
struct Stage {
    spoke: Spoke,
    namespace: String,
}

impl Stage {
    fn new() -> Self {
        let spoke = Spoke::for_go("takeover", Bootstrap::Auto);
        serve_claims(&spoke.managed);
        serve_applied_works(&spoke.managed);
        let namespace = spoke.managed.new_namespace("applied");
        Self { spoke, namespace }
    }

    fn create_work(&self) {
        let manifests: Vec<_> = kinds()
            .into_iter()
            .map(|(_, kind, api, mut object)| {
                let mut metadata = json!({"name": self.namespace});
                if !CLUSTER_SCOPED.contains(&kind) {
                    metadata["namespace"] = json!(self.namespace);
                }
                object["apiVersion"] = json!(api);
                object["kind"] = json!(kind);
                object["metadata"] = metadata;
                object
            })
            .collect();
        let metadata = json!({"name": "w", "namespace": self.spoke.cluster});
        let spec = json!({"workload": {"manifests": manifests}});
        let api = works().api_version();
        let work =
            json!({"apiVersion": api, "kind": "ManifestWork", "metadata": metadata, "spec": spec});
        self.spoke.hub.cluster.create(&works().collection(&self.spoke.cluster), &work);
        within(60, "the work is applied", || {
            let work = self.spoke.hub.cluster.get(&works().object(&self.spoke.cluster, "w"))?;
            is_true(&work, "Applied").then_some(())
        });
    }

    /// The version of each applied object and of the AppliedManifestWork, and the number of CSRs.
    fn versions(&self) -> BTreeMap<String, Value> {
        let mut versions = BTreeMap::new();
        for (plural, kind, api, _) in kinds() {
            let group = api.split_once('/').map_or("", |(group, _)| group);
            let mut found = resource(group, plural, kind);
            found.version = api.rsplit('/').next().expect("a version").into();
            let target = match CLUSTER_SCOPED.contains(&kind) {
                true => found.cluster_object(&self.namespace),
                false => found.object(&self.namespace, &self.namespace),
            };
            let object = self.spoke.managed.get(&target);
            let object = object.unwrap_or_else(|| panic!("there is no {kind}"));
            versions.insert(kind.to_owned(), object["metadata"]["resourceVersion"].clone());
        }
        let records = resource(
            "work.open-cluster-management.io",
            "appliedmanifestworks",
            "AppliedManifestWork",
        );
        let all = suite::listing::list(&self.spoke.managed.client, &records.everywhere(), "");
        let own = all.expect("the records are listed").into_iter().filter(|record| {
            record["spec"]["manifestWorkName"] == "w"
                && record["spec"]["agentID"] == suite::spoke::AGENT
        });
        for record in own {
            let name = record["metadata"]["name"].as_str().expect("a name").to_owned();
            let content =
                json!([record["spec"], record["status"], record["metadata"]["finalizers"]]);
            versions.insert(name, content);
        }
        let requests = self.spoke.hub.csrs_of(&self.spoke.cluster).len();
        versions.insert("requests".into(), json!(requests));
        versions
    }
}

#[test]
fn klusterlet_agents_take_over_from_each_other() {
    if !needs(Need::Real, "OCM's klusterlet agent is there") {
        return;
    }
    let stage = Stage::new();
    let mut agent = stage.spoke.start_go_singleton(&FLAGS);
    stage.spoke.hub.wait_for_condition(&stage.spoke.cluster, AVAILABLE, "True");
    stage.create_work();
    pause(TURN);
    let mut before = stage.versions();
    assert!(before.len() > kinds().len() + 1, "{before:?}");
    for turn in 0..3 {
        agent.kill();
        let mut own = stage.spoke.start_own_singleton(&FLAGS);
        own.wait_for("the hub is used as");
        pause(TURN);
        assert_eq!(stage.versions(), before, "turn {turn}:\n{}", own.log());
        own.ends_at_once();
        agent = stage.spoke.start_go_singleton(&FLAGS);
        pause(TURN);
        let after = stage.versions();
        // OCM's agent writes it at each of its starts.
        before.insert(REWRITTEN.into(), after[REWRITTEN].clone());
        assert_eq!(after, before, "turn {turn}, back:\n{}", agent.log());
    }
    stage.spoke.hub.wait_for_condition(&stage.spoke.cluster, AVAILABLE, "True");
}
