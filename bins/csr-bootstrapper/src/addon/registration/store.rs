//! Store of the registrations: which Secrets this program keeps for add-ons, and their pending requests. It outlives
//! the process, so that each request is made once, and no Secret is forgotten when its add-on goes meanwhile.

use std::{
    fmt,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    client::{Client, Patch},
    error::{Error, Result},
    resource::{SECRETS, Target, valid_label, valid_name},
    status_writer::guard,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::secret::{self, Data};
use log::Level;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{super::managed_cluster_addon::AddOnNamespace, RegistrationSecret};
use crate::{
    agent::Agent,
    certificate::{CsrTemplate, csr::CertificateRequest, store},
    digest::sha256,
};

/// The longest wait between two attempts to read the store.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// A Secret that this program keeps for an add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::addon) struct StoredRegistration {
    pub(super) addon: String,
    /// The pending request.
    pub(super) request: Option<StoredKey>,
}

/// What makes up a request again, with a template.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct StoredKey {
    /// PEM of PKCS #8.
    key: Zeroizing<String>,
    /// Name of the CSR.
    name: String,
}

/// Only the name: the key is secret.
impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredKey({})", self.name)
    }
}

impl From<&CertificateRequest> for StoredKey {
    fn from(request: &CertificateRequest) -> Self {
        Self { key: request.key.clone(), name: request.name.clone() }
    }
}

/// All registrations, as the Secret of the store has them.
pub(in crate::addon) struct RegistrationStore {
    client: Client,
    namespace: String,
    name: String,
    /// uid and resourceVersion of the Secret, if there is one.
    version: Option<Value>,
    /// It was not read yet, or a write failed that may have arrived all the same.
    is_stale: bool,
    all: Vec<(RegistrationSecret, StoredRegistration)>,
    errors: Backoff,
    not_before: Instant,
}

impl RegistrationStore {
    /// Nothing is read yet.
    pub(in crate::addon) fn new(agent: &Agent) -> Self {
        Self {
            client: agent.management.clone(),
            namespace: agent.settings.namespace.clone(),
            name: agent.settings.registrations_secret(),
            version: None,
            is_stale: true,
            all: Vec::new(),
            errors: Backoff::new(MAX_BACKOFF),
            not_before: Instant::now(),
        }
    }

    /// Reads the store where it may be another one.
    ///
    /// # Errors
    /// The time of the next attempt, if the store cannot be read.
    pub(in crate::addon) fn refresh(&mut self) -> std::result::Result<(), Instant> {
        let now = Instant::now();
        if !self.is_stale {
            return Ok(());
        }
        if now < self.not_before {
            return Err(self.not_before);
        }
        let Err(error) = self.reload() else {
            self.errors.succeeded();
            return Ok(());
        };
        let retry = self.errors.failed(&error, now, fastrand::f64());
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        log::log!(level, error:% = error; "the registrations of add-ons cannot be read");
        self.not_before = Instant::now() + retry.wait;
        Err(self.not_before)
    }

    pub(in crate::addon) fn all(&self) -> &[(RegistrationSecret, StoredRegistration)] {
        &self.all
    }

    fn get(&self, secret: &RegistrationSecret) -> Option<&StoredRegistration> {
        self.all.iter().find(|(known, _)| known == secret).map(|(_, stored)| stored)
    }

    /// Returns whether a request is stored for this Secret, of whatever template.
    pub(super) fn has_request(&self, secret: &RegistrationSecret) -> bool {
        self.get(secret).is_some_and(|stored| stored.request.is_some())
    }

    /// The pending request for this Secret, if it is one of `template`.
    pub(super) fn request(
        &self,
        secret: &RegistrationSecret,
        template: &CsrTemplate,
    ) -> Option<CertificateRequest> {
        let StoredKey { key, name } = self.get(secret)?.request.as_ref()?;
        let request = CertificateRequest::of_key(key.clone(), template)?;
        (request.name == *name).then_some(request)
    }

    /// Stores the name of this Secret, unless it is there; without `keeps_request` no request stays with it.
    ///
    /// # Errors
    /// As the server says; after a conflict the store is read again.
    pub(super) fn ensure(
        &mut self,
        secret: &RegistrationSecret,
        addon: &str,
        keeps_request: bool,
    ) -> Result<()> {
        match self.get(secret) {
            Some(stored) if keeps_request || stored.request.is_none() => Ok(()),
            _ => self.set(secret, addon, None),
        }
    }

    /// Stores the name of this Secret with its pending request.
    ///
    /// # Errors
    /// As the server says; after a conflict the store is read again.
    pub(super) fn set(
        &mut self,
        secret: &RegistrationSecret,
        addon: &str,
        request: Option<&CertificateRequest>,
    ) -> Result<()> {
        let request = request.map(StoredKey::from);
        let stored = StoredRegistration { addon: addon.to_owned(), request };
        let value = BASE64_STANDARD.encode(stored.to_json(secret).to_string());
        self.write(key(secret), json!(value))?;
        self.all.retain(|(known, _)| known != secret);
        self.all.push((secret.clone(), stored));
        Ok(())
    }

    /// Removes the name of this Secret.
    ///
    /// # Errors
    /// As the server says; after a conflict the store is read again.
    pub(super) fn remove(&mut self, secret: &RegistrationSecret) -> Result<()> {
        // Without a store there is nothing to remove it from.
        if self.version.is_some() {
            self.write(key(secret), Value::Null)?;
        }
        self.all.retain(|(known, _)| known != secret);
        Ok(())
    }

    fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace, &self.name)
    }

    fn reload(&mut self) -> Result<()> {
        let object = store::read(&self.client, &self.target())?;
        self.all = match &object {
            Some(object) => read(&secret::data(object)?),
            None => Vec::new(),
        };
        self.version = object.as_ref().and_then(guard);
        self.is_stale = false;
        Ok(())
    }

    /// Writes one key, if the Secret is still as it is known.
    fn write(&mut self, key: String, value: Value) -> Result<()> {
        let (client, target) = (&self.client, self.target());
        let answer = match &self.version {
            Some(metadata) => {
                let patch = json!({"metadata": metadata, "data": {key: value}});
                client.patch(&target, Patch::Merge, &patch)
            }
            None => {
                let metadata = json!({"name": target.name, "namespace": target.namespace});
                let secret = json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {key: value},
                });
                client.create(&target, &secret)
            }
        };
        match answer {
            Ok(object) => self.version = guard(&object),
            Err(error) => return Err(self.after(error)),
        }
        Ok(())
    }

    /// Another writer was faster: what it wrote counts. After other failures nobody knows what is there.
    fn after(&mut self, error: Error) -> Error {
        self.is_stale = true;
        if matches!(error, Error::Conflict(_) | Error::AlreadyExists(_) | Error::NotFound(_))
            && let Err(error) = self.reload()
        {
            return error;
        }
        error
    }
}

/// Keys of a Secret have at most 253 letters, which is not enough for the names.
fn key(secret: &RegistrationSecret) -> String {
    let RegistrationSecret { namespace: AddOnNamespace { hosted, name }, name: of } = secret;
    sha256(format!("{hosted}/{name}/{of}").as_bytes())[..32].to_owned()
}

/// What can be read of the store's content; the rest is nobody's.
fn read(data: &Data) -> Vec<(RegistrationSecret, StoredRegistration)> {
    let entry = |value: &[u8]| StoredRegistration::of_json(&serde_json::from_slice(value).ok()?);
    data.values().filter_map(|value| entry(value)).collect()
}

impl StoredRegistration {
    fn to_json(&self, secret: &RegistrationSecret) -> Value {
        let AddOnNamespace { hosted, name } = &secret.namespace;
        let mut stored = json!({
            "addon": self.addon, "hosted": hosted, "namespace": name, "name": secret.name,
        });
        if let Some(StoredKey { key, name }) = &self.request {
            stored["request"] = json!({"tls.key": **key, "csr-name": name});
        }
        stored
    }

    fn of_json(stored: &Value) -> Option<(RegistrationSecret, Self)> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let namespace = AddOnNamespace {
            hosted: stored["hosted"].as_bool()?,
            name: text(&stored["namespace"])?,
        };
        let secret = RegistrationSecret { namespace, name: text(&stored["name"])? };
        let request = &stored["request"];
        let request = || {
            let key = text(&request["tls.key"])?.into();
            Some(StoredKey { key, name: text(&request["csr-name"])? })
        };
        let valid = valid_label(&secret.namespace.name) && valid_name(&secret.name);
        let this = Self { addon: text(&stored["addon"])?, request: request() };
        valid.then_some((secret, this))
    }
}

#[cfg(test)]
mod tests;
