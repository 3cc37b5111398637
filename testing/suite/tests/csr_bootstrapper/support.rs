//! Helpers of all these tests: a joined cluster, its certificates, and its requests.

use std::time::{Duration, Instant};

use apiclient::resource::SECRETS;
use dev_apiserver::Request;
use serde_json::{Value, json};
use suite::{
    PATIENCE,
    cluster::Cluster,
    eventually,
    identity::{self, Data},
    ocm::{ACCEPTED, AVAILABLE, Hub, JOINED, clusters},
    pause,
    sidecar::Sidecar,
    spoke::Spoke,
    throughout,
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

/// Does the same on an existing stage.
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
#[track_caller]
pub(crate) fn beating(spoke: &Spoke, more: &[&str]) -> Sidecar {
    let agent = joins(spoke, more);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    agent.wait_for("period=1.0");
    agent
}

/// A cluster that a person let in, and the program that keeps its credential.
#[track_caller]
pub(crate) fn admitted(name: &str) -> (Spoke, Sidecar) {
    let spoke = Spoke::new(name);
    let sidecar = spoke.start(&[]);
    let_in(&spoke);
    settled(&spoke, &sidecar);
    (spoke, sidecar)
}

/// Does what a person has to, once.
#[track_caller]
pub(crate) fn let_in(spoke: &Spoke) {
    spoke.hub.approve_next(&spoke.cluster);
    spoke.hub.accept(&spoke.cluster);
}

/// Waits until there is a credential, the hub sees the cluster, and nothing is left to do.
#[track_caller]
pub(crate) fn settled(spoke: &Spoke, sidecar: &Sidecar) {
    spoke.wait_for_certificate();
    is_seen(&spoke.hub, &spoke.cluster);
    eventually("the stored request is removed", || spoke.pending().is_none());
    sidecar.wait_for_code("/readyz", 200);
}

/// Waits until the hub calls the cluster accepted, joined and available.
#[track_caller]
pub(crate) fn is_seen(hub: &Hub, cluster: &str) {
    for kind in [ACCEPTED, JOINED, AVAILABLE] {
        hub.wait_for_condition(cluster, kind, "True");
    }
}

/// Has the heartbeat's Lease renewed each second, and waits for that twice: the first time may be another agent's.
#[track_caller]
pub(crate) fn gives_signs(spoke: &Spoke) {
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    for _ in 0..2 {
        renews(spoke);
    }
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

// --- certificates and kubeconfigs ---

/// Who asked for the cluster's certificates, sorted: the agent's own certificate, or the bootstrap identity.
pub(crate) fn roles(spoke: &Spoke) -> Vec<&'static str> {
    let role = |request: &Value| match request["spec"]["username"].as_str() {
        Some(user) if user == spoke.user() => "agent",
        Some(user) if user == spoke.how.user() => "bootstrap",
        _ => "another",
    };
    let mut roles: Vec<_> = spoke.hub.csrs_of(&spoke.cluster).iter().map(role).collect();
    roles.sort_unstable();
    roles
}

/// Waits until the Secret holds another certificate than `before`.
#[track_caller]
pub(crate) fn wait_for_another(spoke: &Spoke, before: &Data) -> Data {
    eventually("the Secret holds another certificate", || {
        let now = spoke.credential()?;
        let other = now.get("tls.crt")? != before.get("tls.crt")?;
        other.then_some(now)
    })
}

/// The version of the credential's Secret: another one after each write.
pub(crate) fn version(spoke: &Spoke) -> String {
    let secret = spoke.managed.get(&SECRETS.object(&spoke.namespace, &spoke.secret));
    let version = secret.map(|secret| secret["metadata"]["resourceVersion"].clone());
    version.unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

/// Checks that for a second and a half nothing is written, nothing asked, and the program is content.
#[track_caller]
pub(crate) fn stays_unchanged(spoke: &Spoke, sidecar: &mut Sidecar) {
    let before = (version(spoke), roles(spoke));
    throughout(1500, "Secret and requests stay as they are", || {
        (version(spoke), roles(spoke)) == before
    });
    assert!(spoke.pending().is_none(), "no request is stored");
    assert_eq!(sidecar.ask("/readyz").0, 200, "{:?}", sidecar.ask("/readyz"));
    assert!(sidecar.alive(), "{}", sidecar.log());
}

/// A bootstrap kubeconfig whose token nobody knows.
pub(crate) fn bootstrap_unknown(spoke: &Spoke) -> String {
    let address = spoke.hub_relay.address.to_string();
    let user = json!({"token": "nobody-knows-it"});
    identity::kubeconfig(&address, &spoke.hub.cluster.ca, &user).to_string()
}

/// What the Secret's kubeconfig says, in one string.
pub(crate) fn kubeconfig(data: &Data) -> String {
    String::from_utf8(data["kubeconfig"].clone()).expect("UTF-8")
}

// --- on the embedded hub ---

/// All that the agent sent to the hub as itself.
pub(crate) fn sent(spoke: &Spoke) -> Vec<Request> {
    spoke.hub.cluster.requests_of(&spoke.user())
}

/// Returns the ManagedCluster, which must exist.
pub(crate) fn cluster(spoke: &Spoke) -> Value {
    spoke.hub.managed_cluster(&spoke.cluster).expect("the ManagedCluster")
}
