//! Check of a new hub: whether it knows the agent, by one GET with the agent's own certificate.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_object,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::need::NewHub;
use crate::{agent::Agent, managedcluster::MANAGED_CLUSTERS};

/// A hub that was just set up may not know everything yet: only a refusal that lasts this long counts.
const REFUSED_AFTER: Duration = Duration::from_secs(5);
/// A hub that refused the agent may know it later.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The answers of one new hub so far.
pub(super) struct NewHubCheck {
    config: Option<ClusterConfig>,
    answer: NewHub,
    refused_since: Option<Instant>,
    errors: Backoff,
    not_before: Option<Instant>,
}

impl Default for NewHubCheck {
    fn default() -> Self {
        Self {
            config: None,
            answer: NewHub::default(),
            refused_since: None,
            errors: Backoff::new(RECHECK_INTERVAL),
            not_before: None,
        }
    }
}

impl NewHubCheck {
    /// The time of the next check.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// What the hub of `config`, with the agent's identity, answers about its ManagedCluster.
    pub(super) fn check(&mut self, agent: &Agent, cluster: &str, config: ClusterConfig) -> NewHub {
        if self.config.as_ref() != Some(&config) {
            *self = Self { config: Some(config.clone()), ..Self::default() };
        }
        let now = Instant::now();
        if self.not_before.is_none_or(|at| now >= at) {
            let wait = self.take(agent, get(agent, cluster, config), now);
            self.not_before = Some(now + wait);
        }
        self.answer
    }

    /// Takes an answer; returns how long it counts.
    fn take(&mut self, agent: &Agent, answer: Result<()>, now: Instant) -> Duration {
        match answer {
            Ok(()) => {
                self.answer = NewHub::KnowsAgent;
                RECHECK_INTERVAL
            }
            Err(Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_)) => {
                let since = *self.refused_since.get_or_insert(now);
                if now < since + REFUSED_AFTER {
                    return REFUSED_AFTER;
                }
                if self.answer != NewHub::RefusesAgent {
                    log::debug!("the hub at the new address does not know this agent");
                }
                self.answer = NewHub::RefusesAgent;
                RECHECK_INTERVAL
            }
            Err(error) => {
                self.refused_since = None;
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let level = if retry.should_log { Level::Warn } else { Level::Debug };
                log_object!(level, agent.credential(), error:% = error; "the new hub does not answer");
                agent.report(|status| status.detail = Some(error.to_string()));
                retry.wait
            }
        }
    }
}

fn get(agent: &Agent, cluster: &str, config: ClusterConfig) -> Result<()> {
    let client = agent.requester_client("the hub (at its new address)", config)?;
    client.get(&MANAGED_CLUSTERS.cluster_object(cluster)).map(drop)
}
