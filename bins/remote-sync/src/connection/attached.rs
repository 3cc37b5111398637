//! The client of a connection, and the way that it takes to its cluster.

use shared::{client::Client, config::ClusterConfig, error::Result};

/// What a connection is made of.
pub(super) struct Attached {
    pub(super) client: Client,
    /// What was asked for last.
    pub(super) config: ClusterConfig,
    /// The way to the same cluster from inside, where that was found.
    pub(super) inside: Option<ClusterConfig>,
}

impl Attached {
    /// Uses other credentials on the way that was found.
    pub(super) fn swap(&mut self, config: ClusterConfig) -> Result<()> {
        self.config = config.clone();
        let config = match &self.inside {
            // The way is another one, the credentials stay those of the kubeconfig.
            Some(inside) => ClusterConfig {
                server: inside.server.clone(),
                trust: inside.trust.clone(),
                server_name: None,
                proxy: None,
                ..config
            },
            None => config,
        };
        self.client.swap(config).map(drop)
    }
}

/// Whether both lead to the same server, trusted alike.
pub(super) fn same_server(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.server == other.server
        && one.trust == other.trust
        && one.server_name == other.server_name
        && one.proxy == other.proxy
}
