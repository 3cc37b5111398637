//! Check of a hub: whether it would register this cluster with its bootstrap kubeconfig.

use std::time::Instant;

use apiclient::{
    client::{Client, Timeouts},
    resource::Resource,
};
use kubeconfig::config::ClusterConfig;
use serde_json::json;

use crate::{
    agent::Agent,
    certificate::{csr::CSRS, store},
    managedcluster::{MANAGED_CLUSTERS, accepts_client},
};

static REVIEWS: Resource =
    Resource::v1("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview");

/// Asks a hub about the cluster of this name with its bootstrap identity; returns whether it accepts the cluster or does
/// not know it yet.
///
/// # Errors
/// The reason why it would not register any cluster.
pub(super) fn check(agent: &Agent, config: ClusterConfig, cluster: &str) -> Result<bool, String> {
    let client = agent.requester_client("the hub", config).map_err(|error| error.to_string())?;
    let answer = ask(&client, cluster);
    client.close();
    answer
}

/// First asks what upstream asks (ocm `pkg/common/helpers/ssar.go`, GetBootstrapSSARs), then for the ManagedCluster.
/// The first request without an answer is the last one.
fn ask(client: &Client, cluster: &str) -> Result<bool, String> {
    let until = Instant::now() + Timeouts::REQUEST;
    for (resource, verbs) in
        [(&MANAGED_CLUSTERS, &["create", "get"][..]), (&CSRS, &["create", "get", "list", "watch"])]
    {
        for verb in verbs {
            // Each request has its own time limit; all together have not much more.
            if Instant::now() >= until {
                let seconds = Timeouts::REQUEST.as_secs();
                return Err(format!("the hub takes more than {seconds} s for a few requests"));
            }
            let review = json!({
                "apiVersion": REVIEWS.api_version(), "kind": REVIEWS.kind,
                "spec": {"resourceAttributes": {
                    "group": resource.group, "resource": resource.plural, "verb": verb,
                }},
            });
            let answer = client.create(&REVIEWS.everywhere(), &review);
            if answer.map_err(|error| error.to_string())?["status"]["allowed"] != true {
                return Err(format!("it does not let this identity {verb} {}", resource.plural));
            }
        }
    }
    let found = store::read(client, &MANAGED_CLUSTERS.cluster_object(cluster));
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.is_none_or(|cluster| accepts_client(&cluster)))
}
