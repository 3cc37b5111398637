//! Use of the credential: the session with its hub, and the question to a new hub.

use std::sync::Arc;

use apiclient::{
    error::{Error, Result},
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::{
    manager::CertificateManager,
    validate::{UsableCredential, Validation},
};
use crate::{
    agent::hub_client, bootstrap::BootstrapKubeconfig, hub::Hub, managedcluster::MANAGED_CLUSTERS,
    state::HubSession,
};

impl CertificateManager<'_> {
    /// Makes the session use the credential. One that is no longer usable ends the session only when the certificate in use
    /// has expired too, by every clock, and there is another identity to go on with.
    pub(super) fn follow(&self, validation: &Validation) {
        let (agent, session) = (self.agent, self.agent.session());
        let usable = validation.usable().and_then(|it| Some((self.config(it)?, &it.hub)));
        let Some((config, hub)) = usable else {
            let is_over = session.is_some_and(|session| {
                let end = session.client.certificate_expiry();
                end.is_none_or(|end| agent.clocks().are_past(end))
            });
            if is_over && self.bootstrap.is_some() {
                log_object!(
                    Level::Warn, agent.credential();
                    "the certificate for the hub has expired"
                );
                agent.set_session(None);
                // The watch and the client belong to the ended session.
                self.close(None);
            }
            return;
        };
        // Nothing observed on one hub counts for another, not even the position of its watches.
        let used = match session.filter(|session| session.hub == *hub) {
            Some(session) => session.client.swap(config).map(drop),
            None => self.open(config, hub),
        };
        if let Err(error) = used {
            log_object!(
                Level::Warn, agent.credential(), error:% = error;
                "keeping the current credentials"
            );
        }
    }

    fn open(&self, config: ClusterConfig, hub: &Hub) -> Result<()> {
        let (agent, names) = (self.agent, &self.names);
        let client = hub_client("the hub", config, &agent.session_requests)?;
        let session =
            HubSession::new(client, hub.clone(), names.clone(), agent.stop.child(), &agent.stop);
        // The one before ends first: its cluster must not appear in the new one.
        agent.set_session(None);
        agent.set_session(Some(Arc::new(session)));
        self.close(None);
        let message = format!("the hub is used as {} with {}", names.user(), agent.secret_name());
        agent.record_event("HubClientConfigReady", false, &message);
        Ok(())
    }

    /// The connection to the hub with the credential: its own kubeconfig's, or else the bootstrap kubeconfig's.
    fn config(&self, usable: &UsableCredential) -> Option<ClusterConfig> {
        let other = || self.bootstrap.as_ref().map(|it| it.as_agent(&usable.identity));
        usable.config.clone().or_else(other)
    }

    /// Returns whether the hub of `bootstrap` knows the agent, whose credential is for another one: reads the
    /// ManagedCluster there, as the agent.
    ///
    /// # Errors
    /// As the hub says, unless it refuses the agent.
    pub(super) fn is_known_at(
        &self,
        bootstrap: &BootstrapKubeconfig,
        usable: &UsableCredential,
    ) -> Result<bool> {
        let config = bootstrap.as_agent(&usable.identity);
        let client = self.agent.requester_client("the hub (at its new address)", config)?;
        match client.get(&MANAGED_CLUSTERS.cluster_object(&self.names.cluster)) {
            Ok(_) => Ok(true),
            Err(Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_)) => {
                log::debug!("the hub at the new address does not know this agent");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
