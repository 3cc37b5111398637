//! Namespaces of the spoke that the hub's cluster sets manage.

use apiclient::resource::NAMESPACES;
use serde_json::{Value, json};
use suite::{
    eventually,
    ocm::{SET_LABEL, clusters, is_true, sets},
    spoke::Spoke,
};

use crate::support::{cluster, joins};

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

/// The namespace's uid on the spoke, and what its label of the hub says.
fn label(spoke: &Spoke, name: &str) -> Option<(Value, Option<String>)> {
    let metadata = spoke.managed.get(&NAMESPACES.cluster_object(name))?["metadata"].take();
    let labels = metadata["labels"].as_object().cloned().unwrap_or_default();
    let ours = labels.iter().find(|(key, _)| key.starts_with(LABEL));
    let value = ours.and_then(|(_, value)| value.as_str().map(str::to_owned));
    Some((metadata["uid"].clone(), value))
}

#[track_caller]
fn becomes(spoke: &Spoke, name: &str, expected: &str) {
    eventually(&format!("{name} is labelled {expected}"), || {
        label(spoke, name)?.1.filter(|value| value == expected)
    });
}

#[test]
fn managed_namespace_is_created_labelled_reported_and_released() {
    let spoke = Spoke::auto("namespaces");
    let [new, old] = ["new", "old"].map(|suffix| format!("{}-{suffix}", spoke.namespace));
    spoke.managed.create_namespace(&old);
    let others = json!({"metadata": {"labels": {"other-label": "value"}}});
    spoke.managed.merge(&NAMESPACES.cluster_object(&old), &others);
    let mut agent = joins(&spoke, &[]);
    manage(&spoke, &[&new, &old]);
    for name in [&new, &old] {
        becomes(&spoke, name, "true");
        eventually(&format!("the status names {name}"), || {
            let told = cluster(&spoke)["status"]["managedNamespaces"].clone();
            let told = told.as_array()?.iter().find(|told| told["name"] == **name)?.clone();
            is_true(&json!({"status": told}), "NamespaceAvailable").then_some(())
        });
    }
    let labels = spoke.managed.get(&NAMESPACES.cluster_object(&old)).expect("it");
    assert_eq!(labels["metadata"]["labels"]["other-label"], "value");

    // Others remove the label, and the namespace.
    let uid = || label(&spoke, &new).map(|(uid, _)| uid);
    let before = uid();
    let target = NAMESPACES.cluster_object(&new);
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
