//! The ManagedCluster on the hub: its creation, its watch, its spec, its status and its Lease.

mod health;
pub(crate) mod lease;
pub(crate) mod status;

use std::sync::Arc;

use apiclient::{
    client::Client,
    error::{Error, Result, optional},
    resource::Resource,
    watch::Selection,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::config::Trust;
use serde_json::{Value, json};

use crate::{agent::Agent, identity::AgentNames};

pub(crate) static MANAGED_CLUSTERS: Resource =
    Resource::v1("cluster.open-cluster-management.io", "managedclusters", "ManagedCluster");

/// Introduces this cluster to the hub: creates the ManagedCluster if it is absent, and returns whether it did.
pub(crate) fn introduce(client: &Client, agent: &Agent, names: &AgentNames) -> Result<bool> {
    let target = MANAGED_CLUSTERS.cluster_object(&names.cluster);
    if optional(client.get(&target))?.is_some() {
        return Ok(false);
    }
    let bare = json!({
        "apiVersion": MANAGED_CLUSTERS.api_version(),
        "kind": MANAGED_CLUSTERS.kind,
        "metadata": {"name": names.cluster},
    });
    // Only set at the creation, as in upstream: later changes by others stay.
    let annotations = &agent.settings.annotations;
    let mut new = wanted_by(agent, &bare).unwrap_or(bare);
    if !annotations.is_empty() {
        new["metadata"]["annotations"] = json!(annotations);
    }
    match client.create(&target, &new) {
        Err(Error::AlreadyExists(_)) => Ok(false),
        other => other.map(|_| true),
    }
}

/// Returns whether the hub's administrator accepts `cluster`; the condition about it follows later.
pub(crate) fn accepts_client(cluster: &Value) -> bool {
    cluster["spec"]["hubAcceptsClient"] == true
}

/// Returns `existing` with the settings of `agent`; `None` if it has them.
fn wanted_by(agent: &Agent, existing: &Value) -> Option<Value> {
    let urls = &agent.settings.external_urls;
    if urls.is_empty() {
        return None;
    }
    let trust = agent.spoke().config().trust;
    let bundle = if let Trust::Bundle(pem) = &trust { Some(&**pem) } else { None };
    wanted(existing, urls, bundle)
}

/// Returns `existing` with an entry for each of our `urls`; `None` if it has them. Fields of others stay. Upstream only
/// counts the entries (ocm `pkg/registration/spoke/registration/creating_controller.go:99`). This compares their
/// content, so that a rotated CA reaches the hub.
fn wanted(existing: &Value, urls: &[String], ca_bundle: Option<&[u8]>) -> Option<Value> {
    let spec = &existing["spec"];
    if !(spec.is_object() || spec.is_null()) {
        return None;
    }
    let mut cluster = existing.clone();
    let configs = &existing["spec"]["managedClusterClientConfigs"];
    let mut configs = configs.as_array().cloned().unwrap_or_default();
    let bundle = ca_bundle.map(|pem| json!(BASE64_STANDARD.encode(pem)));
    for url in urls {
        enter(&mut configs, url, bundle.as_ref());
    }
    cluster["spec"]["managedClusterClientConfigs"] = Value::Array(configs);
    (cluster != *existing).then_some(cluster)
}

/// Ensures an entry for `url`; without a bundle of ours, any entry is accepted.
fn enter(configs: &mut Vec<Value>, url: &str, bundle: Option<&Value>) {
    let good = |config: &Value| bundle.is_none_or(|bundle| config["caBundle"] == *bundle);
    if configs.iter().any(|config| config["url"] == url && good(config)) {
        return;
    }
    let ours = configs.iter_mut().find(|config| config["url"] == url);
    match (ours, bundle) {
        (Some(config), Some(bundle)) => config["caBundle"] = bundle.clone(),
        (None, Some(bundle)) => configs.push(json!({"url": url, "caBundle": bundle})),
        (_, None) => configs.push(json!({"url": url})),
    }
}

pub(crate) fn follow(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        let selection = Selection::all(MANAGED_CLUSTERS.cluster_object(&session.names.cluster));
        let (store, client, stop) = (&session.managed_cluster, &session.client, &session.stop);
        let mut parse = |cluster: Value| Some(Arc::new(cluster));
        store.run(client, &selection, stop, &mut parse, &mut || agent.stop.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://spoke.example:6443";

    fn configs(configs: &Value) -> Value {
        let spec = json!({"hubAcceptsClient": true, "managedClusterClientConfigs": configs});
        json!({"metadata": {"name": "cluster1", "resourceVersion": "7"}, "spec": spec})
    }

    #[test]
    fn each_url_has_an_entry_and_others_stay() {
        let other = json!({"url": "https://other.example", "caBundle": "b3RoZXI="});
        let second = "https://second.example";
        let ours = json!({"url": URL, "caBundle": "Y2E="});
        let old = json!({"url": URL, "caBundle": "b2xk", "more": 1});
        let new = json!({"url": URL, "caBundle": "Y2E=", "more": 1});
        let bare = json!({"url": URL});
        for (before, urls, bundle, expected) in [
            (json!(null), &[URL][..], Some("ca"), Some(json!([ours]))),
            (json!([other]), &[URL], Some("ca"), Some(json!([other, ours]))),
            (json!([other]), &[URL], None, Some(json!([other, bare]))),
            (json!([old]), &[URL], Some("ca"), Some(json!([new]))),
            // Without a bundle of ours theirs stays.
            (json!([old]), &[URL], None, None),
            (json!([bare]), &[URL, second, URL], None, Some(json!([bare, {"url": second}]))),
        ] {
            let urls: Vec<_> = urls.iter().map(|url| (*url).to_owned()).collect();
            let bundle = bundle.map(str::as_bytes);
            let written = wanted(&configs(&before), &urls, bundle);
            assert_eq!(written, expected.as_ref().map(configs), "{before}");
            let again = written.and_then(|written| wanted(&written, &urls, bundle));
            assert_eq!(again, None, "{before}");
        }
        for odd in [json!("x"), json!(7), json!([])] {
            let cluster = json!({"metadata": {"name": "x"}, "spec": odd});
            assert_eq!(wanted(&cluster, &[URL.to_owned()], None), None);
        }
    }
}
