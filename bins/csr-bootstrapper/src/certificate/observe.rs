//! One look at all that is known: what the credential is worth, what it needs, and who can ask for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use shared::{
    client::{Client, Reload, Timeouts},
    config::ClusterConfig,
    error::Result,
    kubeconfig::Hub,
    secret::{self, Data},
};

use super::{
    deadline,
    need::{self, AvailableIdentities, HubMove, Need, Requester},
    registrar::CertificateManager,
    validate::{self, UnusableCredential, UsableCredential, Validation},
};
use crate::{
    agent::{HUB_OBJECT, REQUEST_TIME},
    bootstrap::BootstrapKubeconfig,
    cached::CachedObject,
    clocks::Clocks,
    state::{HubSession, Rotated},
};

/// What was seen at one turn of the loop.
pub(crate) struct ObservedCredential {
    pub(crate) bootstrap: Option<BootstrapKubeconfig>,
    pub(crate) validation: Validation,
    pub(crate) data: Data,
    pub(crate) need: Need,
    pub(crate) requester: Option<Requester>,
    /// When time alone changes it: the certificate in use counts as refused, is due or has expired, or the
    /// old hub is given up.
    pub(crate) again: Option<Instant>,
}

impl ObservedCredential {
    /// How `asker` reaches the hub, where that is not the session's matter.
    pub(crate) fn access(&self, requester: Requester) -> Option<ClusterConfig> {
        let bootstrap = self.bootstrap.as_ref()?;
        match requester {
            Requester::Agent => None,
            Requester::Bootstrap => Some(bootstrap.access.clone()),
            Requester::AgentAtNewHub => {
                Some(bootstrap.as_agent(&self.validation.usable()?.identity))
            }
        }
    }
}

impl CertificateManager<'_> {
    /// Looks at everything once, and begins or ends the session as the credential says.
    pub(crate) fn look(&mut self) -> ObservedCredential {
        let bootstrap = self.see_bootstrap();
        let clocks = self.agent.clocks();
        let (data, validation) = self.validate(bootstrap.as_ref(), clocks);
        self.keep_session(&validation, bootstrap.as_ref(), &data, clocks);
        let (session, now) = (self.agent.session(), Instant::now());
        let (refused, refused_at) = self.refused(session.as_deref());
        let end = session.as_ref().and_then(|session| session.client.certificate_expiry());
        let due_in = validation.usable().map(|usable| self.due_in(usable, clocks, now));
        let need = need::need(&self.agent.secret_name(), &validation, due_in, refused);
        let identities = AvailableIdentities {
            agent: end.is_some_and(|end| !clocks.are_past(end)),
            agent_refused: refused,
            bootstrap: bootstrap.is_some(),
        };
        let is_due = due_in.is_some_and(|left| left.is_zero());
        let requester = need::requester(&validation, identities, &self.moving, is_due, now);
        let moved = requester.filter(|_| matches!(validation, Validation::Moved(..)));
        let given_up = self.moving.asks(moved, now);
        let ends_in = end.map(|end| clocks.until_past(end));
        let changes = [due_in, ends_in].map(|left| Some(now + left?));
        let changes = changes.into_iter().chain([refused_at]).flatten().filter(|at| *at > now);
        let again = changes.chain(given_up).min();
        let usable = matches!(validation, Validation::Usable(_)) && !refused;
        self.tell_need(&need, requester, usable);
        ObservedCredential { bootstrap, validation, data, need, requester, again }
    }

    /// Whether the hub refuses the credential for good, and when it may.
    fn refused(&self, session: Option<&HubSession>) -> (bool, Option<Instant>) {
        match session.and_then(|session| session.client.refused()) {
            Some(refused) => {
                let at = refused.since + self.patience;
                // An answer from then, or nobody knows what the hub says now.
                (refused.last >= at, Some(at))
            }
            None => (false, None),
        }
    }

    /// How long it is to the next certificate; nothing when it is due.
    fn due_in(&self, usable: &UsableCredential, clocks: Clocks, now: Instant) -> Duration {
        let pem = &usable.identity.certificate;
        let due = deadline::due(pem, &usable.chain);
        let used = self.obtained.as_ref().filter(|(of, _)| of == pem);
        let used = used.map(|(_, until)| until.saturating_duration_since(now));
        clocks.until_due(due.at, due.life).max(used.unwrap_or_default())
    }

    /// The bootstrap kubeconfig; another one ends rests, and one for another hub also what was found out
    /// about the last.
    fn see_bootstrap(&mut self) -> Option<BootstrapKubeconfig> {
        let (bootstrap, version) =
            self.agent.read(|state| (state.bootstrap.clone(), state.bootstrap_version));
        let hub = bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
        if self.bootstrap_seen.0 != version {
            self.registration.changed();
            if self.bootstrap_seen.1.as_ref() != hub {
                self.moving = HubMove::default();
            }
            self.bootstrap_seen = (version, hub.cloned());
        }
        bootstrap
    }

    fn validate(
        &self,
        bootstrap: Option<&BootstrapKubeconfig>,
        clocks: Clocks,
    ) -> (Data, Validation) {
        let what = self.agent.secret_name();
        let unusable = |reason: String, event| {
            (Data::new(), Validation::Unusable(UnusableCredential { reason, event }))
        };
        let secret = match self.agent.read(|state| state.credential.clone()) {
            CachedObject::Object(secret) => secret,
            _ => return unusable("does not exist".into(), "NoValidCertificateFound"),
        };
        match secret::data(&secret) {
            Ok(data) => {
                let hub = bootstrap.map(|bootstrap| &bootstrap.hub);
                let validation = validate::validate(&what, &data, hub, &self.names, clocks);
                (data, validation)
            }
            Err(error) => {
                unusable(format!("cannot be read: {error}"), "CertificateValidationFailed")
            }
        }
    }

    /// Uses the credential in the Secret; one that is not usable any more ends the session only when the
    /// certificate in use has expired too, by every clock, and there is another identity to go on with. Without
    /// one the hub itself may say what time it is.
    fn keep_session(
        &mut self,
        validation: &Validation,
        bootstrap: Option<&BootstrapKubeconfig>,
        data: &Data,
        clocks: Clocks,
    ) {
        let name = self.agent.secret_name();
        let timeless = match bootstrap.is_none() && self.agent.session().is_none() {
            true => validate::validate_timeless(&name, data, &self.names),
            false => None,
        };
        let usable = validation.usable().or_else(|| timeless.as_ref()?.usable());
        let access = usable.and_then(|usable| access(usable, bootstrap));
        let session = self.agent.session();
        let hub = usable.map(|usable| &usable.hub);
        let elsewhere = match (&self.hub, hub) {
            (Some(before), Some(now)) => before.differs_from(now).is_some(),
            _ => false,
        };
        let result = match (access, session) {
            // What was seen of one hub says nothing of another, not even where its watches go on.
            (Some(access), Some(session)) if !elsewhere => session.client.swap(access).map(drop),
            (Some(access), _) => {
                // What is asked of the old hub is watched with a client that is about to be closed.
                self.asking.finish(self.agent);
                self.begin_session(access)
            }
            (None, Some(session)) => {
                let end = session.client.certificate_expiry();
                if bootstrap.is_some() && end.is_none_or(|end| clocks.are_past(end)) {
                    log::warn!("the certificate for the hub has expired");
                    // What it asked for is watched with a client that is about to be closed.
                    self.asking.finish(self.agent);
                    self.agent.set_session(None);
                }
                return;
            }
            (None, None) => return,
        };
        match result {
            Ok(()) => {
                self.hub = hub.cloned();
                if let Some(usable) = validation.usable() {
                    self.tell_session(&usable.identity.certificate);
                }
            }
            Err(error) => log::warn!("the hub's credentials in use stay: {error}"),
        }
    }

    fn begin_session(&mut self, access: ClusterConfig) -> Result<()> {
        let timing = Timeouts::with_request(REQUEST_TIME);
        let requests = self.agent.requests.session.clone();
        let client = Client::counting("the hub", access, Reload::Never, timing, requests)?;
        let client = client.limited_to(HUB_OBJECT);
        let session = HubSession { client, stop: self.agent.stop.child() };
        // First the end of the one before, if there is one: nobody is to see its cluster in this.
        self.agent.set_session(None);
        self.agent.set_session(Some(Arc::new(session)));
        self.session_told = false;
        Ok(())
    }

    /// Nothing is told of a session that was begun only to hear the hub's time.
    fn tell_session(&mut self, pem: &[u8]) {
        if std::mem::replace(&mut self.session_told, true) {
            return;
        }
        let name = self.agent.secret_name();
        let message = format!("the hub is used as {} with {name}", self.names.user());
        self.agent.record_event("HubClientConfigReady", false, &message);
        // An earlier process may have ended before it told what it got.
        if self.agent.read(|state| state.rotated.is_none()) {
            let rotated = Rotated::Done(deadline::sentence(pem));
            self.agent.update(|state| state.rotated = Some(rotated));
        }
    }

    /// The hub that `situation` asks, whose certificate is then in the Secret.
    pub(crate) fn asked_hub<'a>(&'a self, situation: &'a ObservedCredential) -> Option<&'a Hub> {
        let bootstrap = situation.bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
        match (&situation.need, situation.requester) {
            (Need::Certificate(_), Some(Requester::Agent)) => self.hub.as_ref().or(bootstrap),
            _ => bootstrap.or(self.hub.as_ref()),
        }
    }

    /// One Event for each new reason; the endpoint is told only of a credential that is not `usable`.
    fn tell_need(&mut self, need: &Need, requester: Option<Requester>, usable: bool) {
        let why = match need {
            Need::Certificate(why) => Some(why.clone()),
            Need::Nothing(_) | Need::Repair => None,
        };
        let sentence = why.as_ref().map(|why| match requester {
            Some(_) => why.sentence.clone(),
            None => format!("{}, and there is no bootstrap kubeconfig to ask with", why.sentence),
        });
        let news = self.told != sentence;
        self.agent.report(|status| {
            status.trouble = sentence.clone().filter(|_| !usable);
            if news {
                status.detail = None;
            }
        });
        if news {
            if let (Some(why), Some(sentence)) = (&why, &sentence) {
                self.agent.record_event(why.event, false, sentence);
            }
            self.told = sentence;
        }
    }
}

/// How to use the hub with the credential: as its kubeconfig says, else as the bootstrap kubeconfig does.
fn access(
    usable: &UsableCredential,
    bootstrap: Option<&BootstrapKubeconfig>,
) -> Option<ClusterConfig> {
    let other = || bootstrap.map(|bootstrap| bootstrap.as_agent(&usable.identity));
    usable.access.clone().or_else(other)
}
