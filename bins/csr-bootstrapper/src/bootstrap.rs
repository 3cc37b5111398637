//! Bootstrap kubeconfig: the hub that it leads to, and the connection there.

use shared::{
    config::{Auth, ClusterConfig, KeyPair},
    kubeconfig::Hub,
};

/// A valid bootstrap kubeconfig.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct BootstrapKubeconfig {
    pub(crate) hub: Hub,
    pub(crate) config: ClusterConfig,
}

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
