//! What is stored about registrations: which Secrets this program keeps for add-ons, and their pending requests. It
//! outlives the process, so that each request is made once, and no Secret is forgotten when its add-on goes meanwhile.

use std::collections::BTreeMap;

use apiclient::resource::{valid_label, valid_name};
use kubeconfig::secret::Data;
use serde::{Deserialize, Serialize};

use super::managed_cluster_addon::RegistrationSecret;
use crate::{
    certificate::{
        CsrTemplate,
        csr::CertificateRequest,
        store::{SecretValues, value},
    },
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

/// The Secrets that are kept, each with the name of its add-on. Unreadable entries are left out.
pub(super) fn all(data: &Data) -> BTreeMap<RegistrationSecret, String> {
    let stored = data.keys().filter_map(|key| stored(data, key));
    stored.map(|stored| (stored.secret, stored.addon)).collect()
}

pub(super) fn get(data: &Data, secret: &RegistrationSecret) -> Option<StoredRegistration> {
    stored(data, &key(secret))
}

/// The pending request for this Secret, if it is one of `template`.
pub(super) fn request(
    data: &Data,
    secret: &RegistrationSecret,
    template: &CsrTemplate,
) -> Option<CertificateRequest> {
    let name = get(data, secret)?.csr?;
    let pem = str::from_utf8(data.get(&private_key(secret))?).ok()?.to_owned();
    CertificateRequest::of_key(pem.into(), template).filter(|request| request.name == name)
}

/// The values that store this Secret with its add-on and its pending request, or remove both.
pub(super) fn values(
    secret: &RegistrationSecret,
    registration: Option<(&str, Option<&CertificateRequest>)>,
) -> SecretValues {
    let request = registration.and_then(|(_, request)| request);
    let stored = registration.and_then(|(addon, _)| {
        let csr = request.map(|request| request.name.clone());
        let stored = StoredRegistration { addon: addon.to_owned(), secret: secret.clone(), csr };
        value(serde_json::to_vec(&stored).unwrap_or_default())
    });
    let private = request.and_then(|request| value(request.key.as_bytes()));
    [(key(secret), stored), (private_key(secret), private)].into()
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

fn stored(data: &Data, key: &str) -> Option<StoredRegistration> {
    let stored: StoredRegistration = serde_json::from_slice(data.get(key)?).ok()?;
    let RegistrationSecret { namespace, name, .. } = &stored.secret;
    let is_valid = valid_label(namespace) && valid_name(name) && self::key(&stored.secret) == key;
    is_valid.then_some(stored)
}

#[cfg(test)]
mod tests;
