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
    AddOnContext, Credential, Registration, RegistrationSecret, certificate,
    secret::{self, SecretCache},
    token::TokenDriver,
};
use crate::{
    addon::managed_cluster_addon::{ROTATED, TOKEN_REFRESHED},
    certificate::{store::SecretValues, sync::Certificate},
    conditions::{Condition, TypedCondition},
    identity::CLUSTER_NAME,
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
    token: TokenDriver,
    secret: SecretCache,
    /// Why the Secret must not be written, as it was last reported.
    conflict: Option<String>,
    errors: Backoff,
    /// Nothing is due before, unless something changes; after a failure in no case.
    due: Instant,
}

/// One registration and what a driver uses for it.
pub(super) struct Step<'a> {
    pub(super) name: &'a RegistrationSecret,
    pub(super) addon: &'a str,
    pub(super) secret: &'a mut SecretCache,
    pub(super) context: AddOnContext<'a>,
}

impl Step<'_> {
    /// Stores the Secret's name, before the first write: without it, no later process would remove the Secret.
    pub(super) fn store_name(&self) -> Result<()> {
        lock(self.context.store).ensure(self.name, self.addon)
    }

    /// Saves `values` and the cluster's name; `removed` keys go.
    pub(super) fn save(&mut self, mut values: SecretValues, removed: &[&str]) -> Result<()> {
        let AddOnContext { agent, session, .. } = self.context;
        values.insert(CLUSTER_NAME, session.names.cluster.clone().into_bytes().into());
        self.secret.save(agent, self.name, &values, removed)
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            desired: None,
            certificate: Certificate::default(),
            token: TokenDriver::default(),
            secret: SecretCache::default(),
            conflict: None,
            errors: Backoff::new(MAX_BACKOFF),
            due: Instant::now(),
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
        // A CSR that waits may have an answer.
        let has_changed = self.desired != desired || self.certificate.is_waiting();
        let is_failing = self.errors.failures() > 0;
        self.desired = desired;
        if Instant::now() < self.due && (is_failing || !has_changed) {
            return self.due;
        }
        let (result, what) = match self.desired.clone() {
            Some(registration) => (self.keep(name, &registration, context), "kept"),
            None => {
                self.close(context.session);
                (secret::remove(name, context), "deleted")
            }
        };
        self.due = match result {
            Ok(due) => {
                self.errors.succeeded();
                due
            }
            Err(error) => {
                let now = Instant::now();
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let wait = match error {
                    Error::NotFound(_) => retry.wait.min(MAX_BACKOFF_FOR_NAMESPACE),
                    _ => retry.wait,
                };
                let is_routine = matches!(error, Error::Conflict(_));
                let level = if is_routine { Level::Debug } else { retry.level() };
                log_object!(
                    level, name.target(), error:% = error, retry_in = seconds(wait);
                    "the credential of an add-on is not {what}"
                );
                now + wait
            }
        };
        self.due
    }

    /// Reads the Secret, and does what is due for the credential in it; returns when to come again.
    ///
    /// # Errors
    /// As the servers say.
    fn keep(
        &mut self,
        name: &RegistrationSecret,
        Registration { addon, credential }: &Registration,
        context: AddOnContext<'_>,
    ) -> Result<Instant> {
        let next_read = self.secret.refresh(context.agent, name)?;
        if self.has_conflict(name, context) {
            return Ok(next_read);
        }
        let step = Step { name, addon, secret: &mut self.secret, context };
        let due = match credential {
            Credential::Certificate { template, former_user } => {
                let template = (template, former_user.as_deref());
                certificate::sync(&mut self.certificate, template, step)?
            }
            Credential::Token { lifetime, account } => self.token.sync(*lifetime, account, step)?,
        };
        Ok(due.min(next_read))
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
