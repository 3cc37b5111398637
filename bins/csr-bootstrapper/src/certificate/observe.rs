//! Observation: whether the credential is valid, whether a new certificate is needed and who requests it, and how
//! far the request is. No I/O, no clock, no side effect.

use std::{
    hash::{Hash, Hasher},
    time::{Duration, Instant, SystemTime},
};

use apiclient::client::Refused;
use kubeconfig::{config::ClusterConfig, secret::Data};
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    csr_status::{self, IssuedCsr, Judge, ObservedCsr},
    csr_watch::WatchedCsr,
    deadline,
    need::{self, AvailableIdentities, HubMove, Need, Requester},
    validate::{self, UsableCredential, Validation},
};
use crate::{
    bootstrap::{BootstrapKubeconfig, NoBootstrap},
    cached::CachedObject,
    clocks::Clocks,
    hub::Hub,
    identity::AgentNames,
};

/// All inputs at one moment.
pub(crate) struct Inputs<'a> {
    /// `Secret ns/name`.
    pub(crate) secret_name: &'a str,
    pub(crate) names: &'a AgentNames,
    pub(crate) credential: CachedObject,
    pub(crate) bootstrap: Option<BootstrapKubeconfig>,
    /// The reason if there is none.
    pub(crate) no_bootstrap: NoBootstrap,
    pub(crate) session: Option<SessionInputs>,
    /// The hub of the session's credential.
    pub(crate) hub: Option<&'a Hub>,
    /// The session was announced.
    pub(crate) session_announced: bool,
    /// The time for which the hub may refuse the credential before another one is requested.
    pub(crate) patience: Duration,
    pub(crate) hub_move: HubMove,
    /// The last certificate of this process, and the end of its least use.
    pub(crate) obtained: Option<&'a (Vec<u8>, Instant)>,
    /// The stored request, unless it ended.
    pub(crate) request: Option<&'a CertificateRequest>,
    /// uid of its CSR, if this process posted it.
    pub(crate) uid: Option<&'a str>,
    pub(crate) issued: Option<&'a IssuedCsr>,
    pub(crate) watched: Option<WatchedCsr>,
    /// A client for the requester is open.
    pub(crate) requester_open: bool,
    pub(crate) attempts: Attempts,
    pub(crate) clocks: Clocks,
    /// The clocks of the hub that issues the certificate.
    pub(crate) requester_clocks: Clocks,
    pub(crate) now: Instant,
}

/// The session's state.
pub(crate) struct SessionInputs {
    pub(crate) config: ClusterConfig,
    /// The expiry of the certificate in use.
    pub(crate) expires: Option<SystemTime>,
    pub(crate) refused: Option<Refused>,
}

/// Attempts of this turn of the loop, which are not repeated before the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Attempts {
    /// The session was opened, swapped or closed.
    pub(crate) session: bool,
    /// The watch of the CSR was begun.
    pub(crate) watch: Option<WatchAttempt>,
}

/// The result of beginning a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WatchAttempt {
    /// It has begun, or may in the next turn.
    Awaited,
    /// It has no client; the next request reports that.
    NoClient,
}

/// The observation of one turn of the loop.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ObservedCredential {
    pub(crate) bootstrap: Option<BootstrapKubeconfig>,
    pub(crate) validation: Validation,
    pub(crate) data: Data,
    pub(crate) need: Need,
    pub(crate) requester: Option<Requester>,
    /// The hub that the requester asks, and whose certificate goes into the Secret.
    pub(crate) requester_hub: Option<Hub>,
    pub(crate) requester_open: bool,
    /// The sentence about the need of a certificate.
    pub(crate) sentence: Option<String>,
    /// It is not the last word: there may be a requester in a moment.
    pub(crate) selecting: bool,
    /// The credential in the Secret is valid, and the hub does not refuse it.
    pub(crate) usable: bool,
    pub(crate) session: SessionChange,
    pub(crate) csr: ObservedCsr,
    /// The CSR as it was read.
    pub(crate) csr_object: Option<Value>,
    /// The approval that the CSR waits for, if it does.
    pub(crate) pending: Option<String>,
    /// The next change by time alone: the certificate in use counts as refused, is due or has expired, or
    /// the old hub is given up.
    pub(crate) again: Option<Instant>,
}

/// The change that makes the session use the credential.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum SessionChange {
    Nothing,
    Open(ClusterConfig, Hub),
    Swap(ClusterConfig, Hub),
    Close,
    /// Announce its use with this certificate.
    Announce(Vec<u8>),
}

/// Covers all fields, so that a model checker tells states apart by it.
impl Hash for ObservedCredential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            bootstrap,
            validation,
            data,
            need,
            requester,
            requester_hub,
            requester_open,
            sentence,
            selecting,
            usable,
            session,
            csr,
            csr_object,
            pending,
            again,
        } = self;
        (bootstrap, validation, need, requester, requester_hub).hash(state);
        (requester_open, sentence, selecting, usable, session).hash(state);
        (csr, csr_object, pending, again).hash(state);
        data.iter().for_each(|(key, value)| (key, &**value).hash(state));
    }
}

impl ObservedCredential {
    /// The connection of `requester` to the hub, unless it is the session's.
    pub(crate) fn config(&self, requester: Requester) -> Option<ClusterConfig> {
        let bootstrap = self.bootstrap.as_ref()?;
        match requester {
            Requester::Agent => None,
            Requester::Bootstrap => Some(bootstrap.config.clone()),
            Requester::AgentAtNewHub => {
                Some(bootstrap.as_agent(&self.validation.usable()?.identity))
            }
        }
    }

    /// The requester while the bootstrap kubeconfig leads to another hub than the credential.
    pub(crate) fn requester_of_move(&self) -> Option<Requester> {
        self.requester.filter(|_| matches!(self.validation, Validation::Moved(..)))
    }
}

/// Observes all inputs once.
pub(crate) fn observe(inputs: &Inputs<'_>) -> ObservedCredential {
    let (clocks, now) = (inputs.clocks, inputs.now);
    let (data, validation) = validated(inputs);
    let (refused, refused_at) = refused(inputs);
    let end = inputs.session.as_ref().and_then(|session| session.expires);
    let due_in = validation.usable().map(|UsableCredential { identity, chain, .. }| {
        deadline::due_in(&identity.certificate, chain, inputs.obtained, (clocks, now))
    });
    let need = need::need(inputs.secret_name, &validation, due_in, refused);
    let identities = AvailableIdentities {
        agent: end.is_some_and(|end| !clocks.are_past(end)),
        agent_refused: refused,
        bootstrap: inputs.bootstrap.is_some(),
    };
    let is_due = due_in.is_some_and(|left| left.is_zero());
    let requester = need::requester(&validation, identities, &inputs.hub_move, is_due, now);
    let mut observed = ObservedCredential {
        requester_hub: requester_hub(inputs, &need, requester).cloned(),
        requester_open: inputs.requester_open,
        sentence: sentence(&need, requester, inputs.no_bootstrap),
        selecting: requester.is_none() && inputs.no_bootstrap == NoBootstrap::Selecting,
        usable: matches!(validation, Validation::Usable(_)) && !refused,
        session: session_change(inputs, &validation, &data),
        bootstrap: inputs.bootstrap.clone(),
        validation,
        data,
        need,
        requester,
        csr: ObservedCsr::Awaited,
        csr_object: None,
        pending: None,
        again: None,
    };
    let ends_in = end.map(|end| clocks.until_past(end));
    let changes = [due_in, ends_in].map(|left| Some(now + left?));
    let changes = changes.into_iter().chain([refused_at]).flatten().filter(|at| *at > now);
    let given_up = inputs.hub_move.gives_up_at(observed.requester_of_move(), now);
    observed.again = changes.chain(given_up).min();
    (observed.csr, observed.csr_object) = observe_csr(inputs, &observed);
    if let (ObservedCsr::Present(status), Some(request)) = (&observed.csr, inputs.request) {
        let bootstrap = requester == Some(Requester::Bootstrap);
        observed.pending = status.pending_sentence(&request.name, bootstrap);
    }
    observed
}

fn validated(inputs: &Inputs<'_>) -> (Data, Validation) {
    match validate::content(&inputs.credential) {
        Ok(data) => {
            let hub = inputs.bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
            let validation = validate::validate(&data, hub, inputs.names, inputs.clocks);
            (data, validation)
        }
        Err(unusable) => (Data::new(), Validation::Unusable(unusable)),
    }
}

/// Returns whether the hub refuses the credential permanently, and the time at which it will.
fn refused(inputs: &Inputs<'_>) -> (bool, Option<Instant>) {
    match inputs.session.as_ref().and_then(|session| session.refused) {
        Some(refused) => {
            let at = refused.since + inputs.patience;
            // Only a response that recent shows the hub's current answer.
            (refused.last >= at, Some(at))
        }
        None => (false, None),
    }
}

/// The hub of `requester`.
fn requester_hub<'a>(
    inputs: &'a Inputs<'_>,
    need: &Need,
    requester: Option<Requester>,
) -> Option<&'a Hub> {
    let bootstrap = inputs.bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
    match (need, requester) {
        (Need::Certificate(_), Some(Requester::Agent)) => inputs.hub.or(bootstrap),
        _ => bootstrap.or(inputs.hub),
    }
}

fn sentence(
    need: &Need,
    requester: Option<Requester>,
    no_bootstrap: NoBootstrap,
) -> Option<String> {
    let Need::Certificate(why) = need else { return None };
    let but = match (requester, no_bootstrap) {
        (Some(_), _) => "",
        (None, NoBootstrap::Invalid) => {
            ", and there is no bootstrap kubeconfig to request one with"
        }
        (None, _) => ", and no hub is selected to request one from",
    };
    Some(format!("{}{but}", why.sentence))
}

/// The change of the session. A credential that is no longer usable ends it only when the certificate in
/// use has expired too, by every clock, and there is another identity to go on with: without one the hub
/// itself may say what time it is.
fn session_change(inputs: &Inputs<'_>, validation: &Validation, data: &Data) -> SessionChange {
    let (bootstrap, session) = (inputs.bootstrap.as_ref(), inputs.session.as_ref());
    let timeless = match bootstrap.is_none() && session.is_none() {
        true => validate::validate_timeless(data, inputs.names),
        false => None,
    };
    let usable = validation.usable().or_else(|| timeless.as_ref()?.usable());
    let next = usable.and_then(|usable| Some((config(usable, bootstrap)?, usable.hub.clone())));
    match (next, session) {
        (Some((config, hub)), Some(session)) => {
            let known = inputs.hub == Some(&hub);
            // Nothing observed on one hub counts for another, not even the position of its watches.
            let elsewhere = inputs.hub.is_some_and(|before| before.differs_from(&hub).is_some());
            match validation.usable() {
                _ if elsewhere && !inputs.attempts.session => SessionChange::Open(config, hub),
                _ if (session.config != config || !known) && !inputs.attempts.session => {
                    SessionChange::Swap(config, hub)
                }
                Some(usable) if known && session.config == config && !inputs.session_announced => {
                    SessionChange::Announce(usable.identity.certificate.clone())
                }
                _ => SessionChange::Nothing,
            }
        }
        (Some((config, hub)), None) if !inputs.attempts.session => SessionChange::Open(config, hub),
        (None, Some(session))
            if bootstrap.is_some()
                && !inputs.attempts.session
                && session.expires.is_none_or(|end| inputs.clocks.are_past(end)) =>
        {
            SessionChange::Close
        }
        _ => SessionChange::Nothing,
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

/// The CSR of the stored request: the kept one with the certificate, or else the watched one.
fn observe_csr(inputs: &Inputs<'_>, observed: &ObservedCredential) -> (ObservedCsr, Option<Value>) {
    let (Need::Certificate(_), Some(requester), Some(request)) =
        (&observed.need, observed.requester, inputs.request)
    else {
        return (ObservedCsr::Awaited, None);
    };
    let issued =
        inputs.issued.filter(|issued| Some(&issued.hub) == observed.requester_hub.as_ref());
    let shown = |watched: &&WatchedCsr| {
        watched.is(requester, observed.config(requester).as_ref(), &request.name)
    };
    let object = match (issued, inputs.watched.as_ref().filter(shown)) {
        (Some(issued), _) => &issued.csr,
        (None, None) => {
            let csr = match inputs.attempts.watch {
                None => ObservedCsr::Unwatched,
                Some(WatchAttempt::Awaited) => ObservedCsr::Awaited,
                Some(WatchAttempt::NoClient) => ObservedCsr::Unknown,
            };
            return (csr, None);
        }
        (None, Some(watched)) => match &watched.seen {
            Some(CachedObject::Object(object)) => object,
            Some(CachedObject::Absent) => return (ObservedCsr::Absent, None),
            Some(CachedObject::Unknown) => return (ObservedCsr::Unknown, None),
            None => return (ObservedCsr::Awaited, None),
        },
    };
    let by_agent = requester != Requester::Bootstrap;
    let judge = Judge {
        request,
        template: &inputs.names.csr_template(),
        posted_uid: inputs.uid,
        agent: &inputs.names.user(),
        by_agent,
        clocks: inputs.requester_clocks,
    };
    let status = csr_status::evaluate(object, &judge);
    (ObservedCsr::Present(status), Some(object.clone()))
}

#[cfg(test)]
pub(crate) mod tests;
