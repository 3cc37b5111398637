//! Bootstrap kubeconfig: the hub that it leads to, and the connection.

use std::sync::Arc;

use kubeconfig::{
    Hub,
    config::{Auth, ClusterConfig, KeyPair},
    error::Result,
    secret,
};
use serde_json::Value;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BootstrapKubeconfig {
    pub(crate) hub: Hub,
    pub(crate) config: ClusterConfig,
}

/// What a source gave when it was read last: a bootstrap kubeconfig, or the reason why none is valid.
pub(crate) type SourceResult = std::result::Result<Arc<BootstrapKubeconfig>, String>;

impl BootstrapKubeconfig {
    /// The connection to the hub with the agent's own identity.
    pub(crate) fn as_agent(&self, identity: &KeyPair) -> ClusterConfig {
        ClusterConfig { identity: Some(identity.clone()), auth: Auth::None, ..self.config.clone() }
    }

    pub(crate) fn of_secret(secret: &Value) -> Result<Self> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let data = secret::data(secret)?;
        Ok(Self {
            config: kubeconfig::from_secret(name, &data)?,
            hub: Hub::of_secret(name, &data)?,
        })
    }
}
