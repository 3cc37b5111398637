//! Keeper of one credential: stores its Secret's name first, then writes the Secret, and forgets the name last.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    lock::lock,
    log_line::seconds,
    log_object,
    stop::Stop,
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
    driver: Option<Driver>,
    secret: SecretCache,
    /// Why the Secret must not be written, as it was last reported.
    conflict: Option<String>,
    errors: Backoff,
    /// The end of the wait after a failure.
    not_before: Instant,
    /// Nothing is due before by time alone.
    due: Instant,
}

/// What obtains a credential, by its kind.
enum Driver {
    Certificate(Box<CertificateDriver>),
    Token(Box<TokenDriver>),
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
            driver: None,
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
        let (addon, driver) = (&self.desired.as_ref()?.addon, self.driver.as_ref()?);
        let (kind, condition) = match driver {
            Driver::Certificate(certificate) => (ROTATED, certificate.condition()),
            Driver::Token(token) => (TOKEN_REFRESHED, token.condition()),
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
        let is_waiting =
            matches!(&self.driver, Some(Driver::Certificate(driver)) if driver.is_waiting());
        if now < self.not_before || now < self.due && !is_waiting {
            return self.due.max(self.not_before);
        }
        let (what, result) = match self.desired.clone() {
            Some(registration) => self.keep(name, &registration, context),
            None => {
                self.close(context.session);
                ("the credential of an add-on is not deleted", remove(name, context))
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
        let (what, due) = match (&mut self.driver, &registration.credential) {
            (Some(Driver::Certificate(driver)), Credential::Certificate { .. }) => {
                let what = "managing the certificate of an add-on failed";
                (what, driver.reconcile(&registration.credential, step))
            }
            (Some(Driver::Token(driver)), Credential::Token { lifetime, account }) => {
                let what = "managing the token of an add-on failed";
                (what, driver.reconcile((*lifetime, account), step))
            }
            _ => ("", Ok(next_read)),
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
        let is_token = matches!(registration.credential, Credential::Token { .. });
        match (&self.driver, is_token) {
            (Some(Driver::Certificate(_)), false) | (Some(Driver::Token(_)), true) => {}
            (_, true) => {
                self.close(session);
                self.driver = Some(Driver::Token(Box::default()));
            }
            (_, false) => self.driver = Some(Driver::Certificate(Box::default())),
        }
        if self.conflict.is_some() {
            return Ok(false);
        }
        lock(store).ensure(name, &registration.addon, !is_token)?;
        Ok(true)
    }

    /// Awaits no CSR any more.
    pub(in crate::addon) fn close(&self, session: &HubSession) {
        if let Some(Driver::Certificate(certificate)) = &self.driver {
            certificate.close(session);
        }
    }
}

/// Removes a Secret that no add-on needs any more, and then its name from the store.
fn remove(name: &RegistrationSecret, context: AddOnContext<'_>) -> Result<Instant> {
    let target = name.target();
    if secret::delete(context.agent, name, &context.session.names.cluster)? {
        log_object!(Level::Info, target; "the credential of an add-on was deleted");
    } else {
        log_object!(
            Level::Warn, target;
            "keeping the Secret: it no longer belongs to this cluster"
        );
    }
    lock(context.store).remove(name)?;
    Ok(Instant::now() + Stop::SLICE)
}
