//! Use of the credential: the session with its hub, the question to a new hub, and readiness.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::validate::{UsableCredential, Validation, validate};
use crate::{
    agent::{Agent, hub_client},
    bootstrap::BootstrapKubeconfig,
    hub::Hub,
    identity::{AgentNames, in_directory},
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

/// An answer of a new hub counts for this long: it may know the agent later.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Whether the bootstrap kubeconfig's hub knows the agent, while the credential is for another one.
pub(super) struct NewHub {
    hub: Hub,
    certificate: Vec<u8>,
    pub(super) knows_agent: bool,
    until: Instant,
}

impl NewHub {
    /// Reads the ManagedCluster there, as the agent.
    ///
    /// # Errors
    /// As the hub says, unless it refuses the agent.
    pub(super) fn ask(
        agent: &Agent,
        names: &AgentNames,
        usable: &UsableCredential,
        bootstrap: &BootstrapKubeconfig,
    ) -> Result<Self> {
        let config = bootstrap.as_agent(&usable.identity);
        let client = agent.requester_client("the hub (at its new address)", config)?;
        let knows_agent = match client.get(&MANAGED_CLUSTERS.cluster_object(&names.cluster)) {
            Ok(_) => true,
            Err(Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_)) => {
                log::debug!("the hub at the new address does not know this agent");
                false
            }
            Err(error) => return Err(error),
        };
        let (hub, certificate) = (bootstrap.hub.clone(), usable.identity.certificate.clone());
        Ok(Self { hub, certificate, knows_agent, until: Instant::now() + RECHECK_INTERVAL })
    }

    /// Returns whether the answer still counts for this credential and this hub.
    pub(super) fn is_of(&self, usable: &UsableCredential, bootstrap: &BootstrapKubeconfig) -> bool {
        self.hub == bootstrap.hub
            && self.certificate == usable.identity.certificate
            && Instant::now() < self.until
    }
}

/// Returns whether the credential is usable.
///
/// # Errors
/// The reason why it is not, and the progress towards a valid one.
pub(crate) fn ready(agent: &Agent) -> std::result::Result<(), String> {
    let status = agent.read(|state| state.status.clone());
    // An unreadable Secret is left alone.
    let detail =
        status.detail.or_else(|| agent.selection_error()).or_else(|| agent.credential.last_error());
    match (status.trouble, detail) {
        (Some(trouble), Some(detail)) => Err(format!("{trouble}; {detail}")),
        (Some(trouble), None) => Err(trouble),
        (None, _) => files(agent),
    }
}

fn files(agent: &Agent) -> std::result::Result<(), String> {
    let (Some(directory), Some(names)) =
        (&agent.settings.hub_directory, agent.read(|state| state.names.clone()))
    else {
        return Ok(());
    };
    let what = directory.display().to_string();
    let hub = agent.bootstrap().ok().map(|bootstrap| bootstrap.hub.clone());
    // Its kubeconfig may name other files than ours, such as that of a CA.
    let secret = agent.credential_secret();
    let data = secret.as_ref().and_then(|secret| secret["data"].as_object());
    let files = data.into_iter().flatten().map(|(name, _)| name.as_str());
    match validate(&in_directory(directory, files), hub.as_ref(), &names, agent.clocks()) {
        Validation::Usable(_) => Ok(()),
        Validation::Moved(_, word) => Err(format!("{what} is of another hub: the {word} differs")),
        Validation::Unusable(unusable) => Err(format!("{what} {}", unusable.reason)),
    }
}
