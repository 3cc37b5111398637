//! Client of a session, and the server that it leads to.

use apiclient::{
    client::Client,
    error::{Error, Result},
};
use kubeconfig::config::ClusterConfig;

/// A client with its configuration.
pub(super) struct Attached {
    pub(super) client: Client,
    /// The configuration that was offered last.
    pub(super) config: ClusterConfig,
}

impl Attached {
    /// Switches to other credentials for the same server.
    pub(super) fn swap(&mut self, config: ClusterConfig) -> Result<()> {
        self.config = config.clone();
        self.client.swap(config).map(drop)
    }
}

/// Returns whether both lead to the same server with the same trust.
pub(super) fn same_server(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.server == other.server
        && one.trust == other.trust
        && one.server_name == other.server_name
        && one.proxy == other.proxy
}

/// Credentials that a session may turn to by itself: another server needs another session, as it may be another
/// cluster.
pub(super) fn of_same_server(config: ClusterConfig, of: &ClusterConfig) -> Result<ClusterConfig> {
    match same_server(&config, of) {
        true => Ok(config),
        false => Err(Error::bad_config("the kubeconfig has another server or CA")),
    }
}
