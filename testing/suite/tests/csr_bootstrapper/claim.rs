//! ClusterClaims of the spoke in the ManagedCluster's status.

use apiclient::resource::Resource;
use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::{claims, properties, serve_claims, serve_properties},
    spoke::Spoke,
};

use crate::support::{cluster, joins};

/// A spoke with claims, as OCM's operator makes one.
fn spoke(name: &str) -> Spoke {
    let spoke = Spoke::auto(name);
    serve_claims(&spoke.managed);
    spoke
}

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
fn claim_is_told_changed_and_gone() {
    let spoke = spoke("claim-life");
    // On real servers, others have claims too.
    let name = |first: &str| format!("{first}.{}", spoke.namespace);
    put(&spoke, &name("a"), "1", &json!({}));
    let secret = json!({"open-cluster-management.io/spoke-only": ""});
    put(&spoke, &name("own"), "1", &secret);
    let _agent = joins(&spoke, &[]);
    becomes(&spoke, &name("a"), Some("1"));
    put(&spoke, &name("a"), "2", &json!({}));
    becomes(&spoke, &name("a"), Some("2"));
    put(&spoke, &name("b"), "1", &json!({}));
    becomes(&spoke, &name("b"), Some("1"));
    spoke.managed.delete(&claims().cluster_object(&name("a")));
    becomes(&spoke, &name("a"), None);
    assert_eq!(told(&spoke, &name("own")), None);
    spoke.managed.delete(&claims().cluster_object(&name("b")));
    becomes(&spoke, &name("b"), None);
}

#[test]
fn claim_reserved_truncated_and_by_suffix() {
    if !needs(Need::Embedded, "on the real control plane, others have claims too") {
        return;
    }
    let spoke = spoke("claim-many");
    for name in ["c", "b", "a", "id.k8s.io", "z.mycompany.io"] {
        put(&spoke, name, "v", &json!({}));
    }
    let flags = ["-max-custom-cluster-claims=2", "-reserved-cluster-claim-suffixes=mycompany.io"];
    let agent = joins(&spoke, &flags);
    becomes(&spoke, "b", Some("v"));
    let claim = |name: &str| json!({"name": name, "value": "v"});
    let all = ["id.k8s.io", "z.mycompany.io", "a", "b"].map(claim);
    assert_eq!(cluster(&spoke)["status"]["clusterClaims"], json!(all));
    agent.wait_for("event=CustomClusterClaimsTruncated");
}

#[test]
fn claim_of_a_property_replaces_the_claim_of_its_name() {
    let spoke = spoke("claim-property");
    serve_properties(&spoke.managed);
    let name = |first: &str| format!("{first}.{}", spoke.namespace);
    put(&spoke, &name("a"), "claim", &json!({}));
    put(&spoke, &name("b"), "claim", &json!({}));
    put_as(&properties(), &spoke, &name("b"), "property", &json!({}));
    let _agent = joins(&spoke, &["-feature-gates=ClusterProperty=true"]);
    becomes(&spoke, &name("a"), Some("claim"));
    becomes(&spoke, &name("b"), Some("property"));
    spoke.managed.delete(&properties().cluster_object(&name("b")));
    becomes(&spoke, &name("b"), Some("claim"));
    spoke.managed.delete(&claims().cluster_object(&name("a")));
    spoke.managed.delete(&claims().cluster_object(&name("b")));
    becomes(&spoke, &name("b"), None);
}
