//! The ManagedCluster on the hub: its creation, its watch, its spec, its status and its Lease.

mod event;
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

use crate::{agent::Agent, conditions::has, identity::AgentNames};

pub(crate) static MANAGED_CLUSTERS: Resource =
    Resource::v1("cluster.open-cluster-management.io", "managedclusters", "ManagedCluster");

/// Introduces this cluster to the hub with the identity of `client`: `true` if it created the
/// ManagedCluster, `false` if there is one. Accepting it is up to the hub.
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
    // Given once, as in upstream: later changes by others stay.
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

/// Returns whether the hub finds that this agent's clock differs from its own.
fn clocks_differ(cluster: &Value) -> bool {
    has(cluster, "ManagedClusterConditionClockSynced", "False")
}

/// Returns whether the hub accepted the cluster: by its condition, not by the `hubAcceptsClient` that leads to it,
/// as the condition comes after the rights on the hub.
pub(crate) fn accepted(cluster: &Value) -> bool {
    has(cluster, "HubAcceptedManagedCluster", "True")
}

/// `existing` with the settings of `agent`; `None` if it has them.
fn wanted_by(agent: &Agent, existing: &Value) -> Option<Value> {
    let urls = &agent.settings.external_urls;
    let bundle = match urls.is_empty() {
        true => None,
        false => match agent.spoke().config().trust {
            Trust::Bundle(pem) => Some(pem),
            Trust::System | Trust::Anything => None,
        },
    };
    wanted(existing, urls, bundle.as_deref())
}

/// `existing` with an entry for each of our `urls`, or `None` if it has them. Fields of others stay.
/// Upstream counts the entries; this compares their content, so that a rotated authority arrives (ocm
/// `pkg/registration/spoke/registration/creating_controller.go:99`).
fn wanted(existing: &Value, urls: &[String], ca_bundle: Option<&[u8]>) -> Option<Value> {
    let spec = &existing["spec"];
    if urls.is_empty() || !(spec.is_object() || spec.is_null()) {
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

/// Ensures an entry for `url`; without a bundle of ours any entry will do.
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

    fn urls(urls: &[&str]) -> Vec<String> {
        urls.iter().map(|&url| url.to_owned()).collect()
    }

    fn cluster() -> Value {
        json!({
            "metadata": {"name": "cluster1", "annotations": {"theirs": "1"}, "resourceVersion": "7"},
            "spec": {"hubAcceptsClient": true, "managedClusterClientConfigs": [
                {"url": "https://other.example", "caBundle": "b3RoZXI="},
            ]},
        })
    }

    /// `spec.managedClusterClientConfigs` after one repair; a second one changes nothing.
    fn configs(existing: &Value, url: &[&str], bundle: Option<&[u8]>) -> Value {
        let put_right = wanted(existing, &urls(url), bundle).unwrap();
        assert_eq!(wanted(&put_right, &urls(url), bundle), None);
        assert_eq!(put_right["spec"]["hubAcceptsClient"], existing["spec"]["hubAcceptsClient"]);
        put_right["spec"]["managedClusterClientConfigs"].clone()
    }

    #[test]
    fn without_settings_nothing_is_wanted() {
        for existing in [cluster(), json!({"metadata": {"name": "cluster1"}})] {
            assert_eq!(wanted(&existing, &[], Some(b"ca")), None);
        }
    }

    #[test]
    fn new_cluster_has_the_settings_and_nothing_of_the_hub() {
        let bare = json!({"metadata": {"name": "cluster1"}});
        let new = wanted(&bare, &urls(&[URL]), Some(b"ca"));
        let expected = json!({
            "metadata": {"name": "cluster1"},
            "spec": {"managedClusterClientConfigs": [{"url": URL, "caBundle": "Y2E="}]},
        });
        assert_eq!(new, Some(expected));
    }

    #[test]
    fn entries_of_others_stay() {
        let other = json!({"url": "https://other.example", "caBundle": "b3RoZXI="});
        let ours = json!({"url": URL, "caBundle": "Y2E="});
        assert_eq!(configs(&cluster(), &[URL], Some(b"ca")), json!([other, ours]));
        assert_eq!(configs(&cluster(), &[URL], None), json!([other, {"url": URL}]));
    }

    #[test]
    fn changed_bundle_is_put_right() {
        let mut existing = cluster();
        existing["spec"]["managedClusterClientConfigs"] =
            json!([{"url": URL, "caBundle": "b2xk", "more": 1}]);
        let right = json!([{"url": URL, "caBundle": "bmV3", "more": 1}]);
        assert_eq!(configs(&existing, &[URL], Some(b"new")), right);
        let kept = wanted(&existing, &urls(&[URL]), None);
        assert_eq!(kept, None, "no bundle of ours: theirs stays");
    }

    #[test]
    fn each_url_has_its_entry() {
        let second = "https://second.example";
        let right = configs(&json!({}), &[URL, second, URL], Some(b"ca"));
        assert_eq!(right.as_array().map(Vec::len), Some(2));
        assert_eq!(right[1]["url"], second);
    }

    #[test]
    fn spec_without_fields_stays() {
        for odd in [json!("x"), json!(7), json!([])] {
            let cluster = json!({"metadata": {"name": "x"}, "spec": odd});
            assert_eq!(wanted(&cluster, &urls(&[URL]), None), None);
        }
    }
}
