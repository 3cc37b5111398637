//! Keeper of one credential: stores its Secret's name first, then writes the Secret, and forgets the name last.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    lock::lock,
    log_line::seconds,
    log_object,
};
use log::Level;

use super::{
    AddOnContext, Credential, Registration, RegistrationSecret,
    certificate::CertificateDriver,
    secret::{self, SecretCache},
    token::TokenDriver,
};
use crate::{
    addon::{
        managed_cluster_addon::{ROTATED, TOKEN_REFRESHED},
        status::TypedCondition,
    },
    conditions::Condition,
    state::HubSession,
};

/// The reason of the condition, and of the Event, about a Secret that must not be written.
const CONFLICT: &str = "SecretConflict";
/// The longest wait between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The same for a Secret whose namespace does not exist yet: it comes with the add-on's other objects.
const MAX_BACKOFF_FOR_NAMESPACE: Duration = Duration::from_secs(10);

/// Keeps one Secret in its desired state.
pub(in crate::addon) struct Keeper {
    desired: Option<Registration>,
    // One of them is used: the kind of a credential follows from the name of its Secret.
    certificate: CertificateDriver,
    token: TokenDriver,
    secret: SecretCache,
    /// Why the Secret must not be written, as it was last reported.
    conflict: Option<String>,
    errors: Backoff,
    /// The end of the wait after a failure.
    not_before: Instant,
    /// Nothing is due before by time alone.
    due: Instant,
}

/// One registration and what a driver uses for it.
pub(super) struct Step<'a> {
    pub(super) name: &'a RegistrationSecret,
    pub(super) addon: &'a str,
    pub(super) secret: &'a mut SecretCache,
    pub(super) context: AddOnContext<'a>,
}

impl Default for Keeper {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            desired: None,
            certificate: CertificateDriver::default(),
            token: TokenDriver::default(),
            secret: SecretCache::default(),
            conflict: None,
            errors: Backoff::new(MAX_BACKOFF),
            not_before: now,
            due: now,
        }
    }
}

impl Keeper {
    /// The add-on and the condition about its credential, once there is something to say.
    pub(in crate::addon) fn condition(&self) -> Option<(&str, TypedCondition)> {
        let Registration { addon, credential } = self.desired.as_ref()?;
        let (kind, condition) = match credential {
            Credential::Certificate { .. } => (ROTATED, self.certificate.condition()),
            Credential::Token { .. } => (TOKEN_REFRESHED, self.token.condition()),
        };
        let conflict = self.conflict.clone();
        let conflict = conflict.map(|why| Condition::new("False", CONFLICT, why));
        Some((addon, (kind, conflict.or(condition)?)))
    }

    /// Does what is due for this Secret, which goes if nothing is `desired`; returns when to come again.
    pub(in crate::addon) fn reconcile(
        &mut self,
        name: &RegistrationSecret,
        desired: Option<Registration>,
        context: AddOnContext<'_>,
    ) -> Instant {
        let now = Instant::now();
        if self.desired != desired {
            self.desired = desired;
            self.due = now;
        }
        if now < self.not_before || now < self.due && !self.certificate.is_waiting() {
            return self.due.max(self.not_before);
        }
        let (what, result) = match self.desired.clone() {
            Some(registration) => self.keep(name, &registration, context),
            None => {
                self.close(context.session);
                ("the credential of an add-on is not deleted", secret::remove(name, context))
            }
        };
        let now = Instant::now();
        match result {
            Ok(due) => {
                self.errors.succeeded();
                self.due = due;
            }
            Err(error) => {
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let wait = match error {
                    Error::NotFound(_) => retry.wait.min(MAX_BACKOFF_FOR_NAMESPACE),
                    _ => retry.wait,
                };
                let is_routine = self.desired.is_none() && matches!(error, Error::Conflict(_));
                let level = match retry.should_log && !is_routine {
                    true => Level::Warn,
                    false => Level::Debug,
                };
                log_object!(
                    level, name.target(), error:% = error, retry_in = seconds(wait);
                    "{what}"
                );
                (self.not_before, self.due) = (now + wait, now + wait);
            }
        }
        self.due
    }

    /// Does what is due for a desired credential; returns when to come again, with the sentence about a failure.
    fn keep(
        &mut self,
        name: &RegistrationSecret,
        registration: &Registration,
        context: AddOnContext<'_>,
    ) -> (&'static str, Result<Instant>) {
        let is_writable = self.prepare(name, registration, context);
        let next_read = self.secret.next_read();
        match is_writable {
            Ok(true) => {}
            Ok(false) => return ("", Ok(next_read)),
            Err(error) => return ("the credential of an add-on is not kept", Err(error)),
        }
        let (addon, secret) = (&*registration.addon, &mut self.secret);
        let step = Step { name, addon, secret, context };
        let (what, due) = match &registration.credential {
            credential @ Credential::Certificate { .. } => {
                let what = "managing the certificate of an add-on failed";
                (what, self.certificate.reconcile(credential, step))
            }
            Credential::Token { lifetime, account } => {
                let what = "managing the token of an add-on failed";
                (what, self.token.reconcile((*lifetime, account), step))
            }
        };
        (what, due.map(|due| due.min(next_read)))
    }

    /// Reads the Secret and stores its name before the first write: without a stored name, no later process would remove
    /// the Secret. Returns whether it may be written.
    fn prepare(
        &mut self,
        name: &RegistrationSecret,
        registration: &Registration,
        context: AddOnContext<'_>,
    ) -> Result<bool> {
        let AddOnContext { agent, session, store } = context;
        self.secret.refresh(agent, name)?;
        let conflict = self.secret.conflict(agent, name, &session.names.cluster);
        let conflict =
            conflict.map(|why| format!("{} {why}: it is not written", name.sentence_name()));
        if let Some(why) = conflict.as_ref().filter(|why| self.conflict.as_ref() != Some(*why)) {
            agent.record_event(CONFLICT, true, why);
            self.close(session);
        }
        self.conflict = conflict;
        if self.conflict.is_some() {
            return Ok(false);
        }
        let keeps_request = matches!(registration.credential, Credential::Certificate { .. });
        lock(store).ensure(name, &registration.addon, keeps_request)?;
        Ok(true)
    }

    /// Awaits no CSR any more.
    pub(in crate::addon) fn close(&self, session: &HubSession) {
        self.certificate.close(session);
    }
}
