//! Helpers of these tests: an add-on with registrations, answers to its CSRs, and their results.

use std::time::{Duration, SystemTime};

use apiclient::{
    client::{Client, Reload, Timeouts},
    resource::{LEASES, SECRETS},
    time::micro_time,
};
use dev_apiserver::Issued;
use serde_json::{Value, json};
use suite::{
    cluster::Cluster, eventually, identity::Data, ocm::Hub, sidecar::Sidecar, spoke::Spoke,
};

use crate::support::joined;

pub(crate) const ADDON: &str = "addon1";
pub(crate) const KUBE_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(crate) const CUSTOM: &str = "example.com/signer1";
/// The Secrets of the two.
pub(crate) const KUBE_CLIENT_SECRET: &str = "addon1-hub-kubeconfig";
pub(crate) const CUSTOM_SECRET: &str = "addon1-example.com-signer1-client-cert";

/// A cluster that has joined, and a namespace for its add-ons.
pub(crate) fn stage(name: &str, more: &[&str]) -> (Spoke, Sidecar, String) {
    let (spoke, agent) = joined(name, more);
    let namespace = spoke.addon_namespace();
    (spoke, agent, namespace)
}

/// Sets the stage with an add-on that has its certificate for the hub; also returns its Secret's data.
#[track_caller]
pub(crate) fn registered(name: &str) -> (Spoke, Sidecar, String, Data) {
    let (spoke, agent, namespace) = stage(name, &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    let (data, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    (spoke, agent, namespace, data)
}

/// Installs the add-on, whose manager wants these registrations.
pub(crate) fn add(spoke: &Spoke, namespace: &str, registrations: &Value) {
    spoke.hub.add_addon(&spoke.cluster, ADDON, namespace);
    register(spoke, registrations);
}

/// Installs another add-on, whose manager wants a certificate for the hub's API server.
pub(crate) fn add_another(hub: &Hub, cluster: &str, name: &str, namespace: &str) {
    hub.add_addon(cluster, name, namespace);
    hub.set_addon_status(cluster, name, &json!({"registrations": of_signer(KUBE_CLIENT)}));
}

pub(crate) fn register(spoke: &Spoke, registrations: &Value) {
    let status = json!({"registrations": registrations});
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &status);
}

pub(crate) fn of_signer(signer: &str) -> Value {
    json!([{"signerName": signer}])
}

/// The add-on's agent has just made its Lease.
pub(crate) fn put_lease(cluster: &Cluster, namespace: &str) {
    let lease = json!({
        "apiVersion": LEASES.api_version(), "kind": "Lease", "metadata": {"name": ADDON},
        "spec": {"renewTime": micro_time(SystemTime::now())},
    });
    cluster.create(&LEASES.collection(namespace), &lease);
}

/// Waits for the certificate in a Secret, which is another one than `old`.
#[track_caller]
pub(crate) fn certificate(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    old: Option<&Data>,
) -> (Data, Issued) {
    eventually(&format!("{name} has a certificate"), || {
        let data = cluster.read_secret(namespace, name)?;
        let is_new = old.is_none_or(|old| old.get("tls.crt") != data.get("tls.crt"));
        let issued = Issued::of(data.get("tls.crt")?).filter(|_| is_new)?;
        Some((data, issued))
    })
}

/// Waits until the Secret is gone.
#[track_caller]
pub(crate) fn gone(cluster: &Cluster, namespace: &str, name: &str) {
    let target = SECRETS.object(namespace, name);
    eventually(&format!("{name} is gone"), || cluster.get(&target).is_none());
}

/// The CSRs of the add-on.
pub(crate) fn csrs(spoke: &Spoke) -> Vec<Value> {
    let label =
        |csr: &Value| csr["metadata"]["labels"]["open-cluster-management.io/addon-name"] == ADDON;
    spoke.hub.csrs_of(&spoke.cluster).into_iter().filter(label).collect()
}

/// Whether registrations are stored, and no request of theirs.
pub(crate) fn has_no_request(spoke: &Spoke) -> bool {
    let stored = spoke.stored_for_addons();
    stored.is_some_and(|stored| !stored.keys().any(|key| key.ends_with("tls.key")))
}

/// The default user of the add-on's agent.
pub(crate) fn user(spoke: &Spoke) -> String {
    format!("{}:agent:{ADDON}", group(spoke))
}

/// Its default group.
pub(crate) fn group(spoke: &Spoke) -> String {
    format!("system:open-cluster-management:cluster:{}:addon:{ADDON}", spoke.cluster)
}

/// The condition of this type on the add-on, once it has this status.
#[track_caller]
pub(crate) fn told(spoke: &Spoke, kind: &str, status: &str) -> Value {
    eventually(&format!("{kind} is {status}"), || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        let conditions = addon["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|it| it["type"] == kind && it["status"] == status)
    })
}

/// `status.kubeClientDriver` of the add-on, once it is this one.
#[track_caller]
pub(crate) fn has_driver(spoke: &Spoke, driver: &str) {
    eventually(&format!("the driver is {driver}"), || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        let told = addon["status"]["kubeClientDriver"].as_str().unwrap_or_default();
        (told == driver).then_some(())
    });
}

/// What the hub answers to whoever has the content of this Secret.
pub(crate) fn code(data: &Data, path: &str) -> u16 {
    let data = data.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
    let config = kubeconfig::from_secret("ns/x", &data).expect("the kubeconfig");
    let timing = Timeouts::with_request(Duration::from_secs(10));
    let client = Client::new("hub", config, Reload::Never, timing).expect("a client");
    client.text(path).expect("an answer").0
}

/// The hub knows whoever has it, whatever he may do.
#[track_caller]
pub(crate) fn is_known(data: &Data) {
    assert_ne!(code(data, "/api/v1/namespaces/default/secrets"), 401);
}
