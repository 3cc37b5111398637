//! Kinds of the hub and its spokes, and how to make a spoke serve claims and similar kinds.

use std::{env, fs, path::PathBuf};

use apiclient::resource::Resource;
use serde_json::json;

use super::{ADDONS, GROUP, ensure};
use crate::{
    cluster::{Cluster, resource},
    eventually,
    listing::list,
    sync::definitions,
};

pub fn clusters() -> Resource {
    resource(GROUP, "managedclusters", "ManagedCluster")
}

pub fn addons() -> Resource {
    let version = ADDONS.1.into();
    Resource { version, ..resource(ADDONS.0, "managedclusteraddons", "ManagedClusterAddOn") }
}

pub fn sets() -> Resource {
    let version = "v1beta2".into();
    Resource { version, ..resource(GROUP, "managedclustersets", "ManagedClusterSet") }
}

pub fn works() -> Resource {
    resource("work.open-cluster-management.io", "manifestworks", "ManifestWork")
}

/// Returns AppliedManifestWorks, the records of a work agent on its cluster.
pub fn applied_works() -> Resource {
    let (plural, kind) = ("appliedmanifestworks".into(), "AppliedManifestWork".into());
    Resource { plural, kind, ..works() }
}

pub fn requests() -> Resource {
    resource("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest")
}

pub fn claims() -> Resource {
    Resource { version: "v1alpha1".into(), ..resource(GROUP, "clusterclaims", "ClusterClaim") }
}

pub fn properties() -> Resource {
    let version = "v1alpha1".into();
    Resource { version, ..resource("about.k8s.io", "clusterproperties", "ClusterProperty") }
}

/// Makes a spoke serve ClusterClaims, like OCM's operator.
pub fn serve_claims(spoke: &Cluster) {
    if let Some(server) = &spoke.embedded {
        let claims = dev_apiserver::Resource::custom(
            GROUP,
            "v1alpha1",
            "clusterclaims",
            "ClusterClaim",
            false,
        );
        return server.register(claims);
    }
    define(spoke, "0000_02_clusters.open-cluster-management.io_clusterclaims.crd.yaml");
    let all = claims();
    eventually("claims are served", || list(&spoke.client, &all.everywhere(), "").ok());
}

/// Makes a real spoke serve AppliedManifestWorks.
pub fn serve_applied_works(spoke: &Cluster) {
    define(spoke, "0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml");
}

/// Creates a definition of OCM if it does not exist.
fn define(spoke: &Cluster, file: &str) {
    let assets = PathBuf::from(env::var_os("E2E_ASSETS").expect("E2E_ASSETS"));
    let text = fs::read_to_string(assets.join("crds").join(file)).expect("the definition");
    let definition = serde_yaml::from_str(&text).expect("YAML");
    ensure(spoke, &definitions().resource, None, definition);
}

/// Makes a spoke serve ClusterProperties, as in the definition of KEP-2149.
pub fn serve_properties(spoke: &Cluster) {
    let kind = properties();
    if let Some(server) = &spoke.embedded {
        let Resource { group, version, plural, kind } = &kind;
        let properties = dev_apiserver::Resource::custom(group, version, plural, kind, false);
        return server.register(properties);
    }
    let value = json!({"type": "object", "properties": {"value": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": value}});
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", kind.plural, kind.group),
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": kind.group, "scope": "Cluster",
            "names": {"plural": kind.plural, "singular": "clusterproperty", "kind": kind.kind},
            "versions": [{
                "name": kind.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    ensure(spoke, &definitions().resource, None, definition);
    eventually("properties are served", || list(&spoke.client, &kind.everywhere(), "").ok());
}
