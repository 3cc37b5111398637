//! Certificate manager: the loop that keeps the cluster's certificate.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{backoff::Backoff, controller, error::Result, stop::Stop};
use kubeconfig::{Hub, secret::Data};

use super::{
    Certificate,
    io::{CertificateContext, RequestStore, Requester},
    validate::{self, Need, UsableCredential, Validation},
};
use crate::{
    agent::Agent, bootstrap::BootstrapKubeconfig, identity::AgentNames, pacing::Pace,
    state::CredentialState,
};

const MAX_WAIT: Duration = Duration::from_secs(60);
/// The longest Retry-After that is honored.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// A credential counts as refused after this time of only 401, up to doubled by jitter: the hub may just be restarting,
/// and a fleet must not return at once.
const REFUSED_AFTER: Duration = Duration::from_secs(30);

pub(crate) struct CertificateManager<'a> {
    pub(super) agent: &'a Agent,
    pub(super) names: AgentNames,
    pub(super) store: RequestStore,
    certificate: Certificate,
    pub(super) bootstrap: Option<Arc<BootstrapKubeconfig>>,
    pub(super) requester: Option<Requester>,
    /// Why the last write of a Secret was refused.
    pub(super) refusal: Option<String>,
    /// When to check for the ManagedCluster, while bootstrapping.
    pub(super) introduce_at: Option<Instant>,
    /// Whether the hub to which the credential must move knows the agent; `None` until it was asked.
    pub(super) knows_agent: Option<bool>,
    due: Pace,
    /// How long the hub may refuse the credential before another one is requested.
    patience: Duration,
    /// The reason of the last Event about the need, and its sentence.
    announced: Option<(&'static str, String)>,
}

impl<'a> CertificateManager<'a> {
    pub(crate) fn new(agent: &'a Agent, names: AgentNames, store: RequestStore) -> Self {
        Self {
            agent,
            names,
            store,
            certificate: Certificate::default(),
            bootstrap: None,
            requester: None,
            refusal: None,
            introduce_at: None,
            knows_agent: None,
            due: Pace::new(Backoff::new(MAX_WAIT).honoring(MAX_PAUSE)),
            patience: REFUSED_AFTER + REFUSED_AFTER.mul_f64(fastrand::f64()),
            announced: None,
        }
    }

    pub(crate) fn run(mut self) {
        let agent = self.agent;
        controller::run(&agent.stop, || {
            agent.beat();
            Some(self.reconcile())
        });
    }

    fn reconcile(&mut self) -> Instant {
        let (agent, bootstrap) = (self.agent, self.agent.bootstrap());
        if self.bootstrap != bootstrap {
            // The new one may lead to a hub that does not know the cluster.
            (self.bootstrap, self.introduce_at, self.knows_agent) = (bootstrap, None, None);
            self.certificate.pace.end_rest();
            self.due.at = Instant::now();
        }
        let (secret, hub) = (agent.credential_secret(), self.bootstrap.as_ref().map(|it| &it.hub));
        let (data, validation) = validate::of_secret(secret.as_deref(), |data| {
            validate::validate(data, hub, &self.names, agent.clocks())
        });
        self.follow(&validation);
        let is_refused = self.is_refused();
        let requester = self.requester(is_refused);
        if self.requester != requester {
            (self.requester, self.due.at) = (requester, Instant::now());
        }
        let (what, time) = (agent.secret_name(), (agent.clocks(), Instant::now()));
        let need = self.certificate.need(&what, &validation, is_refused, time);
        self.announce(&need, if is_refused { None } else { Some(&validation) });
        if agent.settings.once == Some(Duration::ZERO) {
            return Instant::now() + Stop::SLICE;
        }
        if self.due.is_failing() && Instant::now() < self.due.at {
            return self.due.at;
        }
        let synced = self.sync(need, &data, &validation);
        let error = synced.as_ref().err().map(ToString::to_string);
        agent.report(|status| status.error = error);
        self.due.set(synced, &agent.credential(), "managing the certificate failed")
    }

    /// Returns whether the hub's refusals have lasted for `patience`, from the first answer to the last.
    fn is_refused(&self) -> bool {
        let session = self.agent.session();
        let refused = session.and_then(|session| session.client.refused());
        refused.is_some_and(|refused| refused.last >= refused.since + self.patience)
    }

    fn requester(&self, is_refused: bool) -> Option<Requester> {
        let clocks = self.agent.clocks();
        let session = self.agent.session().filter(|it| !is_refused && !it.is_expired(clocks));
        let accepting = session.as_ref().map(|session| &session.hub);
        requester(accepting, self.bootstrap.as_ref().map(|it| &it.hub))
    }

    fn sync(&mut self, need: Need, data: &Data, validation: &Validation) -> Result<Instant> {
        let need = if self.is_known_after_move(validation)? { Need::Repair } else { need };
        self.connect_bootstrap(&need)?;
        let requester = self.requester.clone();
        let template = self.names.csr_template();
        let user = self.names.user();
        let mut certificate = std::mem::take(&mut self.certificate);
        let synced = certificate.sync(&mut CertificateContext {
            secret: &self.agent.secret_name(),
            need: &need,
            validation,
            key: data.get("tls.key").map(|key| key.as_slice()),
            requester: requester.as_ref(),
            template: &template,
            agent: &user,
            now: Instant::now(),
            random: fastrand::f64(),
            io: self,
        });
        self.certificate = certificate;
        let rotated = &self.certificate.rotated;
        if self.agent.read(|state| state.rotated != *rotated) {
            self.agent.update(|state| state.rotated.clone_from(rotated));
        }
        synced
    }

    /// Announces the need, with one Event for each new reason, and reports the state of the credential on the endpoint.
    /// `accepted` is `None` if the hub refuses the credential.
    fn announce(&mut self, need: &Need, accepted: Option<&Validation>) {
        let agent = self.agent;
        let is_selecting =
            agent.settings.hub_connection_timeout.is_some() && agent.selected_hub().is_none();
        let without = match self.requester {
            Some(_) => "",
            None if is_selecting => ", and no hub is selected to request one from",
            None => ", and there is no bootstrap kubeconfig to request one with",
        };
        let why = match need {
            Need::Certificate(why) => Some((why.event, format!("{}{without}", why.sentence))),
            Need::Nothing(_) | Need::Repair => None,
        };
        if self.announced != why {
            agent.report(|status| status.detail = None);
            if let Some((event, sentence)) = &why {
                agent.record_event(event, false, sentence);
            }
            self.announced.clone_from(&why);
        }
        agent.report(|status| {
            status.credential = match accepted {
                Some(Ok(UsableCredential { moved: None, stale: true, .. })) => {
                    CredentialState::Stale
                }
                Some(Ok(UsableCredential { moved: None, .. })) => CredentialState::Good,
                _ => CredentialState::Unusable(why.map(|(_, why)| why).unwrap_or_default()),
            };
            if self.certificate.waits_for().is_none() {
                status.pending = None;
            }
        });
    }
}

/// Returns the requester of the next certificate. Its hub is the bootstrap kubeconfig's if there is one, because the
/// certificate is saved next to a kubeconfig for that hub. The agent itself requests only if `accepting`, the hub that
/// accepts its certificate, is the same hub.
pub(super) fn requester(accepting: Option<&Hub>, bootstrap: Option<&Hub>) -> Option<Requester> {
    let is_same = |hub: &Hub| bootstrap.is_none_or(|to| hub.differs_from(to).is_none());
    let (is_agent, hub) = (accepting.is_some_and(is_same), bootstrap.or(accepting)?.clone());
    Some(Requester { is_agent, hub })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::model::fixtures::hub;

    #[test]
    fn agent_requests_only_at_the_hub_of_the_bootstrap_kubeconfig() {
        let here = hub();
        let same = Hub { server_name: Some("hub".into()), ..hub() };
        let there = Hub { server: "https://other.example:6443".into(), ..hub() };
        for (accepting, bootstrap, expected) in [
            (None, None, None),
            (Some(&here), None, Some((true, &here))),
            (Some(&here), Some(&same), Some((true, &same))),
            (Some(&here), Some(&there), Some((false, &there))),
            (None, Some(&there), Some((false, &there))),
        ] {
            let found = requester(accepting, bootstrap);
            assert_eq!(found.as_ref().map(|it| (it.is_agent, &it.hub)), expected);
        }
    }
}
