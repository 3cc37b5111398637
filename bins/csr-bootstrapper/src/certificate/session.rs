//! Session with the hub: its client is opened, swapped and closed as the credential changes.

use std::sync::Arc;

use apiclient::{
    client::{Client, Reload, Timeouts},
    error::Result,
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::deadline;
use crate::{
    agent::{Agent, HUB_OBJECT},
    hub::Hub,
    identity::AgentNames,
    state::{HubSession, Rotated},
};

/// The last session.
#[derive(Default)]
pub(crate) struct SessionControl {
    hub: Option<Hub>,
    announced: bool,
}

impl SessionControl {
    /// The hub of the credential.
    pub(crate) fn hub(&self) -> Option<&Hub> {
        self.hub.as_ref()
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.announced
    }

    /// Begins a session with the hub.
    ///
    /// # Errors
    /// `BadConfig` if no client can be made; the session before this one continues.
    pub(crate) fn open(
        &mut self,
        agent: &Agent,
        names: &AgentNames,
        config: &ClusterConfig,
        hub: &Hub,
    ) -> Result<()> {
        let timeouts = Timeouts::default();
        let requests = agent.requests.session.clone();
        let client =
            Client::counting("the hub", config.clone(), Reload::Never, timeouts, requests)?;
        let client = client.limited_to(HUB_OBJECT);
        let session = HubSession::new(client, hub.clone(), names.clone(), agent.stop.child());
        // The one before ends first: its cluster must not appear in the new one.
        agent.set_session(None);
        agent.set_session(Some(Arc::new(session)));
        (self.announced, self.hub) = (false, Some(hub.clone()));
        Ok(())
    }

    /// Continues with another credential.
    ///
    /// # Errors
    /// `BadConfig` if it cannot be used; the current one stays.
    pub(crate) fn swap(&mut self, agent: &Agent, config: &ClusterConfig, hub: &Hub) -> Result<()> {
        if let Some(session) = agent.session() {
            session.client.swap(config.clone())?;
            self.hub = Some(hub.clone());
        }
        Ok(())
    }

    /// Ends the session, whose certificate has expired.
    pub(crate) fn close(&self, agent: &Agent) {
        log_object!(Level::Warn, agent.credential(); "the certificate for the hub has expired");
        agent.set_session(None);
    }

    /// Announces the session's certificate in `pem`. A session that only serves to learn the hub's time is
    /// not announced.
    pub(crate) fn announce(&mut self, agent: &Agent, names: &AgentNames, pem: &[u8]) {
        self.announced = true;
        let message = format!("the hub is used as {} with {}", names.user(), agent.secret_name());
        agent.record_event("HubClientConfigReady", false, &message);
        // An earlier process may have ended before it reported its certificate.
        if agent.read(|state| state.rotated.is_none()) {
            agent.set_rotated(Rotated::Done(deadline::rotated_message(pem)));
        }
    }
}
