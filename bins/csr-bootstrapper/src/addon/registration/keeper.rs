//! Keeper of one credential: stores its Secret's name first, then writes the Secret, and forgets the name last.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    client::{Preconditions, Propagation},
    error::{Error, Result},
    lock::lock,
    log_line::seconds,
    log_object,
    stop::Stop,
};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;

use super::{
    AddOnContext, Credential, Registration, RegistrationSecret, certificate,
    token::{TOKEN, TokenDriver},
};
use crate::{
    addon::{
        cluster_of,
        managed_cluster_addon::{ROTATED, TOKEN_REFRESHED},
    },
    agent::Agent,
    certificate::{
        store::{self, SecretValues, read},
        sync::Certificate,
    },
    conditions::{Condition, TypedCondition},
    identity::{AGENT_NAME, CLUSTER_NAME, said},
    state::HubSession,
};

/// The reason of the condition, and of the Event, about a Secret that must not be written.
const CONFLICT: &str = "SecretConflict";
/// The longest wait between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The same for a Secret whose namespace does not exist yet: it comes with the add-on's other objects.
const MAX_BACKOFF_FOR_NAMESPACE: Duration = Duration::from_secs(10);

/// A Secret is read this often, as a Lease is: a watch would need the right to list all Secrets of its namespace.
const READ_INTERVAL: Duration = Duration::from_secs(30);

/// The type of a Secret that names none.
const OPAQUE: &str = "Opaque";
/// All keys that an agent writes.
const KEYS: [&str; 6] = ["kubeconfig", "tls.crt", "tls.key", TOKEN, CLUSTER_NAME, AGENT_NAME];

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
    /// The time of the next step. A change makes it due immediately, except after a failure.
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
            Credential::Certificate { .. } => (ROTATED, self.certificate.rotated().cloned()),
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
                (remove(name, context), "deleted")
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
        let conflict = match &self.secret.seen {
            _ if is_own_secret(agent, name) => Some("is one of csr-bootstrapper's own".to_owned()),
            Some(secret) => conflict(secret, &session.names.cluster)
                .or_else(|| (secret["immutable"] == true).then(|| "is immutable".to_owned())),
            None => None,
        };
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

/// The last known state of a Secret.
#[derive(Default)]
pub(super) struct SecretCache {
    /// `None` if there is none.
    pub(super) seen: Option<Value>,
    /// When it has to be read again; `None` for now.
    next_read: Option<Instant>,
}

impl SecretCache {
    /// Reads the Secret if it was not for a while; returns when it has to be read again.
    fn refresh(&mut self, agent: &Agent, secret: &RegistrationSecret) -> Result<Instant> {
        let now = Instant::now();
        if let Some(next_read) = self.next_read.filter(|at| now < *at) {
            return Ok(next_read);
        }
        self.seen = read(cluster_of(agent, &secret.namespace), &secret.target())?;
        Ok(*self.next_read.insert(now + READ_INTERVAL))
    }

    /// Saves `values` with a single write; `removed` keys go, others stay. A Secret that is not as it was read is not
    /// written: it may be another one's by now.
    fn save(
        &mut self,
        agent: &Agent,
        secret: &RegistrationSecret,
        values: &SecretValues,
        removed: &[&str],
    ) -> Result<()> {
        let (client, seen) = (cluster_of(agent, &secret.namespace), self.seen.as_ref());
        let values = values.iter().map(|(key, value)| (*key, value));
        let saved = store::save(client, &secret.target(), seen, values, removed);
        self.seen = Some(saved.inspect_err(|_| self.next_read = None)?);
        Ok(())
    }
}

/// Returns whether this is a Secret that the program itself lives by.
fn is_own_secret(agent: &Agent, secret: &RegistrationSecret) -> bool {
    let RegistrationSecret { namespace, name } = secret;
    let is_managements = namespace.hosted || agent.other_spoke().is_none();
    let settings = &agent.settings;
    is_managements && namespace.name == settings.namespace && settings.has_own_secret(name)
}

/// Removes a Secret that no add-on needs any more, and then its name from the store.
fn remove(name: &RegistrationSecret, context: AddOnContext<'_>) -> Result<Instant> {
    let (target, cluster) = (name.target(), &context.session.names.cluster);
    match delete(context.agent, name, cluster)? {
        true => log_object!(Level::Info, target; "the credential of an add-on was deleted"),
        false => log_object!(
            Level::Warn, target;
            "keeping the Secret: it no longer belongs to this cluster"
        ),
    }
    lock(context.store).remove(name)?;
    Ok(Instant::now() + Stop::SLICE)
}

/// Deletes the Secret if it is one of this cluster's for an add-on, or the credential in it if somebody put more there;
/// returns whether it was one, or was gone already.
///
/// # Errors
/// As the server says; `Conflict` if it changed meanwhile.
fn delete(agent: &Agent, secret: &RegistrationSecret, cluster: &str) -> Result<bool> {
    let (client, target) = (cluster_of(agent, &secret.namespace), secret.target());
    let Some(object) = read(client, &target)? else {
        return Ok(true);
    };
    let data = secret::data(&object).unwrap_or_default();
    if data.is_empty() || is_own_secret(agent, secret) || conflict(&object, cluster).is_some() {
        return Ok(false);
    }
    if let Some(rest) = without_credential(&object) {
        return client.replace(&target, &rest).map(|_| true);
    }
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let guard = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
    match client.delete(&target, Propagation::Background, &guard) {
        Ok(()) | Err(Error::NotFound(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The reason why an existing Secret is not this cluster's, if there is one. It is, if it says so, or if it is empty.
fn conflict(object: &Value, cluster: &str) -> Option<String> {
    let kind = object["type"].as_str().unwrap_or(OPAQUE);
    if kind != OPAQUE {
        return Some(format!("has type {kind}"));
    }
    let Ok(data) = secret::data(object) else { return Some("cannot be read".into()) };
    if data.is_empty() || said(&data, CLUSTER_NAME, cluster) {
        return None;
    }
    Some(match data.contains_key(CLUSTER_NAME) {
        true => "is another cluster's, by its cluster-name".into(),
        false => "has data and no cluster-name".into(),
    })
}

/// What somebody else put into the Secret, if there is such a thing.
fn without_credential(object: &Value) -> Option<Value> {
    let mut rest = object.clone();
    let data = rest["data"].as_object_mut()?;
    data.retain(|key, _| !KEYS.contains(&key.as_str()));
    let is_more = !data.is_empty();
    is_more.then_some(rest)
}

#[cfg(test)]
mod tests;
