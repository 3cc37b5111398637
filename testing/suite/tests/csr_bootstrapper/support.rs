//! Helpers of all of these tests: a cluster that has joined, and the requests that it sends.

use std::time::{Duration, Instant};

use dev_apiserver::Request;
use serde_json::{Value, json};
use suite::{
    PATIENCE,
    cluster::Cluster,
    eventually,
    ocm::{AVAILABLE, clusters},
    pause,
    sidecar::Sidecar,
    spoke::Spoke,
};

// --- a cluster that has joined ---

/// A cluster that waits for its first certificate, its agent, and the name of the request.
#[track_caller]
pub(crate) fn asking(name: &str) -> (Spoke, Sidecar, String) {
    let spoke = Spoke::new(name);
    let agent = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    (spoke, agent, request)
}

/// A cluster that the hub accepted and finds available, and its agent.
pub(crate) fn joined(name: &str, more: &[&str]) -> (Spoke, Sidecar) {
    let spoke = Spoke::auto(name);
    let agent = joins(&spoke, more);
    (spoke, agent)
}

/// The same on a stage that is there.
#[track_caller]
pub(crate) fn joins(spoke: &Spoke, more: &[&str]) -> Sidecar {
    let agent = spoke.start(more);
    eventually_by(&agent, "the cluster is available", || {
        spoke.hub.condition(&spoke.cluster, AVAILABLE).is_some_and(|it| it.0 == "True")
    });
    agent
}

/// As `eventually`; a failure shows the log of `agent`.
#[track_caller]
pub(crate) fn eventually_by(agent: &Sidecar, what: &str, mut probe: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(PATIENCE);
    while !probe() {
        assert!(Instant::now() < end, "in vain for {PATIENCE} s: {what}\n{}", agent.log());
        pause(20);
    }
}

/// The same with a heartbeat each second.
pub(crate) fn beating(name: &str, more: &[&str]) -> (Spoke, Sidecar) {
    let (spoke, agent) = joined(name, more);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    agent.wait_for("period=1.0");
    (spoke, agent)
}

/// Somebody tells the hub of the cluster.
pub(crate) fn make_cluster(spoke: &Spoke, accepted: bool) {
    let clusters = clusters();
    let cluster = json!({
        "apiVersion": clusters.api_version(), "kind": clusters.kind,
        "metadata": {"name": spoke.cluster}, "spec": {"hubAcceptsClient": accepted},
    });
    spoke.hub.cluster.create(&clusters.everywhere(), &cluster);
}

/// Gives a user or a group these rights in a namespace, by a Role of this name.
pub(crate) fn grant(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    (kind, subject): (&str, &str),
    rules: &Value,
) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    for mut object in [
        json!({"kind": "Role", "rules": rules}),
        json!({
            "kind": "RoleBinding", "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject}],
        }),
    ] {
        object["apiVersion"] = json!(format!("{GROUP}/v1"));
        object["metadata"] = json!({"name": name});
        cluster.apply(&object, namespace);
    }
}

/// The agent's user on its own cluster.
pub(crate) fn account(spoke: &Spoke) -> String {
    format!("system:serviceaccount:{}:csr-bootstrapper", spoke.namespace)
}

// --- what it does ---

/// How many heartbeats this process got through.
pub(crate) fn beats(agent: &Sidecar) -> f64 {
    agent.metric("sidecar_lease_renewals_total{result=\"success\"}").unwrap_or_default()
}

/// Waits for `times` more of them.
#[track_caller]
pub(crate) fn beats_again(agent: &Sidecar, times: u32) {
    let goal = beats(agent) + f64::from(times);
    eventually("the heartbeat goes on", || beats(agent) >= goal);
}

/// The heartbeat's time on the hub.
pub(crate) fn renewed(spoke: &Spoke) -> Option<String> {
    Some(spoke.hub.heartbeat(&spoke.cluster)?["spec"]["renewTime"].as_str()?.to_owned())
}

/// Waits until the heartbeat on the hub has another time than it has now.
#[track_caller]
pub(crate) fn renews(spoke: &Spoke) {
    let before = renewed(spoke);
    eventually("the Lease on the hub is renewed", || {
        renewed(spoke).filter(|time| Some(time) != before.as_ref())
    });
}

// --- on the embedded hub ---

/// All that the agent sent to the hub as itself.
pub(crate) fn sent(spoke: &Spoke) -> Vec<Request> {
    spoke.hub.cluster.requests_of(&spoke.user())
}

/// `update leases`, `patch managedclusters/status` and so on.
pub(crate) fn words(request: &Request) -> String {
    let Request { verb, resource, subresource, .. } = request;
    match subresource.as_str() {
        "" => format!("{verb} {resource}"),
        _ => format!("{verb} {resource}/{subresource}"),
    }
}

/// How many of its requests were this.
pub(crate) fn count(spoke: &Spoke, what: &str) -> usize {
    sent(spoke).iter().filter(|request| words(request) == what).count()
}

/// The ManagedCluster, which is there.
pub(crate) fn cluster(spoke: &Spoke) -> Value {
    spoke.hub.managed_cluster(&spoke.cluster).expect("the ManagedCluster")
}
