//! Check of a hub: whether it would register this cluster with its bootstrap kubeconfig.

use std::time::Instant;

use apiclient::{
    client::{Client, Timeouts},
    error::{Error, Result},
    resource::Resource,
};
use kubeconfig::config::ClusterConfig;
use serde_json::{Value, json};

use super::HubAnswer;
use crate::{
    agent::Agent,
    certificate::csr::CSRS,
    managedcluster::{MANAGED_CLUSTERS, accepts_client},
};

static REVIEWS: Resource =
    Resource::v1("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview");

/// Asks a hub about the cluster of this name with its bootstrap identity: first what upstream asks (ocm
/// `pkg/common/helpers/ssar.go`, GetBootstrapSSARs), then for its ManagedCluster. One that leaves a request without an
/// answer is not asked further.
pub(super) fn check(agent: &Agent, config: ClusterConfig, cluster: &str) -> HubAnswer {
    answer(agent, config, |client| ask(client, cluster))
}

/// Asks the hub of the credential with that, for the ManagedCluster alone.
pub(super) fn check_credential(agent: &Agent, config: ClusterConfig, cluster: &str) -> HubAnswer {
    answer(agent, config, |client| {
        Ok(acceptance(&client.get(&MANAGED_CLUSTERS.cluster_object(cluster))?))
    })
}

fn answer(
    agent: &Agent,
    config: ClusterConfig,
    ask: impl FnOnce(&Client) -> Result<HubAnswer>,
) -> HubAnswer {
    let answer = agent.requester_client("the hub", config).and_then(|client| {
        let answer = ask(&client);
        client.close();
        answer
    });
    answer.unwrap_or_else(|error| match error {
        Error::Unreachable(_) | Error::Unavailable { .. } | Error::BadPeer(_) => {
            HubAnswer::Unreachable(error.to_string())
        }
        _ => HubAnswer::Refused(error.to_string()),
    })
}

fn acceptance(cluster: &Value) -> HubAnswer {
    if accepts_client(cluster) { HubAnswer::Valid } else { HubAnswer::NotAccepted }
}

fn ask(client: &Client, cluster: &str) -> Result<HubAnswer> {
    let until = Instant::now() + Timeouts::REQUEST;
    for (resource, verbs) in
        [(&MANAGED_CLUSTERS, &["create", "get"][..]), (&CSRS, &["create", "get", "list", "watch"])]
    {
        for verb in verbs {
            // Each request has its own time limit; all together have not much more.
            if Instant::now() >= until {
                let seconds = Timeouts::REQUEST.as_secs();
                let message = format!("the hub takes more than {seconds} s for a few requests");
                return Ok(HubAnswer::Unreachable(message));
            }
            if !may(client, resource, verb)? {
                let message = format!("it does not let this identity {verb} {}", resource.plural);
                return Ok(HubAnswer::Refused(message));
            }
        }
    }
    match client.get(&MANAGED_CLUSTERS.cluster_object(cluster)) {
        Err(Error::NotFound(_)) => Ok(HubAnswer::Valid),
        answer => Ok(acceptance(&answer?)),
    }
}

fn may(client: &Client, resource: &Resource, verb: &str) -> Result<bool> {
    let review = json!({
        "apiVersion": REVIEWS.api_version(), "kind": REVIEWS.kind,
        "spec": {"resourceAttributes": {
            "group": resource.group, "resource": resource.plural, "verb": verb,
        }},
    });
    let answer = client.create(&REVIEWS.everywhere(), &review)?;
    Ok(answer["status"]["allowed"] == true)
}
