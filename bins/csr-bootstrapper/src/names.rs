//! The two names that make up the agent's user on the hub.

/// Prefix of every user and group of Open Cluster Management's agents.
const PREFIX: &str = "system:open-cluster-management:";
/// The group of all agents (ocm `pkg/registration/register/csr/csr.go:429-482`).
const ALL_CLUSTERS: &str = "system:open-cluster-management:managed-clusters";

/// Who this agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) cluster: String,
    pub(crate) agent: String,
}

impl Names {
    /// The user on the hub: the common name of the certificate.
    pub(crate) fn user(&self) -> String {
        format!("{PREFIX}{}:{}", self.cluster, self.agent)
    }

    /// Its groups, sorted: the organizations of the certificate.
    pub(crate) fn groups(&self) -> [String; 2] {
        let mut groups = [format!("{PREFIX}{}", self.cluster), ALL_CLUSTERS.to_owned()];
        groups.sort();
        groups
    }
}
