//! The hub as it is used with the credential: its client, opened, swapped and closed as the credential says.

use std::sync::Arc;

use log::Level;
use shared::{
    client::{Client, Reload, Timeouts},
    config::ClusterConfig,
    error::Result,
    kubeconfig::Hub,
    log_object,
};

use super::deadline;
use crate::{
    agent::{Agent, HUB_OBJECT},
    identity::AgentNames,
    state::{HubSession, Rotated},
};

/// The session that the credential was last used for.
#[derive(Default)]
pub(crate) struct SessionControl {
    hub: Option<Hub>,
    announced: bool,
}

impl SessionControl {
    /// Where the credential leads to.
    pub(crate) fn hub(&self) -> Option<&Hub> {
        self.hub.as_ref()
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.announced
    }

    /// Begins a session with the hub.
    ///
    /// # Errors
    /// `BadConfig` if no client can be made; a session before this one goes on.
    pub(crate) fn open(&mut self, agent: &Agent, config: &ClusterConfig, hub: &Hub) -> Result<()> {
        let timeouts = Timeouts::default();
        let requests = agent.requests.session.clone();
        let client =
            Client::counting("the hub", config.clone(), Reload::Never, timeouts, requests)?;
        let client = client.limited_to(HUB_OBJECT);
        let session = HubSession { client, stop: agent.stop.child() };
        // First the end of the one before, if there is one: nobody is to see its cluster in this.
        agent.set_session(None);
        agent.set_session(Some(Arc::new(session)));
        (self.announced, self.hub) = (false, Some(hub.clone()));
        Ok(())
    }

    /// Goes on with another credential.
    ///
    /// # Errors
    /// `BadConfig` if it cannot be used; the one in use stays.
    pub(crate) fn swap(&mut self, agent: &Agent, config: &ClusterConfig, hub: &Hub) -> Result<()> {
        if let Some(session) = agent.session() {
            session.client.swap(config.clone())?;
            self.hub = Some(hub.clone());
        }
        Ok(())
    }

    /// Ends the session, whose certificate has expired.
    pub(crate) fn close(&self, agent: &Agent) {
        log_object!(
            Level::Warn, agent.credential(), reason = "expired";
            "the certificate for the hub has expired"
        );
        agent.set_session(None);
    }

    /// Says that the hub is used with the certificate in `pem`. Nothing is said of a session that was begun only
    /// to hear the hub's time.
    pub(crate) fn announce(&mut self, agent: &Agent, names: &AgentNames, pem: &[u8]) {
        self.announced = true;
        let message = format!("the hub is used as {} with {}", names.user(), agent.secret_name());
        agent.record_event("HubClientConfigReady", false, &message);
        // An earlier process may have ended before it told what it got.
        if agent.read(|state| state.rotated.is_none()) {
            agent.set_rotated(Rotated::Done(deadline::rotated_message(pem)));
        }
    }
}
