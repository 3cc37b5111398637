//! Session with the hub: its client is opened, swapped and closed as the credential changes.

use std::sync::Arc;

use apiclient::{
    client::{Client, Reload, Timeouts},
    error::Result,
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::validate::{UsableCredential, Validation};
use crate::{
    agent::{Agent, HUB_OBJECT},
    bootstrap::BootstrapKubeconfig,
    clocks::Clocks,
    hub::Hub,
    identity::AgentNames,
    state::HubSession,
};

/// The last session.
#[derive(Default)]
pub(super) struct SessionControl {
    /// The hub of its credential.
    pub(super) hub: Option<Hub>,
    is_announced: bool,
}

impl SessionControl {
    /// Makes the session use the credential; `true` if another one has begun or the last one has ended. A credential that
    /// is no longer usable ends the session only when the certificate in use has expired too, by every clock, and there is
    /// another identity to go on with.
    ///
    /// # Errors
    /// `BadConfig` if the credential cannot be used; the current one stays.
    pub(super) fn follow(
        &mut self,
        agent: &Agent,
        names: &AgentNames,
        validation: &Validation,
        bootstrap: Option<&BootstrapKubeconfig>,
        clocks: Clocks,
    ) -> Result<bool> {
        let next =
            validation.usable().and_then(|usable| Some((config(usable, bootstrap)?, usable)));
        let changed = match (next, agent.session()) {
            (Some((config, usable)), Some(session)) => {
                let hub = &usable.hub;
                // Nothing observed on one hub counts for another, not even the position of its watches.
                if self.hub.as_ref().is_some_and(|before| before.differs_from(hub).is_some()) {
                    self.open(agent, names, config, hub)?;
                    true
                } else {
                    if session.client.config() != config {
                        session.client.swap(config)?;
                    }
                    self.hub = Some(hub.clone());
                    false
                }
            }
            (Some((config, usable)), None) => {
                self.open(agent, names, config, &usable.hub)?;
                true
            }
            (None, Some(session)) if bootstrap.is_some() => {
                let is_over =
                    session.client.certificate_expiry().is_none_or(|end| clocks.are_past(end));
                if is_over {
                    log_object!(
                        Level::Warn, agent.credential();
                        "the certificate for the hub has expired"
                    );
                    agent.set_session(None);
                }
                is_over
            }
            _ => false,
        };
        if validation.usable().is_some() {
            self.announce(agent, names);
        }
        Ok(changed)
    }

    fn open(
        &mut self,
        agent: &Agent,
        names: &AgentNames,
        config: ClusterConfig,
        hub: &Hub,
    ) -> Result<()> {
        let (timeouts, requests) = (Timeouts::default(), agent.session_requests.clone());
        let client = Client::counting("the hub", config, Reload::Never, timeouts, requests)?;
        let client = client.limited_to(HUB_OBJECT);
        let session =
            HubSession::new(client, hub.clone(), names.clone(), agent.stop.child(), &agent.stop);
        // The one before ends first: its cluster must not appear in the new one.
        agent.set_session(None);
        agent.set_session(Some(Arc::new(session)));
        (self.is_announced, self.hub) = (false, Some(hub.clone()));
        Ok(())
    }

    /// Announces a session, once.
    fn announce(&mut self, agent: &Agent, names: &AgentNames) {
        if self.hub.is_none() || std::mem::replace(&mut self.is_announced, true) {
            return;
        }
        let message = format!("the hub is used as {} with {}", names.user(), agent.secret_name());
        agent.record_event("HubClientConfigReady", false, &message);
    }
}

/// The connection to the hub with the credential: its own kubeconfig's, or else the bootstrap kubeconfig's.
fn config(
    usable: &UsableCredential,
    bootstrap: Option<&BootstrapKubeconfig>,
) -> Option<ClusterConfig> {
    let other = || bootstrap.map(|bootstrap| bootstrap.as_agent(&usable.identity));
    usable.config.clone().or_else(other)
}
