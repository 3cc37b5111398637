//! Secret of a registration as it was last read: saved, and removed.

use std::time::{Duration, Instant};

use apiclient::{
    client::{Client, Preconditions, Propagation},
    error::{Error, Result},
    lock::lock,
    log_object,
    stop::Stop,
};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;

use super::{AddOnContext, RegistrationSecret, token::TOKEN};
use crate::{
    addon::cluster_of,
    agent::Agent,
    certificate::store::{self, SecretValues, read},
    identity::{AGENT_NAME, CLUSTER_NAME, said},
};

/// A Secret is read this often, as a Lease is: a watch would need the right to list all Secrets of its namespace.
const READ_INTERVAL: Duration = Duration::from_secs(30);

/// The type of a Secret that names none.
const OPAQUE: &str = "Opaque";
/// All keys that an agent writes.
const KEYS: [&str; 6] = ["kubeconfig", "tls.crt", "tls.key", TOKEN, CLUSTER_NAME, AGENT_NAME];

/// The last known state of a Secret.
#[derive(Default)]
pub(super) struct SecretCache {
    /// `None` if there is none.
    seen: Option<Value>,
    /// When it has to be read again; `None` for now.
    next_read: Option<Instant>,
}

impl SecretCache {
    pub(super) fn seen(&self) -> Option<&Value> {
        self.seen.as_ref()
    }

    /// Reads the Secret if it was not for a while; returns when it has to be read again.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn refresh(
        &mut self,
        agent: &Agent,
        secret: &RegistrationSecret,
    ) -> Result<Instant> {
        let now = Instant::now();
        if let Some(next_read) = self.next_read.filter(|at| now < *at) {
            return Ok(next_read);
        }
        self.seen = read(client(agent, secret), &secret.target())?;
        Ok(*self.next_read.insert(now + READ_INTERVAL))
    }

    /// The reason why the Secret must not be written, if there is one: the predicate of a sentence about it.
    pub(super) fn conflict(
        &self,
        agent: &Agent,
        secret: &RegistrationSecret,
        cluster: &str,
    ) -> Option<String> {
        if is_own_secret(agent, secret) {
            return Some("is one of csr-bootstrapper's own".into());
        }
        let object = self.seen.as_ref()?;
        let immutable = object["immutable"] == true;
        conflict(object, cluster).or_else(|| immutable.then(|| "is immutable".into()))
    }

    /// Saves `values` with a single write; `removed` keys go, others stay. A Secret that is not as it was read is not
    /// written: it may be another one's by now.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn save(
        &mut self,
        agent: &Agent,
        secret: &RegistrationSecret,
        values: &SecretValues,
        removed: &[&str],
    ) -> Result<()> {
        let (client, seen) = (client(agent, secret), self.seen.as_ref());
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
///
/// # Errors
/// As the servers say.
pub(super) fn remove(name: &RegistrationSecret, context: AddOnContext<'_>) -> Result<Instant> {
    let target = name.target();
    match delete(context.agent, name, &context.session.names.cluster)? {
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
    let (client, target) = (client(agent, secret), secret.target());
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

/// The cluster that has the Secret.
fn client<'a>(agent: &'a Agent, secret: &RegistrationSecret) -> &'a Client {
    cluster_of(agent, &secret.namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_is_ours_if_it_says_so_or_is_empty() {
        let (c1, c2) = ("YzE=", "YzI=");
        for ours in [
            json!({"data": {"cluster-name": c1, "tls.crt": "eA=="}}),
            json!({"data": {"cluster-name": c1}, "type": "Opaque"}),
            json!({"data": {}}),
            json!({}),
        ] {
            assert_eq!(conflict(&ours, "c1"), None, "{ours}");
        }
        for other in [
            json!({"data": {"cluster-name": c2, "tls.crt": ""}}),
            json!({"data": {"tls.crt": ""}}),
            json!({"data": {"cluster-name": "%"}}),
            json!({"data": {"cluster-name": c1}, "type": "kubernetes.io/tls"}),
            json!({"type": "kubernetes.io/service-account-token"}),
        ] {
            assert!(conflict(&other, "c1").is_some(), "{other}");
        }
    }

    #[test]
    fn what_somebody_else_put_next_to_a_credential_stays() {
        let more = json!({"metadata": {"name": "x"}, "data": {"tls.crt": "", "theirs": "eA=="}});
        let rest = json!({"metadata": {"name": "x"}, "data": {"theirs": "eA=="}});
        assert_eq!(without_credential(&more), Some(rest));
        assert_eq!(without_credential(&json!({"data": {"token": "", "kubeconfig": ""}})), None);
    }
}
