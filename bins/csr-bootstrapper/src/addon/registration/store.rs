//! Store of the registrations: which Secrets this program keeps for add-ons, and their pending requests. It outlives
//! the process, so that each request is made once, and no Secret is forgotten when its add-on goes meanwhile.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    resource::{valid_label, valid_name},
};
use kubeconfig::secret::Data;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{super::managed_cluster_addon::AddOnNamespace, RegistrationSecret};
use crate::{
    agent::Agent,
    certificate::{CsrTemplate, csr::CertificateRequest, store::RequestStore},
    digest::sha256,
};

/// The longest wait between two attempts to read the store.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// One value of the store's Secret. A key is read only where its request is asked for.
#[derive(Serialize, Deserialize)]
struct StoredRegistration<R> {
    addon: String,
    hosted: bool,
    namespace: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<R>,
}

/// What makes up a request again, with a template.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    /// PEM of PKCS #8.
    #[serde(rename = "tls.key")]
    key: String,
    #[serde(rename = "csr-name")]
    name: String,
}

/// All registrations, in a Secret.
pub(in crate::addon) struct RegistrationStore {
    secret: RequestStore,
    errors: Backoff,
    not_before: Instant,
}

impl RegistrationStore {
    /// Nothing is read yet.
    pub(in crate::addon) fn new(agent: &Agent) -> Self {
        let secret = RequestStore::new(agent, agent.settings.registrations_secret());
        Self { secret, errors: Backoff::new(MAX_BACKOFF), not_before: Instant::now() }
    }

    /// Reads the store where it may be another one.
    ///
    /// # Errors
    /// The time of the next attempt, if the store cannot be read.
    pub(in crate::addon) fn refresh(&mut self) -> std::result::Result<(), Instant> {
        let now = Instant::now();
        if now < self.not_before {
            return Err(self.not_before);
        }
        let Err(error) = self.secret.refresh() else {
            self.errors.succeeded();
            return Ok(());
        };
        let retry = self.errors.failed(&error, now, fastrand::f64());
        let level = retry.level();
        log::log!(level, error:% = error; "the registrations of add-ons cannot be read");
        self.not_before = Instant::now() + retry.wait;
        Err(self.not_before)
    }

    /// The Secrets that are kept, each with the name of its add-on.
    pub(in crate::addon) fn all(&self) -> Vec<(RegistrationSecret, String)> {
        all(self.secret.data())
    }

    /// The pending request for this Secret, if it is one of `template`.
    ///
    /// # Errors
    /// `Unreachable` while the store cannot be read.
    pub(super) fn request(
        &mut self,
        secret: &RegistrationSecret,
        template: &CsrTemplate,
    ) -> Result<Option<CertificateRequest>> {
        let unread =
            |_| Error::Unreachable("the registrations of add-ons cannot be read".to_owned());
        self.refresh().map_err(unread)?;
        let stored = self.secret.data().get(&key(secret)).and_then(|value| request(value));
        Ok(stored.and_then(|StoredKey { key, name }| {
            let request = CertificateRequest::of_key(key.into(), template)?;
            (request.name == name).then_some(request)
        }))
    }

    /// Stores the name of this Secret, without a request.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn ensure(&mut self, secret: &RegistrationSecret, addon: &str) -> Result<()> {
        let stored = self.secret.data().get(&key(secret));
        match stored.is_some_and(|stored| **stored == value(secret, addon, None).into_bytes()) {
            true => Ok(()),
            false => self.set(secret, addon, None),
        }
    }

    /// Stores the name of this Secret with its pending request.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn set(
        &mut self,
        secret: &RegistrationSecret,
        addon: &str,
        request: Option<&CertificateRequest>,
    ) -> Result<()> {
        let value = value(secret, addon, request).into_bytes();
        self.secret.write(vec![(key(secret), Some(value.into()))])
    }

    /// Removes the name of this Secret.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn remove(&mut self, secret: &RegistrationSecret) -> Result<()> {
        let key = key(secret);
        match self.secret.data().contains_key(&key) {
            true => self.secret.write(vec![(key, None)]),
            false => Ok(()),
        }
    }
}

/// Keys of a Secret have at most 253 letters, which is not enough for the names.
fn key(secret: &RegistrationSecret) -> String {
    let RegistrationSecret { namespace: AddOnNamespace { hosted, name }, name: of } = secret;
    sha256(format!("{hosted}/{name}/{of}").as_bytes())[..32].to_owned()
}

fn value(secret: &RegistrationSecret, addon: &str, request: Option<&CertificateRequest>) -> String {
    let AddOnNamespace { hosted, name: namespace } = secret.namespace.clone();
    let request = request
        .map(|request| StoredKey { key: request.key.to_string(), name: request.name.clone() });
    let (addon, name) = (addon.to_owned(), secret.name.clone());
    let stored = StoredRegistration { addon, hosted, namespace, name, request };
    serde_json::to_string(&stored).unwrap_or_default()
}

/// What can be read of the store's content; the rest is nobody's.
fn all(data: &Data) -> Vec<(RegistrationSecret, String)> {
    let stored = data.iter().filter_map(|(key, value)| Some((key, named(value)?)));
    stored.filter(|(of, (secret, _))| **of == key(secret)).map(|(_, stored)| stored).collect()
}

/// The Secret and the add-on that `value` names.
fn named(value: &[u8]) -> Option<(RegistrationSecret, String)> {
    let stored: StoredRegistration<IgnoredAny> = serde_json::from_slice(value).ok()?;
    let namespace = AddOnNamespace { hosted: stored.hosted, name: stored.namespace };
    let secret = RegistrationSecret { namespace, name: stored.name };
    let is_valid = valid_label(&secret.namespace.name) && valid_name(&secret.name);
    is_valid.then_some((secret, stored.addon))
}

fn request(value: &[u8]) -> Option<StoredKey> {
    serde_json::from_slice::<StoredRegistration<StoredKey>>(value).ok()?.request
}

#[cfg(test)]
mod tests;
