//! One registration at work: when something is due, and which code does it.

use std::time::Instant;

use apiclient::{backoff::Backoff, error::Result, log_object, stop::Stop};
use log::Level;

use super::{
    CertificateRegistration, Context, Credential, LONGEST_WAIT, Registration, RegistrationSecret,
    RegistrationStore, TokenRegistration, secret::SecretReader, status::Told,
    store::StoredRegistration,
};
use crate::{
    addon::{
        managed_cluster_addon::{AddOn, ROTATED, TOKEN_REFRESHED},
        secret_cache::SecretVersion,
    },
    agent::Agent,
    conditions::Condition,
};

/// The reason of the condition, and of the Event, about a Secret that must not be written.
const CONFLICT: &str = "SecretConflict";

/// One registration at work.
pub(super) struct Entry {
    pub(super) registration: Registration,
    keeper: Keeper,
    /// The reason why the Secret must not be written, as it was last told.
    conflict: Option<String>,
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
            conflict: None,
            errors: Backoff::new(LONGEST_WAIT),
            not_before: now,
            again: now,
        }
    }

    /// The condition about the credential, once there is something to say.
    pub(super) fn condition(&self) -> Option<Told> {
        match &self.conflict {
            Some(why) => Some((self.keeper.kind(), Condition::new("False", CONFLICT, why.clone()))),
            None => self.keeper.condition(),
        }
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
        self.keeper.secret_mut().refresh(context.agent, &self.registration.secret)?;
        if self.is_in_conflict(context) {
            self.show_version(context);
            return Ok(Instant::now() + Stop::SLICE);
        }
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
            Keeper::Certificate(certificate) => certificate.reconcile(&self.registration, context),
            Keeper::Token(token) => token.reconcile(&self.registration, addon, context)?,
        };
        self.show_version(context);
        Ok(again)
    }

    /// Returns whether the Secret must not be written, and tells so.
    fn is_in_conflict(&mut self, context: &mut Context<'_>) -> bool {
        let (agent, secret) = (context.agent, &self.registration.secret);
        let conflict = self.keeper.secret().conflict(agent, secret, &context.names.cluster);
        let why =
            conflict.map(|why| format!("{} {why}: it is not written", secret.sentence_name()));
        if let Some(why) = why.as_ref().filter(|why| self.conflict.as_ref() != Some(*why)) {
            agent.record_event(CONFLICT, true, why);
            self.close(context);
        }
        self.conflict = why;
        self.conflict.is_some()
    }

    /// What was read counts until the watch tells.
    fn show_version(&self, context: &Context<'_>) {
        let (secret, version) =
            (&self.registration.secret, SecretVersion::of(self.keeper.secret().seen()));
        context.agent.change(|state| state.addon_secrets.set_unknown(secret, version));
    }

    /// Goes on with what the add-on says now.
    pub(super) fn change(&mut self, registration: &Registration, context: &mut Context<'_>) {
        if !self.keeper.continues_with(&registration.credential) {
            self.close(context);
            self.keeper = Keeper::new(registration, context.store);
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
            Credential::Certificate { template, .. } => {
                let request = store.request(&registration.secret, template);
                let certificate = CertificateRegistration::new(template.clone(), request);
                Self::Certificate(Box::new(certificate))
            }
            Credential::Token { lifetime } => {
                Self::Token(Box::new(TokenRegistration::new(*lifetime)))
            }
        }
    }

    /// Goes on with a credential of the same kind, and with what was obtained so far; `false` for another kind.
    fn continues_with(&mut self, credential: &Credential) -> bool {
        match (self, credential) {
            // Another template counts with the next turn.
            (Self::Certificate(_), Credential::Certificate { .. }) => true,
            (Self::Token(token), Credential::Token { lifetime }) => {
                token.set_lifetime(*lifetime);
                true
            }
            _ => false,
        }
    }

    fn secret(&self) -> &SecretReader {
        match self {
            Self::Certificate(certificate) => &certificate.secret,
            Self::Token(token) => &token.secret,
        }
    }

    fn secret_mut(&mut self) -> &mut SecretReader {
        match self {
            Self::Certificate(certificate) => &mut certificate.secret,
            Self::Token(token) => &mut token.secret,
        }
    }

    /// The type of the condition about the credential.
    fn kind(&self) -> &'static str {
        match self {
            Self::Certificate(_) => ROTATED,
            Self::Token(_) => TOKEN_REFRESHED,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_token_registration_keeps_its_last_token() {
        let now = Instant::now();
        let mut token = TokenRegistration::new(600);
        token.take(b"opaque".to_vec().into(), "u1", now);
        let mut keeper = Keeper::Token(Box::new(token));
        assert!(keeper.continues_with(&Credential::Token { lifetime: 700 }));
        let Keeper::Token(token) = keeper else { panic!("no token") };
        assert!(token.keeps("u1", now));
    }
}
