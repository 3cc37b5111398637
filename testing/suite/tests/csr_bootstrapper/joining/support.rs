//! Helpers of these tests: a cluster that has joined, who requested its certificates, and what its Secret holds.

use apiclient::resource::SECRETS;
use serde_json::{Value, json};
use suite::{
    eventually,
    identity::{self, Data},
    ocm::{ACCEPTED, AVAILABLE, Hub, JOINED},
    sidecar::Sidecar,
    spoke::Spoke,
    throughout,
};

// --- joining ---

/// A cluster that a person let in, and the program that keeps its credential.
#[track_caller]
pub(crate) fn joined(name: &str) -> (Spoke, Sidecar) {
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
        crate::support::renews(spoke);
    }
}

// --- requests ---

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

// --- the Secret ---

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

// --- bootstrap kubeconfigs ---

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
