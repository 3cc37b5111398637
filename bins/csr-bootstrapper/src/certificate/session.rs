//! Use of the credential: the session with its hub, and the check of a new hub.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::{
    need::NewHub,
    validate::{UsableCredential, Validation},
};
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

/// A hub that was just set up may not know everything yet: only a refusal that lasts this long counts.
const REFUSED_AFTER: Duration = Duration::from_secs(5);
/// A hub that refused the agent may know it later.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The answers of one new hub so far: whether it knows the agent, by one GET with the agent's own certificate.
pub(super) struct NewHubCheck {
    config: ClusterConfig,
    answer: NewHub,
    refused_since: Option<Instant>,
    errors: Backoff,
    pub(super) not_before: Instant,
}

impl NewHubCheck {
    /// The hub of `config` is not asked yet.
    pub(super) fn new(config: ClusterConfig) -> Self {
        let (answer, errors) = (NewHub::default(), Backoff::new(RECHECK_INTERVAL));
        Self { config, answer, refused_since: None, errors, not_before: Instant::now() }
    }

    pub(super) fn is_of(&self, config: &ClusterConfig) -> bool {
        self.config == *config
    }

    /// What the hub answers about the ManagedCluster.
    pub(super) fn check(&mut self, agent: &Agent, cluster: &str) -> NewHub {
        let now = Instant::now();
        if now >= self.not_before {
            let client =
                agent.requester_client("the hub (at its new address)", self.config.clone());
            let got = client.and_then(|it| it.get(&MANAGED_CLUSTERS.cluster_object(cluster)));
            self.not_before = now + self.take(agent, got.map(drop), now);
        }
        self.answer
    }

    /// Takes an answer; returns how long it counts.
    fn take(&mut self, agent: &Agent, answer: Result<()>, now: Instant) -> Duration {
        match answer {
            Ok(()) => self.answer = NewHub::KnowsAgent,
            Err(Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_)) => {
                if now < *self.refused_since.get_or_insert(now) + REFUSED_AFTER {
                    return REFUSED_AFTER;
                }
                if self.answer != NewHub::RefusesAgent {
                    log::debug!("the hub at the new address does not know this agent");
                }
                self.answer = NewHub::RefusesAgent;
            }
            Err(error) => {
                self.refused_since = None;
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let level = retry.level();
                log_object!(level, agent.credential(), error:% = error; "the new hub does not answer");
                agent.report(|status| status.detail = Some(error.to_string()));
                return retry.wait;
            }
        }
        RECHECK_INTERVAL
    }
}
