//! Store of the two Secrets that this program writes: the hub's credential, and the pending request.

use std::{collections::BTreeMap, sync::Arc};

use apiclient::{
    client::Client,
    error::{Error, Result},
    resource::{SECRETS, Target},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::secret::{self, Data};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{csr::CertificateRequest, validate::Validation};
use crate::{
    agent::Agent,
    hub::Hub,
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME},
};

/// Key of the selected one of several hubs, next to the request.
pub(super) const HUB_SERVER: &str = "hub-server";
/// The manifests that have both Secrets, empty.
const SECRETS_BASE: &str = "manifests/csr-bootstrapper/secrets";
/// After this many conflicts in a row the next attempt waits.
const CONFLICTS: u32 = 3;

/// Reads an object; `None` if there is none.
pub(crate) fn read(client: &Client, target: &Target<'_>) -> Result<Option<Value>> {
    match client.get(target) {
        Ok(object) => Ok(Some(object)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The Secret of the stored request, as it was last read or written.
pub(crate) struct StoredRequest {
    client: Client,
    namespace: String,
    name: String,
    /// `None` if there is none.
    secret: Option<Value>,
}

impl StoredRequest {
    /// Reads it.
    pub(crate) fn load(agent: &Agent) -> Result<Self> {
        let (client, namespace) = (agent.management.clone(), agent.settings.namespace.clone());
        let name = agent.settings.pending_secret();
        let mut stored = Self { client, namespace, name, secret: None };
        stored.reload()?;
        Ok(stored)
    }

    pub(super) fn reload(&mut self) -> Result<()> {
        self.secret = read(&self.client, &self.target())?;
        Ok(())
    }

    /// The data in it, if it can be read.
    pub(crate) fn data(&self) -> Option<Data> {
        secret::data(self.secret.as_ref()?).ok()
    }

    /// The server of the hub that was asked, one of several.
    pub(crate) fn hub(&self) -> Option<String> {
        Some(str::from_utf8(self.data()?.get(HUB_SERVER)?).ok()?.to_owned())
    }

    /// The request in it; `None` if it is empty or unreadable.
    pub(super) fn request(&self, names: &AgentNames) -> Option<CertificateRequest> {
        CertificateRequest::of_secret(&self.data()?, names)
    }

    /// Checks that the server lets it change.
    ///
    /// # Errors
    /// `Immutable` with what to do.
    pub(super) fn check_mutable(&mut self) -> Result<()> {
        if check_mutable(&self.target(), self.secret.as_ref()).is_err() {
            // Somebody may have replaced it since.
            self.reload()?;
        }
        check_mutable(&self.target(), self.secret.as_ref())
    }

    /// Stores this data in place of what was there. `AlreadyExists`, `Conflict` and `NotFound` mean that something else is
    /// there by now.
    pub(super) fn replace(&mut self, data: Map<String, Value>) -> Result<()> {
        let target = self.target();
        let written = match &self.secret {
            None => self.client.create(&target, &new(&target, data)),
            Some(previous) => {
                let mut secret = previous.clone();
                secret["data"] = Value::Object(data);
                self.client.replace(&target, &secret)
            }
        };
        let exists = self.secret.is_some();
        match written.map_err(|error| with_remedy(&target, exists, error)) {
            // Without the right to create, a Secret that is there by now is filled next time.
            Err(error @ Error::Forbidden(_)) if !exists => {
                self.reload()?;
                Err(match &self.secret {
                    Some(_) => Error::Conflict(error.message().to_owned()),
                    None => error,
                })
            }
            Ok(secret) => {
                self.secret = Some(secret);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Empties it, if it is still the same. It stays for the next request: whoever may create Secrets can get the token of
    /// any ServiceAccount in the namespace.
    pub(super) fn empty(&mut self) -> Result<()> {
        if self.secret.is_none() {
            return Ok(());
        }
        match self.replace(Map::new()) {
            // Somebody else deleted or replaced it.
            Err(Error::NotFound(_) | Error::Conflict(_)) => {
                self.reload()?;
                self.check_mutable()
            }
            emptied => emptied,
        }
    }

    fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace, &self.name)
    }
}

/// Checks that the server lets `secret` change.
///
/// # Errors
/// `Immutable` with what to do.
pub(super) fn check_mutable(target: &Target<'_>, secret: Option<&Value>) -> Result<()> {
    match secret.is_some_and(|secret| secret["immutable"] == true) {
        true => Err(immutable(target)),
        false => Ok(()),
    }
}

fn immutable(target: &Target<'_>) -> Error {
    Error::Immutable(format!("{target} is immutable: delete it, and apply {SECRETS_BASE} again"))
}

/// What to do about a refused write of a Secret that `exists`, or does not.
fn with_remedy(target: &Target<'_>, exists: bool, error: Error) -> Error {
    match error {
        Error::Immutable(_) => immutable(target),
        Error::Forbidden(message) if !exists => {
            let what = format!("{target} does not exist: apply {SECRETS_BASE}");
            Error::Forbidden(format!("{what} ({message})"))
        }
        error => error,
    }
}

/// Values by key.
pub(crate) type SecretValues = BTreeMap<&'static str, Zeroizing<Vec<u8>>>;

/// Saves `values` in the credential's Secret with a single write, and those of `fallback` whose keys it
/// lacks; other keys stay.
pub(crate) fn save(agent: &Agent, values: &SecretValues, fallback: &SecretValues) -> Result<()> {
    let (client, target) = (&agent.management, agent.credential());
    let (mut revision, mut seen) = (agent.credential.revision(), agent.credential_secret());
    let mut tried = 0;
    let secret = loop {
        tried += 1;
        match write(client, &target, seen.as_deref(), (values, fallback), &[]) {
            // The watch lags behind, or another writer was faster.
            Err(Error::Conflict(_) | Error::AlreadyExists(_) | Error::NotFound(_))
                if tried < CONFLICTS =>
            {
                revision = agent.credential.revision();
                seen = read(client, &target)?.map(Arc::new);
            }
            written => {
                break written.map_err(|error| with_remedy(&target, seen.is_some(), error))?;
            }
        }
    };
    agent.set_credential(revision, secret);
    Ok(())
}

/// The same once for any Secret, if it still is as it was `seen`; `removed` keys go. Returns what was saved.
pub(crate) fn write(
    client: &Client,
    target: &Target<'_>,
    seen: Option<&Value>,
    (values, fallback): (&SecretValues, &SecretValues),
    removed: &[&str],
) -> Result<Value> {
    match seen {
        Some(secret) => client.replace(target, &merged(secret.clone(), values, fallback, removed)),
        None => client.create(target, &merged(new(target, Map::new()), values, fallback, removed)),
    }
}

/// The values to save with certificate and key, and those to save only where they are missing. A kubeconfig
/// that leads to the right hub stays as it is.
pub(crate) fn other_values(
    names: &AgentNames,
    hub: Option<&Hub>,
    validation: &Validation,
) -> (SecretValues, SecretValues) {
    let AgentNames { cluster, agent } = names;
    let names = SecretValues::from([
        (CLUSTER_NAME, cluster.clone().into_bytes().into()),
        (AGENT_NAME, agent.clone().into_bytes().into()),
    ]);
    let kubeconfig = match hub {
        Some(hub) => SecretValues::from([("kubeconfig", hub.kubeconfig().into_bytes().into())]),
        None => SecretValues::new(),
    };
    match validation {
        Validation::Usable(usable) if !usable.stale => (names, kubeconfig),
        _ => (names.into_iter().chain(kubeconfig).collect(), SecretValues::new()),
    }
}

fn new(target: &Target<'_>, data: Map<String, Value>) -> Value {
    let metadata = json!({"name": target.name, "namespace": target.namespace});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
}

fn merged(
    mut secret: Value,
    values: &SecretValues,
    fallback: &SecretValues,
    removed: &[&str],
) -> Value {
    if !secret["data"].is_object() {
        secret["data"] = json!({});
    }
    if let Some(data) = secret["data"].as_object_mut() {
        data.retain(|key, _| !removed.contains(&key.as_str()));
    }
    let missing = |(key, _): &(&&str, &Zeroizing<Vec<u8>>)| secret["data"][**key].is_null();
    let missing: Vec<_> = fallback.iter().filter(missing).collect();
    for (key, value) in values.iter().chain(missing) {
        secret["data"][*key] = json!(BASE64_STANDARD.encode(value));
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_keys_labels_and_the_version_survive_a_save() {
        let metadata = json!({"name": "x", "resourceVersion": "7", "labels": {"a": "b"}});
        let data = json!({"theirs": "aGk=", "tls.crt": "b2xk", "old": ""});
        let secret = json!({"metadata": metadata, "data": data, "type": "Opaque"});
        let merged = merged(
            secret,
            &SecretValues::from([("tls.crt", b"new".to_vec().into())]),
            &SecretValues::from([("theirs", b"x".to_vec().into())]),
            &["old"],
        );
        assert_eq!(merged["data"], json!({"theirs": "aGk=", "tls.crt": "bmV3"}));
        assert_eq!((&merged["metadata"], &merged["type"]), (&metadata, &json!("Opaque")));
    }

    #[test]
    fn a_secret_without_data_gets_some() {
        for data in [json!(null), json!("x")] {
            let secret = merged(
                json!({"data": data}),
                &SecretValues::new(),
                &SecretValues::from([("a", b"hi".to_vec().into())]),
                &[],
            );
            assert_eq!(secret["data"], json!({"a": "aGk="}));
        }
    }
}
