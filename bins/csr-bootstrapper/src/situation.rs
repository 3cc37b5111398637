//! One look at all that is known: what the credential is worth, what it needs, and who can ask for it.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shared::{
    access::{Access, Auth, Identity},
    client::{Client, Reload, Timing},
    error::Result,
    kubeconfig::Hub,
    secret,
};

use crate::{
    agent::{REQUEST, Session},
    known::{Bootstrap, Sighting},
    names::Data,
    registrar::Registrar,
    registration::{self, Asker, Identities, Need},
    rotation,
    validity::{self, Unusable, Usable, Verdict},
};

/// Nothing but 401 for this long, and the credential counts as refused: less may be a hub that restarts.
const REFUSED_AFTER: Duration = Duration::from_secs(20);
/// The hub's clock counts for certificates; by less than this it is ours.
const SKEW: Duration = Duration::from_secs(5);

/// What was seen at one turn of the loop.
pub(crate) struct Situation {
    pub(crate) bootstrap: Option<Bootstrap>,
    pub(crate) verdict: Verdict,
    pub(crate) data: Data,
    pub(crate) need: Need,
    pub(crate) asker: Option<Asker>,
    /// By the hub's clock.
    pub(crate) now: SystemTime,
    /// When the certificate in use may count as refused or has expired.
    pub(crate) again: Option<Instant>,
}

impl Situation {
    /// How `asker` reaches the hub, where that is not the session's matter.
    pub(crate) fn access(&self, asker: Asker) -> Option<Access> {
        let bootstrap = self.bootstrap.as_ref()?;
        match asker {
            Asker::Agent => None,
            Asker::Bootstrap => Some(bootstrap.access.clone()),
            Asker::Moved => Some(at(bootstrap, &usable(&self.verdict)?.identity)),
        }
    }
}

impl Registrar<'_> {
    /// Looks at everything once, and begins or ends the session as the credential says.
    pub(crate) fn look(&mut self) -> Situation {
        let (bootstrap, version) = self.agent.bootstrap();
        if std::mem::replace(&mut self.bootstrap_seen, version) != version {
            self.moved_refused = false;
            self.registration.changed();
        }
        let now = self.now();
        let (data, verdict) = self.judge(bootstrap.as_ref(), now);
        self.keep_session(&verdict, bootstrap.as_ref(), &data, now);
        let session = self.agent.session();
        let refused_at = session.as_ref().and_then(|session| session.client.refused_since());
        let refused_at = refused_at.map(|since| since + REFUSED_AFTER);
        let refused = refused_at.is_some_and(|at| at <= Instant::now());
        let end = session.as_ref().and_then(|session| session.client.certificate_expiry());
        let end =
            end.and_then(|end| end.duration_since(now).ok()).map(|left| Instant::now() + left);
        let again = [refused_at.filter(|_| !refused), end].into_iter().flatten().min();
        let what = self.agent.secret_name();
        let due = usable(&verdict).map(|usable| self.due(usable));
        let need = registration::need(&what, &verdict, due, refused, now);
        let asker = registration::asker(
            &verdict,
            Identities {
                agent: session.is_some(),
                agent_refused: refused,
                moved_refused: self.moved_refused,
                bootstrap: bootstrap.is_some(),
            },
        );
        let usable = matches!(verdict, Verdict::Usable(_)) && !refused;
        self.tell_need(&need, asker, usable);
        Situation { bootstrap, verdict, data, need, asker, now, again }
    }

    /// The time by the hub's clock, which judges certificates.
    fn now(&mut self) -> SystemTime {
        let session = || self.agent.session().map(|session| session.client.clone());
        let client = self.asking.open().cloned().or_else(session);
        // A new client knows nothing until the hub has answered it.
        if let Some(client) = client.filter(|client| !client.answered().is_empty()) {
            self.skew = client.clock_skew();
        }
        let (now, time) = (SystemTime::now(), Duration::from_secs(self.skew.unsigned_abs()));
        match self.skew {
            _ if time < SKEW => now,
            ..0 => now.checked_sub(time).unwrap_or(now),
            _ => now + time,
        }
    }

    fn judge(&self, bootstrap: Option<&Bootstrap>, now: SystemTime) -> (Data, Verdict) {
        let what = self.agent.secret_name();
        let unusable =
            |reason: String, event| (Data::new(), Verdict::Unusable(Unusable { reason, event }));
        let secret = match self.agent.credential() {
            Sighting::Object(secret) => secret,
            _ => return unusable("does not exist".into(), "NoValidCertificateFound"),
        };
        match secret::data(&secret) {
            Ok(data) => {
                let hub = bootstrap.map(|bootstrap| &bootstrap.hub);
                let verdict = validity::judge(&what, &data, hub, &self.names, now);
                (data, verdict)
            }
            Err(error) => {
                unusable(format!("cannot be read: {error}"), "CertificateValidationFailed")
            }
        }
    }

    /// Uses the credential in the Secret; one that is not usable any more ends the session only when the
    /// certificate in use has expired too.
    fn keep_session(
        &mut self,
        verdict: &Verdict,
        bootstrap: Option<&Bootstrap>,
        data: &Data,
        now: SystemTime,
    ) {
        let access = usable(verdict).and_then(|usable| access(usable, bootstrap));
        let session = self.agent.session();
        let hub = Hub::of_secret(&self.agent.secret_name(), data).ok();
        let elsewhere = match (&self.hub, &hub) {
            (Some(before), Some(now)) => before.differs_from(now).is_some(),
            _ => false,
        };
        let result = match (access, session) {
            // What was seen of one hub says nothing of another, not even where its watches go on.
            (Some(access), Some(session)) if !elsewhere => session.client.swap(access).map(drop),
            (Some(access), _) => self.begin_session(access),
            (None, Some(session)) => {
                let expired = |end: SystemTime| end < now;
                if session.client.certificate_expiry().is_none_or(expired) {
                    log::warn!("the certificate for the hub has expired");
                    // What it asked for is watched with a client that is about to be closed.
                    self.asking.finish();
                    self.agent.set_session(None);
                }
                return;
            }
            (None, None) => return,
        };
        match result {
            Ok(()) => {
                self.hub = hub;
                // An earlier process may have ended before it told what it got.
                if self.agent.rotated().is_none()
                    && let Some(pem) = data.get("tls.crt")
                {
                    self.agent.set_rotated(true, rotation::sentence(pem));
                }
            }
            Err(error) => log::warn!("the hub's credentials in use stay: {error}"),
        }
    }

    fn begin_session(&self, access: Access) -> Result<()> {
        let client = Client::new("the hub", access, Reload::Never, Timing::with_request(REQUEST))?;
        let session = Session { client: Arc::new(client), stop: self.agent.stop.child() };
        // First the end of the one before, if there is one: nobody is to see its cluster in this.
        self.agent.set_session(None);
        self.agent.set_session(Some(Arc::new(session)));
        let name = self.agent.secret_name();
        let message = format!("the hub is used as {} with {name}", self.names.user());
        self.agent.tell("HubClientConfigReady", false, &message);
        Ok(())
    }

    fn due(&self, usable: &Usable) -> SystemTime {
        let pem = &usable.identity.certificate;
        let obtained = self.obtained.as_ref().filter(|(of, _)| of == pem).map(|(_, at)| *at);
        rotation::due(pem, &usable.chain, obtained)
    }

    /// One Event for each new reason; the endpoint is told only of a credential that is not `usable`.
    fn tell_need(&mut self, need: &Need, asker: Option<Asker>, usable: bool) {
        let why = match need {
            Need::Certificate(why) => Some(why.clone()),
            Need::Nothing(_) | Need::Repair => None,
        };
        let sentence = why.as_ref().map(|why| match asker {
            Some(_) => why.sentence.clone(),
            None => format!("{}, and there is no bootstrap kubeconfig to ask with", why.sentence),
        });
        self.agent.progress().trouble = sentence.clone().filter(|_| !usable);
        if self.told != why {
            if let (Some(why), Some(sentence)) = (&why, sentence) {
                self.agent.tell(why.event, false, &sentence);
            }
            self.told = why;
        }
    }
}

/// What of the credential can be used.
fn usable(verdict: &Verdict) -> Option<&Usable> {
    match verdict {
        Verdict::Usable(usable) | Verdict::Moved(usable, _) => Some(usable),
        Verdict::Unusable(_) => None,
    }
}

/// How to use the hub with the credential: as its kubeconfig says, else as the bootstrap kubeconfig does.
fn access(usable: &Usable, bootstrap: Option<&Bootstrap>) -> Option<Access> {
    let other = || bootstrap.map(|bootstrap| at(bootstrap, &usable.identity));
    usable.access.clone().or_else(other)
}

/// The hub of `bootstrap` with the agent's own identity.
fn at(bootstrap: &Bootstrap, identity: &Identity) -> Access {
    Access {
        identity: Some(identity.clone()),
        auth: Auth::None,
        impersonate: Vec::new(),
        ..bootstrap.access.clone()
    }
}
