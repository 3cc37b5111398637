//! Store of the registrations: which Secrets this program keeps for add-ons, and their pending requests. It outlives
//! the process, so that each request is made once, and no Secret is forgotten when its add-on goes meanwhile.

use std::fmt;

use apiclient::{
    client::{Client, Patch},
    error::{Error, Result},
    resource::{SECRETS, Target, valid_label, valid_name},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::secret::{self, Data};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{super::managed_cluster_addon::AddOnNamespace, RegistrationSecret};
use crate::{
    agent::Agent,
    cached::CachedObject,
    certificate::{CsrTemplate, csr::CertificateRequest},
    digest::sha256,
};

/// A Secret that this program keeps for an add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredRegistration {
    pub(super) addon: String,
    /// The pending request.
    pub(super) request: Option<StoredRequest>,
}

/// What makes up a request again, with a template.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct StoredRequest {
    /// PEM of PKCS #8.
    key: Zeroizing<String>,
    /// Name of the CSR.
    name: String,
}

/// Only the name: the key is secret.
impl fmt::Debug for StoredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredRequest({})", self.name)
    }
}

impl From<&CertificateRequest> for StoredRequest {
    fn from(request: &CertificateRequest) -> Self {
        Self { key: request.key.clone(), name: request.name.clone() }
    }
}

/// All registrations, as the Secret of the store has them.
pub(crate) struct RegistrationStore {
    client: Client,
    namespace: String,
    name: String,
    /// uid and resourceVersion of the Secret, if there is one.
    version: Option<(String, String)>,
    /// A write failed that may have arrived all the same.
    is_stale: bool,
    all: Vec<(RegistrationSecret, StoredRegistration)>,
}

impl RegistrationStore {
    /// Reads the store.
    ///
    /// # Errors
    /// As the server says.
    pub(crate) fn load(agent: &Agent) -> Result<Self> {
        let mut store = Self {
            client: agent.management.clone(),
            namespace: agent.settings.namespace.clone(),
            name: agent.settings.registrations_secret(),
            version: None,
            is_stale: false,
            all: Vec::new(),
        };
        store.reload()?;
        Ok(store)
    }

    pub(super) fn get(&self, secret: &RegistrationSecret) -> Option<&StoredRegistration> {
        self.all.iter().find(|(known, _)| known == secret).map(|(_, stored)| stored)
    }

    pub(super) fn all(&self) -> &[(RegistrationSecret, StoredRegistration)] {
        &self.all
    }

    /// The pending request for this Secret, if it is one of `template`.
    pub(super) fn request(
        &self,
        secret: &RegistrationSecret,
        template: &CsrTemplate,
    ) -> Option<CertificateRequest> {
        let StoredRequest { key, name } = self.get(secret)?.request.as_ref()?;
        let request = CertificateRequest::of_key(key.clone(), template)?;
        (request.name == *name).then_some(request)
    }

    /// Stores `stored` for this Secret.
    ///
    /// # Errors
    /// As the server says; after a conflict the store is read again.
    pub(super) fn set(
        &mut self,
        secret: &RegistrationSecret,
        stored: StoredRegistration,
    ) -> Result<()> {
        let value = BASE64_STANDARD.encode(stored.to_json(secret).to_string());
        self.write(key(secret), json!(value))?;
        self.all.retain(|(known, _)| known != secret);
        self.all.push((secret.clone(), stored));
        Ok(())
    }

    /// Removes this Secret.
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

    /// Returns whether it has to be read again: a write failed that may have arrived all the same.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace, &self.name)
    }

    /// Reads the store again.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn reload(&mut self) -> Result<()> {
        let answer = self.client.get(&self.target());
        (self.version, self.all) = match CachedObject::of(answer)? {
            CachedObject::Object(object) => (version(&object), read(&secret::data(&object)?)),
            _ => (None, Vec::new()),
        };
        self.is_stale = false;
        Ok(())
    }

    /// Writes one key, if the Secret is still as it is known.
    fn write(&mut self, key: String, value: Value) -> Result<()> {
        let (client, target) = (&self.client, self.target());
        let answer = match &self.version {
            Some((uid, version)) => {
                let metadata = json!({"uid": uid, "resourceVersion": version});
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
            Ok(object) => self.version = version(&object),
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

fn version(object: &Value) -> Option<(String, String)> {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    Some((text("uid")?, text("resourceVersion")?))
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
        if let Some(StoredRequest { key, name }) = &self.request {
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
            Some(StoredRequest { key, name: text(&request["csr-name"])? })
        };
        let valid = valid_label(&secret.namespace.name) && valid_name(&secret.name);
        let this = Self { addon: text(&stored["addon"])?, request: request() };
        valid.then_some((secret, this))
    }
}

#[cfg(test)]
mod tests;
