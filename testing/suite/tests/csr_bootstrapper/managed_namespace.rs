//! Namespaces of the spoke that the hub's cluster sets manage.

use serde_json::{Value, json};
use suite::{
    cluster::resource,
    eventually,
    ocm::{SET_LABEL, clusters, sets},
    spoke::Spoke,
};

use crate::support::joins;

const LABEL: &str = "clusterset.open-cluster-management.io/";

/// A set of clusters that has this one, and manages these namespaces from now on.
pub(crate) fn manage(spoke: &Spoke, names: &[&str]) {
    let (hub, sets, clusters) = (&spoke.hub.cluster, sets(), clusters());
    let target = sets.cluster_object(&spoke.namespace);
    if hub.get(&target).is_none() {
        let (api, kind) = (sets.api_version(), &sets.kind);
        let set = json!({"apiVersion": api, "kind": kind, "metadata": {"name": spoke.namespace}});
        hub.create(&target.siblings(), &set);
        let labels = json!({SET_LABEL: spoke.namespace});
        let cluster = clusters.cluster_object(&spoke.cluster);
        hub.merge(&cluster, &json!({"metadata": {"labels": labels}}));
    }
    let all: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    hub.merge(&target, &json!({"spec": {"managedNamespaces": all}}));
}

/// The namespace on the spoke, and what its label of the hub says.
fn label(spoke: &Spoke, name: &str) -> Option<(Value, Option<String>)> {
    let namespaces = resource("", "namespaces", "Namespace");
    let namespace = spoke.managed.get(&namespaces.cluster_object(name))?;
    let labels = namespace["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let ours = labels.iter().find(|(key, _)| key.starts_with(LABEL));
    let value = ours.and_then(|(_, value)| value.as_str().map(str::to_owned));
    Some((namespace, value))
}

#[track_caller]
fn becomes(spoke: &Spoke, name: &str, expected: &str) {
    eventually(&format!("{name} is labelled {expected}"), || {
        label(spoke, name)?.1.filter(|value| value == expected)
    });
}

/// Status and reason of its condition on the hub.
fn told(spoke: &Spoke, name: &str) -> Option<(String, String)> {
    let cluster = spoke.hub.managed_cluster(&spoke.cluster)?;
    let mut all = cluster["status"]["managedNamespaces"].as_array()?.iter();
    let namespace = all.find(|namespace| namespace["name"] == name)?;
    let mut conditions = namespace["conditions"].as_array()?.iter();
    let condition = conditions.find(|condition| condition["type"] == "NamespaceAvailable")?;
    let text = |field: &str| condition[field].as_str().map(str::to_owned);
    Some((text("status")?, text("reason")?))
}

#[track_caller]
fn becomes_told(spoke: &Spoke, name: &str, status: &str, reason: &str) {
    eventually(&format!("{name} is told as {reason}"), || {
        (told(spoke, name)? == (status.to_owned(), reason.to_owned())).then_some(())
    });
}

#[test]
fn managed_namespace_is_created_labelled_reported_and_released() {
    let spoke = Spoke::auto("namespaces");
    let [new, old] = ["new", "old"].map(|suffix| format!("{}-{suffix}", spoke.namespace));
    spoke.managed.create_namespace(&old);
    let namespaces = resource("", "namespaces", "Namespace");
    let others = json!({"metadata": {"labels": {"other-label": "value"}}});
    spoke.managed.merge(&namespaces.cluster_object(&old), &others);
    let mut agent = joins(&spoke, &[]);
    manage(&spoke, &[&new, &old]);
    for name in [&new, &old] {
        becomes(&spoke, name, "true");
        becomes_told(&spoke, name, "True", "NamespaceApplied");
    }
    assert_eq!(label(&spoke, &old).expect("it").0["metadata"]["labels"]["other-label"], "value");

    // Others remove the label, and the namespace.
    let uid = || label(&spoke, &new).map(|(namespace, _)| namespace["metadata"]["uid"].clone());
    let before = uid();
    let target = namespaces.cluster_object(&new);
    spoke.managed.merge(&target, &json!({"metadata": {"labels": null}}));
    becomes(&spoke, &new, "true");
    spoke.managed.delete(&target);
    eventually("another is created", || uid().is_some_and(|uid| Some(uid) != before));
    becomes(&spoke, &new, "true");

    manage(&spoke, &[&new]);
    becomes(&spoke, &old, "false");
    // The next process releases what the hub released while no process ran.
    agent.kill();
    manage(&spoke, &[]);
    let _agent = joins(&spoke, &[]);
    becomes(&spoke, &new, "false");
}
