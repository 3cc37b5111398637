//! Store of the registrations: which Secrets this program keeps for add-ons, and their pending requests. It outlives
//! the process, so that each request is made once, and no Secret is forgotten when its add-on goes meanwhile.

use std::{collections::BTreeMap, time::Instant};

use apiclient::{
    error::{Error, Result},
    resource::{valid_label, valid_name},
};
use kubeconfig::secret::Data;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::RegistrationSecret;
use crate::{
    addon::Due,
    agent::Agent,
    certificate::{CsrTemplate, csr::CertificateRequest, store::RequestStore},
    digest::sha256,
};

/// What is stored of a registration; the key of its pending request is a value of its own.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRegistration {
    pub(super) addon: String,
    #[serde(flatten)]
    secret: RegistrationSecret,
    /// The name of the pending request.
    pub(super) csr: Option<String>,
}

/// The registrations of all add-ons, in a Secret.
pub(in crate::addon) struct RegistrationStore {
    secret: RequestStore,
    due: Due,
}

impl RegistrationStore {
    /// Nothing is read yet.
    pub(in crate::addon) fn new(agent: &Agent) -> Self {
        let secret = RequestStore::new(agent, agent.settings.registrations_secret());
        Self { secret, due: Due::default() }
    }

    /// Reads the store where it may be another one.
    ///
    /// # Errors
    /// The time of the next attempt, if the store cannot be read.
    pub(in crate::addon) fn refresh(&mut self) -> std::result::Result<(), Instant> {
        if Instant::now() < self.due.at {
            return Err(self.due.at);
        }
        let read = self.secret.refresh().map(|()| Instant::now());
        let what = "the registrations of add-ons cannot be read";
        let at = self.due.set(read, &self.secret.target(), what);
        if self.due.is_failing() { Err(at) } else { Ok(()) }
    }

    /// The Secrets that are kept, each with the name of its add-on.
    pub(in crate::addon) fn all(&self) -> BTreeMap<RegistrationSecret, String> {
        all(self.secret.data())
    }

    /// What is stored of this Secret, if it is kept.
    pub(super) fn get(&self, secret: &RegistrationSecret) -> Option<StoredRegistration> {
        stored(self.secret.data(), &key(secret))
    }

    /// The pending request for this Secret, if it is one of `template`.
    pub(super) fn request(
        &mut self,
        secret: &RegistrationSecret,
        template: &CsrTemplate,
    ) -> Result<Option<CertificateRequest>> {
        self.secret.refresh()?;
        Ok(request(self.secret.data(), secret, template))
    }

    /// Stores this Secret with its add-on and its pending request, or removes both.
    pub(super) fn write(
        &mut self,
        secret: &RegistrationSecret,
        registration: Option<(&str, Option<&CertificateRequest>)>,
    ) -> Result<()> {
        match self.secret.write(values(secret, registration)) {
            // The loop of the other cluster has written of its own Secrets.
            Err(Error::Conflict(_) | Error::AlreadyExists(_)) => {
                self.secret.refresh()?;
                self.secret.write(values(secret, registration))
            }
            written => written,
        }
    }
}

/// Keys of a Secret have at most 253 letters, which is not enough for the names.
fn key(secret: &RegistrationSecret) -> String {
    let RegistrationSecret { hosted, namespace, name } = secret;
    sha256(format!("{hosted}/{namespace}/{name}").as_bytes())[..32].to_owned()
}

/// The key under which the private key of the pending request is stored.
fn private_key(secret: &RegistrationSecret) -> String {
    format!("{}.tls.key", key(secret))
}

fn values(
    secret: &RegistrationSecret,
    registration: Option<(&str, Option<&CertificateRequest>)>,
) -> Vec<(String, Option<Zeroizing<Vec<u8>>>)> {
    let request = registration.and_then(|(_, request)| request);
    let stored = registration.map(|(addon, _)| {
        let csr = request.map(|request| request.name.clone());
        let stored = StoredRegistration { addon: addon.to_owned(), secret: secret.clone(), csr };
        serde_json::to_vec(&stored).unwrap_or_default().into()
    });
    let private = request.map(|request| request.key.as_bytes().to_vec().into());
    vec![(key(secret), stored), (private_key(secret), private)]
}

/// What can be read of the store's content; the rest is nobody's.
fn all(data: &Data) -> BTreeMap<RegistrationSecret, String> {
    let stored = data.keys().filter_map(|key| stored(data, key));
    stored.map(|stored| (stored.secret, stored.addon)).collect()
}

fn stored(data: &Data, key: &str) -> Option<StoredRegistration> {
    let stored: StoredRegistration = serde_json::from_slice(data.get(key)?).ok()?;
    let RegistrationSecret { namespace, name, .. } = &stored.secret;
    let is_valid = valid_label(namespace) && valid_name(name) && self::key(&stored.secret) == key;
    is_valid.then_some(stored)
}

fn request(
    data: &Data,
    secret: &RegistrationSecret,
    template: &CsrTemplate,
) -> Option<CertificateRequest> {
    let name = stored(data, &key(secret))?.csr?;
    let pem = str::from_utf8(data.get(&private_key(secret))?).ok()?.to_owned();
    CertificateRequest::of_key(pem.into(), template).filter(|request| request.name == name)
}

#[cfg(test)]
mod tests;
