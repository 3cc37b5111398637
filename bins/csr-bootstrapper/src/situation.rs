//! One look at all that is known: what the credential is worth, what it needs, and who can ask for it.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shared::{
    access::Access,
    client::{Client, Reload, Timing},
    error::Result,
    kubeconfig::Hub,
    secret,
};

use crate::{
    agent::{REQUEST_TIME, Session},
    known::{Bootstrap, Sighting},
    names::Data,
    need::{self, Asker, Identities, Moving, Need},
    registrar::Registrar,
    rotation,
    validity::{self, Unusable, Usable, Verdict},
};

/// Nothing but 401 for this long, and the credential counts as refused: less may be a hub that restarts.
const REFUSED_AFTER: Duration = Duration::from_secs(20);

/// What was seen at one turn of the loop.
pub(crate) struct Situation {
    pub(crate) bootstrap: Option<Bootstrap>,
    pub(crate) verdict: Verdict,
    pub(crate) data: Data,
    pub(crate) need: Need,
    pub(crate) asker: Option<Asker>,
    /// By the hub's clock.
    pub(crate) now: SystemTime,
    /// When time alone changes it: the certificate in use counts as refused, is due or has expired, or the
    /// old hub is given up.
    pub(crate) again: Option<Instant>,
}

impl Situation {
    /// How `asker` reaches the hub, where that is not the session's matter.
    pub(crate) fn access(&self, asker: Asker) -> Option<Access> {
        let bootstrap = self.bootstrap.as_ref()?;
        match asker {
            Asker::Agent => None,
            Asker::Bootstrap => Some(bootstrap.access.clone()),
            Asker::Moved => Some(bootstrap.as_agent(&self.verdict.usable()?.identity)),
        }
    }
}

impl Registrar<'_> {
    /// Looks at everything once, and begins or ends the session as the credential says.
    pub(crate) fn look(&mut self) -> Situation {
        let bootstrap = self.see_bootstrap();
        let now = self.agent.now();
        let (data, verdict) = self.judge(bootstrap.as_ref(), now);
        self.keep_session(&verdict, bootstrap.as_ref(), &data, now);
        let session = self.agent.session();
        let refused_at = session.as_ref().and_then(|session| session.client.refused_since());
        let refused_at = refused_at.map(|since| since + REFUSED_AFTER);
        let refused = refused_at.is_some_and(|at| at <= Instant::now());
        let end = session.as_ref().and_then(|session| session.client.certificate_expiry());
        let what = self.agent.secret_name();
        let due = verdict.usable().map(|usable| self.due(usable));
        let need = need::need(&what, &verdict, due, refused, now);
        let identities = Identities {
            agent: session.is_some(),
            agent_refused: refused,
            bootstrap: bootstrap.is_some(),
        };
        let is_due = due.is_some_and(|due| now >= due);
        let asker = need::asker(&verdict, identities, &self.moving, is_due, Instant::now());
        let moved = asker.filter(|_| matches!(verdict, Verdict::Moved(..)));
        let given_up = self.moving.asks(moved, Instant::now());
        let soon = |at: SystemTime| at.duration_since(now).ok().map(|left| Instant::now() + left);
        let changes =
            [refused_at.filter(|_| !refused), given_up, end.and_then(soon), due.and_then(soon)];
        let again = changes.into_iter().flatten().min();
        let usable = matches!(verdict, Verdict::Usable(_)) && !refused;
        self.tell_need(&need, asker, usable);
        Situation { bootstrap, verdict, data, need, asker, now, again }
    }

    /// The bootstrap kubeconfig; another one ends rests, and one for another hub also what was found out
    /// about the last.
    fn see_bootstrap(&mut self) -> Option<Bootstrap> {
        let (bootstrap, version) = self.agent.bootstrap();
        let hub = bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
        if self.bootstrap_seen.0 != version {
            self.registration.changed();
            if self.bootstrap_seen.1.as_ref() != hub {
                self.moving = Moving::default();
            }
            self.bootstrap_seen = (version, hub.cloned());
        }
        bootstrap
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
        let name = self.agent.secret_name();
        // Without anybody else to ask, the hub itself may say what time it is.
        let alone = bootstrap.is_none() && self.agent.session().is_none();
        let timeless = match alone && !self.agent.knows_time() {
            true => validity::judge_timeless(&name, data, &self.names),
            false => None,
        };
        let usable = verdict.usable().or_else(|| timeless.as_ref()?.usable());
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
                let expired = |end: SystemTime| end < now;
                if session.client.certificate_expiry().is_none_or(expired) {
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
                if let Some(usable) = verdict.usable() {
                    self.tell_session(&usable.identity.certificate);
                }
            }
            Err(error) => log::warn!("the hub's credentials in use stay: {error}"),
        }
    }

    fn begin_session(&mut self, access: Access) -> Result<()> {
        let client =
            Client::new("the hub", access, Reload::Never, Timing::with_request(REQUEST_TIME))?;
        let session = Session { client: Arc::new(client), stop: self.agent.stop.child() };
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
        self.agent.tell("HubClientConfigReady", false, &message);
        // An earlier process may have ended before it told what it got.
        if self.agent.rotated().is_none() {
            self.agent.set_rotated(true, rotation::sentence(pem));
        }
    }

    /// The hub that `situation` asks, whose certificate is then in the Secret.
    pub(crate) fn asked_hub<'a>(&'a self, situation: &'a Situation) -> Option<&'a Hub> {
        let bootstrap = situation.bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
        match (&situation.need, situation.asker) {
            (Need::Certificate(_), Some(Asker::Agent)) => self.hub.as_ref().or(bootstrap),
            _ => bootstrap.or(self.hub.as_ref()),
        }
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
        let mut progress = self.agent.progress();
        progress.trouble = sentence.clone().filter(|_| !usable);
        if self.told != sentence {
            progress.detail = None;
        }
        drop(progress);
        if self.told != sentence {
            if let (Some(why), Some(sentence)) = (&why, &sentence) {
                self.agent.tell(why.event, false, sentence);
            }
            self.told = sentence;
        }
    }
}

/// How to use the hub with the credential: as its kubeconfig says, else as the bootstrap kubeconfig does.
fn access(usable: &Usable, bootstrap: Option<&Bootstrap>) -> Option<Access> {
    let other = || bootstrap.map(|bootstrap| bootstrap.as_agent(&usable.identity));
    usable.access.clone().or_else(other)
}
