//! Controller of one registration's Secret: OCM's secretController (ocm
//! `pkg/registration/register/secret_controller.go`). It stores the Secret's name first, then writes the Secret, and
//! removes the name last.

use std::{sync::Arc, time::Instant};

use apiclient::{
    client::{Client, Preconditions, Propagation},
    error::{Error, Result, optional},
    log_object,
    resource::Target,
    stop::Stop,
};
use kubeconfig::secret;
use log::Level;
use serde_json::{Map, Value};

use super::{
    READ_INTERVAL, certificate, cluster_of,
    managed_cluster_addon::{Credential, Registration, RegistrationSecret, service_account},
    store as registrations,
    token::TokenDriver,
};
use crate::{
    agent::Agent,
    certificate::{
        store::{self, RequestStore, SecretValues, value},
        sync::Certificate,
    },
    conditions::{Condition, TypedCondition},
    identity::{AGENT_NAME, CLUSTER_NAME, said},
    next_attempt::NextAttempt,
    state::HubSession,
};

/// Types of the conditions about a credential (ocm `pkg/registration/register/csr/csr.go`, `register/token/token.go`).
const ROTATED: &str = "ClusterCertificateRotated";
const TOKEN_REFRESHED: &str = "TokenRefreshed";
/// The reason of the condition, and of the Event, about a Secret that must not be written.
const CONFLICT: &str = "SecretConflict";
/// The type of a Secret with any content.
const OPAQUE: &str = "Opaque";
/// Key of a token in the Secret, and its file next to the kubeconfig.
pub(super) const TOKEN: &str = "token";
const KEYS: [&str; 6] = ["kubeconfig", "tls.crt", "tls.key", TOKEN, CLUSTER_NAME, AGENT_NAME];

#[derive(Default)]
pub(super) struct SecretController {
    desired: Option<Arc<Registration>>,
    // Either a certificate or a token is desired.
    certificate: Certificate,
    token: TokenDriver,
    /// The Secret as it was last read or written; `None` if there is none.
    secret: Option<Value>,
    conflict: Option<String>,
    due: NextAttempt,
}

/// The Secret of this name on its cluster, with what its credential comes from.
pub(super) struct SecretContext<'a> {
    pub(super) agent: &'a Agent,
    pub(super) session: &'a HubSession,
    pub(super) store: &'a mut RequestStore,
    pub(super) name: &'a RegistrationSecret,
}

impl SecretContext<'_> {
    fn client(&self) -> &Client {
        cluster_of(self.agent, self.name.hosted)
    }

    fn read(&self) -> Result<Option<Value>> {
        optional(self.client().get(&self.name.target()))
    }

    /// Saves `values` and the cluster's name with a single write. The server refuses it if the Secret has changed since
    /// it was `seen`: it may belong to somebody else by now. The next step reads it again.
    pub(super) fn save(&self, seen: Option<&Value>, mut values: SecretValues) -> Result<()> {
        values.insert(CLUSTER_NAME.to_owned(), value(&*self.session.names.cluster));
        store::save(self.client(), &self.name.target(), seen, &values).map(drop)
    }

    /// The reason why the Secret must not be written or deleted, as the predicate of a sentence about it: one with data
    /// has to be this cluster's, by its `cluster-name`.
    fn conflict(&self, secret: Option<&Value>) -> Option<&'static str> {
        let Self { agent, session, name, .. } = self;
        let is_managements = name.hosted || agent.other_spoke().is_none();
        let is_near = is_managements && name.namespace == agent.settings.namespace;
        if is_near && agent.settings.has_own_secret(&name.name) {
            return Some("is one of csr-bootstrapper's own");
        }
        conflict_of(secret?, &session.names.cluster)
    }
}

impl SecretController {
    /// The condition about the credential, if it is one of this add-on and there is something to say.
    pub(super) fn condition(&self, addon: &str) -> Option<TypedCondition> {
        let desired = self.desired.as_ref().filter(|desired| desired.addon == addon)?;
        let (kind, condition) = match desired.credential {
            Credential::Certificate { .. } => (ROTATED, self.certificate.rotated().cloned()),
            Credential::Token { .. } => (TOKEN_REFRESHED, self.token.refreshed.clone()),
        };
        let conflict = self.conflict.clone();
        let conflict = conflict.map(|why| Condition::new("False", CONFLICT, why));
        Some((kind, conflict.or(condition)?))
    }

    /// Does what is due for this Secret, which goes if nothing is `desired`; returns when to come again.
    pub(super) fn reconcile(
        &mut self,
        desired: Option<Arc<Registration>>,
        mut context: SecretContext<'_>,
    ) -> Instant {
        let is_due = Instant::now() >= self.due.at || self.desired != desired;
        // A CSR that waits may have an answer.
        let is_waiting = self.certificate.is_waiting() && !self.due.is_failing();
        if !is_due && !is_waiting {
            return self.due.at;
        }
        self.desired.clone_from(&desired);
        let (result, what) = match &desired {
            Some(registration) => (self.keep(registration, is_due, &mut context), "kept"),
            None => {
                self.close(context.session);
                (remove(&mut context), "deleted")
            }
        };
        let what = format!("the credential of an add-on is not {what}");
        self.due.set(result, &context.name.target(), &what)
    }

    /// Does what is due for the credential in the Secret, which this `reads` again; returns when to come again.
    fn keep(
        &mut self,
        Registration { addon, credential }: &Registration,
        reads: bool,
        context: &mut SecretContext<'_>,
    ) -> Result<Instant> {
        let SecretContext { agent, session, name, .. } = *context;
        let mut next_read = self.due.at;
        if reads {
            self.secret = context.read()?;
            next_read = Instant::now() + READ_INTERVAL;
        }
        let conflict = context.conflict(self.secret.as_ref());
        let conflict =
            conflict.map(|why| format!("{} {why}: it is not written", name.sentence_name()));
        if let Some(why) = conflict.as_ref().filter(|why| self.conflict.as_ref() != Some(*why)) {
            agent.record_event(CONFLICT, true, why);
            self.close(session);
        }
        self.conflict = conflict;
        if self.conflict.is_some() {
            return Ok(next_read);
        }
        // Without the name, no later process would delete the Secret. A token leaves no request behind.
        context.store.refresh()?;
        let is_certificate = matches!(credential, Credential::Certificate { .. });
        let stored = registrations::get(context.store.data(), name);
        let stored = stored.filter(|stored| stored.addon == *addon);
        if stored.is_none_or(|stored| stored.csr.is_some() && !is_certificate) {
            context.store.write(&registrations::values(name, Some((addon, None))))?;
        }
        let secret = self.secret.as_ref();
        let due = match credential {
            Credential::Certificate { template, former_user } => {
                let wanted = (template, former_user.as_deref());
                certificate::sync(&mut self.certificate, addon, wanted, secret, context)?
            }
            Credential::Token { lifetime, account } => {
                let account = (service_account(addon), account.as_deref());
                self.token.sync(*lifetime, account, secret, context)?
            }
        };
        Ok(due.min(next_read))
    }

    /// Awaits no CSR any more.
    pub(super) fn close(&self, session: &HubSession) {
        if let Some(name) = self.certificate.request() {
            session.csrs.forget(name);
        }
    }
}

/// The same for any other Secret than the program's own.
fn conflict_of(secret: &Value, cluster: &str) -> Option<&'static str> {
    if secret["type"].as_str().is_some_and(|kind| kind != OPAQUE) {
        return Some("is not Opaque");
    }
    if secret["immutable"] == true {
        return Some("is immutable");
    }
    let Ok(data) = secret::data(secret) else { return Some("cannot be read") };
    if data.is_empty() || said(&data, CLUSTER_NAME, cluster) {
        return None;
    }
    Some(match data.contains_key(CLUSTER_NAME) {
        true => "is another cluster's, by its cluster-name",
        false => "has data and no cluster-name",
    })
}

/// Deletes a Secret that no add-on needs any more, and then its name from the store.
fn remove(context: &mut SecretContext<'_>) -> Result<Instant> {
    let (secret, target) = (context.read()?, context.name.target());
    // Nothing in an empty one is ours.
    let is_empty = |secret: &Value| secret::data(secret).is_ok_and(|data| data.is_empty());
    if let Some(secret) = secret.filter(|secret| !is_empty(secret)) {
        match context.conflict(Some(&secret)) {
            Some(why) => log_object!(Level::Warn, target; "keeping the Secret: it {why}"),
            None => {
                delete(context.client(), &target, &secret)?;
                log_object!(Level::Info, target; "the credential of an add-on was deleted");
            }
        }
    }
    context.store.refresh()?;
    context.store.write(&registrations::values(context.name, None))?;
    Ok(Instant::now() + Stop::SLICE)
}

/// Deletes the Secret if it has not changed since it was read, or only the credential in it if somebody put more there.
fn delete(client: &Client, target: &Target<'_>, secret: &Value) -> Result<()> {
    let mut keys = secret["data"].as_object().into_iter().flat_map(Map::keys);
    if keys.any(|key| !KEYS.contains(&key.as_str())) {
        let removed = KEYS.map(|key| (key.to_owned(), None)).into();
        return store::save(client, target, Some(secret), &removed).map(drop);
    }
    let text = |field: &str| secret["metadata"][field].as_str().map(str::to_owned);
    let guard = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
    match client.delete(target, Propagation::Background, &guard) {
        Err(Error::NotFound(_)) => Ok(()),
        deleted => deleted,
    }
}

#[cfg(test)]
mod tests;
