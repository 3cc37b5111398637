//! ClusterClaims and ClusterProperties of the spoke in the ManagedCluster's status.

use apiclient::resource::Resource;
use serde_json::{Value, json};
use suite::{
    eventually,
    ocm::{claims, properties, serve_claims, serve_properties},
    spoke::Spoke,
};

use crate::support::joins;

pub(crate) fn put(spoke: &Spoke, name: &str, value: &str, labels: &Value) {
    put_as(&claims(), spoke, name, value, labels);
}

fn put_as(kind: &Resource, spoke: &Spoke, name: &str, value: &str, labels: &Value) {
    let target = kind.cluster_object(name);
    let spec = json!({"value": value});
    if spoke.managed.get(&target).is_some() {
        spoke.managed.merge(&target, &json!({"spec": spec}));
        return;
    }
    let claim = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    });
    spoke.managed.create(&target.siblings(), &claim);
}

/// What the hub has of it.
pub(crate) fn told(spoke: &Spoke, name: &str) -> Option<String> {
    let cluster = spoke.hub.managed_cluster(&spoke.cluster)?;
    let mut all = cluster["status"]["clusterClaims"].as_array()?.iter();
    Some(all.find(|claim| claim["name"] == name)?["value"].as_str()?.to_owned())
}

#[track_caller]
pub(crate) fn becomes(spoke: &Spoke, name: &str, value: Option<&str>) {
    eventually(&format!("{name} is {value:?}"), || told(spoke, name).as_deref() == value);
}

#[test]
fn claims_and_properties_are_reported_updated_and_removed() {
    let spoke = Spoke::auto("claims");
    serve_claims(&spoke.managed);
    serve_properties(&spoke.managed);
    // On real servers, others have claims too.
    let [a, b, own] = ["a", "b", "own"].map(|name| format!("{name}.{}", spoke.namespace));
    put(&spoke, &a, "1", &json!({}));
    put(&spoke, &b, "claim", &json!({}));
    put_as(&properties(), &spoke, &b, "property", &json!({}));
    put(&spoke, &own, "1", &json!({"open-cluster-management.io/spoke-only": ""}));
    let _agent = joins(&spoke, &["-feature-gates=ClusterProperty=true"]);
    becomes(&spoke, &a, Some("1"));
    becomes(&spoke, &b, Some("property"));
    put(&spoke, &a, "2", &json!({}));
    becomes(&spoke, &a, Some("2"));
    spoke.managed.delete(&properties().cluster_object(&b));
    becomes(&spoke, &b, Some("claim"));
    for name in [&a, &b] {
        spoke.managed.delete(&claims().cluster_object(name));
        becomes(&spoke, name, None);
    }
    assert_eq!(told(&spoke, &own), None);
}
