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
    AddOnContext, Credential, Registration, RegistrationSecret, certificate, renewed,
    secret::{self, SecretCache},
    token::TokenDriver,
};
use crate::{
    addon::{
        managed_cluster_addon::{ROTATED, TOKEN_REFRESHED},
        status::TypedCondition,
    },
    certificate::{CsrTemplate, sync::Certificate},
    conditions::Condition,
    state::{HubSession, Rotated},
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
    // Either a certificate or a token: which of them follows from the name of the Secret.
    certificate: Certificate,
    /// The template of its last step.
    template: Option<CsrTemplate>,
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
            certificate: Certificate::default(),
            template: None,
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
            Credential::Certificate { .. } => {
                (ROTATED, self.certificate.rotated().map(Rotated::condition))
            }
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
        let result = match self.desired.clone() {
            Some(registration) => self.keep(name, &registration, context),
            None => {
                self.close(context.session);
                let removed = secret::remove(name, context);
                removed.map_err(|error| ("the credential of an add-on is not deleted", error))
            }
        };
        let now = Instant::now();
        match result {
            Ok(due) => {
                self.errors.succeeded();
                self.due = due;
            }
            Err((what, error)) => {
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let wait = match error {
                    Error::NotFound(_) => retry.wait.min(MAX_BACKOFF_FOR_NAMESPACE),
                    _ => retry.wait,
                };
                let is_routine = matches!(error, Error::Conflict(_));
                let level = if is_routine { Level::Debug } else { retry.level() };
                log_object!(
                    level, name.target(), error:% = error, retry_in = seconds(wait);
                    "{what}"
                );
                (self.not_before, self.due) = (now + wait, now + wait);
            }
        }
        self.due
    }

    /// Reads the Secret, and does what is due for the credential in it; returns when to come again. The Secret's name is
    /// stored before the first write: without it, no later process would remove the Secret.
    ///
    /// # Errors
    /// As the servers say, with what failed, for the log line.
    fn keep(
        &mut self,
        name: &RegistrationSecret,
        Registration { addon, credential }: &Registration,
        context: AddOnContext<'_>,
    ) -> std::result::Result<Instant, (&'static str, Error)> {
        let not_kept = |error| ("the credential of an add-on is not kept", error);
        self.secret.refresh(context.agent, name).map_err(not_kept)?;
        let next_read = self.secret.next_read();
        if self.has_conflict(name, context) {
            return Ok(next_read);
        }
        let due = match credential {
            Credential::Certificate { template, former_user } => {
                let template = renewed(template, former_user.as_deref(), self.secret.seen());
                self.adopt(name, &template, context).map_err(not_kept)?;
                let keeps_request = self.certificate.request().is_some();
                lock(context.store).ensure(name, addon, keeps_request).map_err(not_kept)?;
                let step = Step { name, addon, secret: &mut self.secret, context };
                certificate::sync(&mut self.certificate, &template, step)
                    .map_err(|error| ("managing the certificate of an add-on failed", error))
            }
            Credential::Token { lifetime, account } => {
                lock(context.store).ensure(name, addon, false).map_err(not_kept)?;
                let step = Step { name, addon, secret: &mut self.secret, context };
                let token = self.token.reconcile((*lifetime, account), step);
                token.map_err(|error| ("managing the token of an add-on failed", error))
            }
        };
        due.map(|due| due.min(next_read))
    }

    /// Goes on with the stored request of this template, which an earlier process may have stored, or a write whose answer
    /// was lost.
    fn adopt(
        &mut self,
        name: &RegistrationSecret,
        template: &CsrTemplate,
        context: AddOnContext<'_>,
    ) -> Result<()> {
        let is_other = self.template.as_ref() != Some(template);
        if is_other {
            self.close(context.session);
        }
        if is_other || self.certificate.request().is_none() {
            let stored = lock(context.store).request(name, template)?;
            if is_other || stored.is_some() {
                self.certificate.adopt(stored);
                self.template = Some(template.clone());
            }
        }
        Ok(())
    }

    /// Returns whether the Secret must not be written, and says why, once.
    fn has_conflict(&mut self, name: &RegistrationSecret, context: AddOnContext<'_>) -> bool {
        let AddOnContext { agent, session, .. } = context;
        let conflict = self.secret.conflict(agent, name, &session.names.cluster);
        let conflict =
            conflict.map(|why| format!("{} {why}: it is not written", name.sentence_name()));
        if let Some(why) = conflict.as_ref().filter(|why| self.conflict.as_ref() != Some(*why)) {
            agent.record_event(CONFLICT, true, why);
            self.close(session);
        }
        self.conflict = conflict;
        self.conflict.is_some()
    }

    /// Awaits no CSR any more.
    pub(in crate::addon) fn close(&self, session: &HubSession) {
        if let Some(request) = self.certificate.request() {
            session.csrs.forget(&request.name);
        }
    }
}
