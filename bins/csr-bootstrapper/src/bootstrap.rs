//! Bootstrap kubeconfig: the hub that it leads to, and the connection there.

use crate::hub::Hub;
use kubeconfig::config::{Auth, ClusterConfig, KeyPair};

/// The server of `hub`, by which hubs are told apart.
pub(crate) fn server_of(hub: &Hub) -> &str {
    hub.server.trim_end_matches('/')
}

/// A valid bootstrap kubeconfig.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct BootstrapKubeconfig {
    pub(crate) hub: Hub,
    pub(crate) config: ClusterConfig,
}

/// The reason why there is no bootstrap kubeconfig to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NoBootstrap {
    /// There is no valid one.
    #[default]
    Invalid,
    /// The first selection among several hubs is on its way.
    Selecting,
    /// None of several hubs will do.
    Unselected,
}

/// One that was read, or the reason why there is no valid one.
pub(crate) type BootstrapCandidate = std::result::Result<BootstrapKubeconfig, String>;

impl BootstrapKubeconfig {
    /// The same hub with the agent's own identity.
    pub(crate) fn as_agent(&self, identity: &KeyPair) -> ClusterConfig {
        ClusterConfig {
            identity: Some(identity.clone()),
            auth: Auth::None,
            impersonate: Vec::new(),
            ..self.config.clone()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kubeconfig::config::Trust;

    use super::*;

    pub(crate) fn hub_at(server: &str) -> Hub {
        Hub {
            name: "hub".into(),
            server: server.into(),
            proxy: None,
            authority_file: None,
            authority: None,
            server_name: None,
            insecure: false,
        }
    }

    pub(crate) fn bootstrap_at(server: &str, trust: Trust) -> BootstrapKubeconfig {
        let config = ClusterConfig {
            server: server.into(),
            trust,
            server_name: None,
            identity: None,
            auth: Auth::Token("token".to_owned().into()),
            impersonate: Vec::new(),
            proxy: None,
            namespace: None,
        };
        BootstrapKubeconfig { hub: hub_at(server), config }
    }
}
