//! The command line: the registration agent's names and defaults, and what this program adds.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use shared::election;

/// All that the process is told, complete and valid.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The own namespace: of all Secrets, Events and the election's Lease.
    pub(crate) namespace: String,
    pub(crate) bootstrap: BootstrapSource,
    /// The Secret for the hub's credential.
    pub(crate) hub_secret: String,
    /// The files that hub-kubeconfig-dumper makes of it, where their state counts too.
    pub(crate) hub_directory: Option<PathBuf>,
    pub(crate) cluster_name: Option<String>,
    pub(crate) agent_id: Option<String>,
    /// Kubeconfig of the cluster whose health is reported, where it is not the own one.
    pub(crate) spoke_kubeconfig: Option<PathBuf>,
    /// https URLs of the spoke's API server.
    pub(crate) external_urls: Vec<String>,
    /// For the ManagedCluster; all keys are Open Cluster Management's.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Asked of the signer, in seconds.
    pub(crate) expiration: Option<u32>,
    pub(crate) healthcheck_period: Duration,
    /// How to elect a leader, if one is elected.
    pub(crate) election: Option<election::Timing>,
    /// How long to try, if the credential is fetched once and not kept.
    pub(crate) once: Option<Duration>,
}

/// Where the bootstrap kubeconfig is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapSource {
    File(PathBuf),
    /// Key `kubeconfig` of a Secret of this name in the own namespace.
    Secret(String),
}
