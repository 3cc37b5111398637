//! One registration at work: when something is due, and which code does it.

use std::time::{Duration, Instant};

use log::Level;
use shared::{backoff::Backoff, error::Result, log_object};

use super::{
    CertificateRegistration, Context, Credential, Registration, RegistrationSecret,
    RegistrationStore, TokenRegistration, secret::SecretReader, status::Told,
    store::StoredRegistration,
};
use crate::{
    addon::{managed_cluster_addon::AddOn, secret_cache::SecretVersion},
    agent::Agent,
};

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// One registration at work.
pub(super) struct Entry {
    pub(super) registration: Registration,
    keeper: Keeper,
    /// Failures that the keeper does not pace itself.
    errors: Backoff,
    /// Until then nothing is tried, after such a failure.
    not_before: Instant,
    /// Nothing is due before, unless something changes.
    pub(super) again: Instant,
}

/// The code that keeps a credential, by its kind.
enum Keeper {
    Certificate(Box<CertificateRegistration>),
    Token(Box<TokenRegistration>),
}

impl Entry {
    /// Begins with what an earlier process stored.
    pub(super) fn new(registration: Registration, store: &RegistrationStore) -> Self {
        let now = Instant::now();
        Self {
            keeper: Keeper::new(&registration, store),
            registration,
            errors: Backoff::new(LONGEST_WAIT),
            not_before: now,
            again: now,
        }
    }

    /// The condition about the credential, once there is something to say.
    pub(super) fn condition(&self) -> Option<Told> {
        self.keeper.condition()
    }

    pub(super) fn is_of(&self, secret: &RegistrationSecret) -> bool {
        self.registration.secret == *secret
    }

    /// Returns whether something is due or may have changed.
    pub(super) fn is_due(&self, agent: &Agent) -> bool {
        let (secret, now) = (&self.registration.secret, Instant::now());
        let may_have_changed =
            || self.keeper.is_waiting() || self.keeper.secret().is_stale(agent, secret, now);
        now >= self.again || now >= self.not_before && may_have_changed()
    }

    /// Does what is due; returns when to come again.
    pub(super) fn reconcile(&mut self, addon: &AddOn, context: &mut Context<'_>) -> Instant {
        let now = Instant::now();
        if now < self.not_before {
            return self.not_before;
        }
        match self.try_reconcile(addon, context) {
            Ok(again) => {
                self.errors.succeeded();
                again
            }
            Err(error) => {
                let target = self.registration.secret.target();
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let level = if retry.should_log { Level::Warn } else { Level::Debug };
                log_object!(level, target, error:% = error; "the credential of an add-on is not kept");
                self.not_before = now + retry.wait;
                self.not_before
            }
        }
    }

    fn try_reconcile(&mut self, addon: &AddOn, context: &mut Context<'_>) -> Result<Instant> {
        let Registration { addon: name, secret, .. } = &self.registration;
        // Before anything is written there: a Secret that is not stored would never be removed. The request of an
        // earlier process is of no use for a token.
        let is_token = matches!(self.keeper, Keeper::Token(_));
        let stored = context.store.get(secret);
        if stored.is_none_or(|stored| is_token && stored.request.is_some()) {
            let stored = StoredRegistration { addon: name.clone(), request: None };
            context.store.set(secret, stored)?;
        }
        let again = match &mut self.keeper {
            Keeper::Certificate(certificate) => {
                certificate.reconcile(&self.registration, context)?
            }
            Keeper::Token(token) => token.reconcile(&self.registration, addon, context)?,
        };
        let version = SecretVersion::of(self.keeper.secret().seen());
        context.agent.change(|state| state.addon_secrets.set_unknown(secret, version));
        Ok(again)
    }

    /// Goes on with what the add-on says now.
    pub(super) fn change(&mut self, registration: &Registration, context: &mut Context<'_>) {
        match (&mut self.keeper, &registration.credential) {
            (Keeper::Certificate(certificate), Credential::Certificate(template)) => {
                certificate.set_template(template, &registration.secret, context);
            }
            _ => {
                self.close(context);
                self.keeper = Keeper::new(registration, context.store);
            }
        }
        self.registration = registration.clone();
    }

    pub(super) fn close(&mut self, context: &mut Context<'_>) {
        if let Keeper::Certificate(certificate) = &mut self.keeper {
            certificate.close(context);
        }
    }
}

impl Keeper {
    fn new(registration: &Registration, store: &RegistrationStore) -> Self {
        match &registration.credential {
            Credential::Certificate(template) => {
                let request = store.request(&registration.secret, template);
                let certificate = CertificateRegistration::new(template.clone(), request);
                Self::Certificate(Box::new(certificate))
            }
            Credential::Token { lifetime } => {
                Self::Token(Box::new(TokenRegistration::new(*lifetime)))
            }
        }
    }

    fn secret(&self) -> &SecretReader {
        match self {
            Self::Certificate(certificate) => certificate.secret(),
            Self::Token(token) => token.secret(),
        }
    }

    /// Returns whether a CSR is awaited.
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Certificate(certificate) if certificate.is_waiting())
    }

    fn condition(&self) -> Option<Told> {
        match self {
            Self::Certificate(certificate) => certificate.condition(),
            Self::Token(token) => token.condition(),
        }
    }
}
