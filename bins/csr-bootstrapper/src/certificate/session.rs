//! Use of the credential: the session with its hub, and the question to a new hub.

use std::sync::Arc;

use apiclient::{
    error::{Error, Result},
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::validate::{UsableCredential, Validation};
use crate::{
    agent::{Agent, hub_client},
    bootstrap::BootstrapKubeconfig,
    hub::Hub,
    identity::AgentNames,
    managedcluster::MANAGED_CLUSTERS,
    state::HubSession,
};

/// Makes the session use the credential; `true` if another one has begun or the last one has ended. A credential that
/// is no longer usable ends the session only when the certificate in use has expired too, by every clock, and there is
/// another identity to go on with.
///
/// # Errors
/// `BadConfig` if the credential cannot be used; the current one stays.
pub(super) fn follow(
    agent: &Agent,
    names: &AgentNames,
    validation: &Validation,
    bootstrap: Option<&BootstrapKubeconfig>,
) -> Result<bool> {
    let session = agent.session();
    let usable = validation.usable().and_then(|it| Some((config(it, bootstrap)?, &it.hub)));
    let Some((config, hub)) = usable else {
        let is_over = bootstrap.is_some()
            && session.is_some_and(|session| {
                let end = session.client.certificate_expiry();
                end.is_none_or(|end| agent.clocks().are_past(end))
            });
        if is_over {
            log_object!(
                Level::Warn, agent.credential();
                "the certificate for the hub has expired"
            );
            agent.set_session(None);
        }
        return Ok(is_over);
    };
    // Nothing observed on one hub counts for another, not even the position of its watches.
    match session.filter(|session| session.hub == *hub) {
        Some(session) => session.client.swap(config).map(|_| false),
        None => open(agent, names, config, hub).map(|()| true),
    }
}

fn open(agent: &Agent, names: &AgentNames, config: ClusterConfig, hub: &Hub) -> Result<()> {
    let client = hub_client("the hub", config, &agent.session_requests)?;
    let session =
        HubSession::new(client, hub.clone(), names.clone(), agent.stop.child(), &agent.stop);
    // The one before ends first: its cluster must not appear in the new one.
    agent.set_session(None);
    agent.set_session(Some(Arc::new(session)));
    let message = format!("the hub is used as {} with {}", names.user(), agent.secret_name());
    agent.record_event("HubClientConfigReady", false, &message);
    Ok(())
}

/// The connection to the hub with the credential: its own kubeconfig's, or else the bootstrap kubeconfig's.
fn config(
    usable: &UsableCredential,
    bootstrap: Option<&BootstrapKubeconfig>,
) -> Option<ClusterConfig> {
    let other = || bootstrap.map(|bootstrap| bootstrap.as_agent(&usable.identity));
    usable.config.clone().or_else(other)
}

/// Returns whether the bootstrap kubeconfig's hub knows the agent, whose credential is for another one: reads the
/// ManagedCluster there, as the agent.
///
/// # Errors
/// As the hub says, unless it refuses the agent.
pub(super) fn knows_agent(
    agent: &Agent,
    names: &AgentNames,
    usable: &UsableCredential,
    bootstrap: &BootstrapKubeconfig,
) -> Result<bool> {
    let config = bootstrap.as_agent(&usable.identity);
    let client = agent.requester_client("the hub (at its new address)", config)?;
    match client.get(&MANAGED_CLUSTERS.cluster_object(&names.cluster)) {
        Ok(_) => Ok(true),
        Err(Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_)) => {
            log::debug!("the hub at the new address does not know this agent");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
