//! A registration's Secret during one step: reads and writes that keep what others own, and its entry in the store.
//!
//! The store has each Secret with its add-on and its pending request. It outlives the process: each request is
//! created once, and a Secret is deleted even if its add-on disappears between two processes.

use std::collections::BTreeMap;

use apiclient::{
    client::{Client, Preconditions, Propagation},
    error::{Error, Result, optional},
    log_object,
    resource::{valid_label, valid_name},
};
use kubeconfig::secret::{self, Data};
use log::Level;
use serde_json::{Map, Value};

use super::managed_cluster_addon::RegistrationSecret;
use crate::{
    agent::Agent,
    certificate::{
        csr::{CertificateRequest, CsrTemplate},
        io::{RequestStore, SecretValues, save, value},
    },
    identity::{AGENT_NAME, CLUSTER_NAME, said},
    state::HubSession,
};

/// The type of a Secret with any content.
const OPAQUE: &str = "Opaque";
/// Key of a token in the Secret, and its file next to the kubeconfig.
pub(super) const TOKEN: &str = "token";
/// Maximum size of the store for another registration, in bytes: the cluster's own request must fit into it, however
/// often a hub renames its add-ons while their Secrets cannot be deleted.
const MAX_STORED: usize = 512 << 10;
/// The places of Secrets, in the keys of the store.
const HOSTED: &str = "hosted";
const SPOKE: &str = "spoke";
const KEYS: [&str; 6] = ["kubeconfig", "tls.crt", "tls.key", TOKEN, CLUSTER_NAME, AGENT_NAME];

/// The Secret of one registration during one step: its name, and the parts of the program that the step needs.
pub(super) struct SecretContext<'a> {
    pub(super) agent: &'a Agent,
    pub(super) session: &'a HubSession,
    /// The store of the Secrets of all registrations.
    pub(super) registrations: &'a mut RequestStore,
    pub(super) name: &'a RegistrationSecret,
}

impl SecretContext<'_> {
    fn client(&self) -> &Client {
        self.agent.cluster_of_addons(self.name.hosted)
    }

    pub(super) fn read(&self) -> Result<Option<Value>> {
        optional(self.client().get(&self.name.target()))
    }

    /// Saves `values` and the cluster's name with a single write, unless the Secret has changed since it was `seen`: it
    /// may belong to somebody else by now. The next step reads it again.
    pub(super) fn save(&self, seen: Option<&Value>, mut values: SecretValues) -> Result<()> {
        values.insert(CLUSTER_NAME.to_owned(), value(&*self.session.names.cluster));
        save(self.client(), &self.name.target(), seen, &values).map(drop)
    }

    /// Deletes the Secret, which no add-on needs any more, and then its name from the store.
    pub(super) fn remove(&mut self) -> Result<()> {
        let (secret, target) = (self.read()?, self.name.target());
        // Nothing in an empty Secret is ours.
        let is_empty = |secret: &Value| secret::data(secret).is_ok_and(|data| data.is_empty());
        if let Some(secret) = secret.filter(|secret| !is_empty(secret)) {
            match self.conflict(Some(&secret)) {
                Some(why) => log_object!(Level::Warn, target; "keeping the Secret: it {why}"),
                None => {
                    self.delete(&secret)?;
                    log_object!(Level::Info, target; "the credential of an add-on was deleted");
                }
            }
        }
        self.registrations.read()?;
        self.store(None)
    }

    /// Deletes the Secret, unless it has changed since the read. If it has other keys, removes only the credential.
    fn delete(&self, secret: &Value) -> Result<()> {
        let (client, target) = (self.client(), self.name.target());
        let mut keys = secret["data"].as_object().into_iter().flat_map(Map::keys);
        if keys.any(|key| !KEYS.contains(&key.as_str())) {
            let removed = KEYS.map(|key| (key.to_owned(), None)).into();
            return save(client, &target, Some(secret), &removed).map(drop);
        }
        let text = |field: &str| secret["metadata"][field].as_str().map(str::to_owned);
        let guard = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
        optional(client.delete(&target, Propagation::Background, &guard)).map(drop)
    }

    /// Returns why the Secret must not be written or deleted, if so, as the predicate of a sentence about it: a Secret
    /// with data must name this cluster in `cluster-name`.
    pub(super) fn conflict(&self, secret: Option<&Value>) -> Option<&'static str> {
        let Self { agent, session, name, .. } = self;
        let is_managements = name.hosted || agent.other_spoke.is_none();
        let is_near = is_managements && name.namespace == agent.settings.namespace;
        if is_near && agent.settings.has_own_secret(&name.name) {
            return Some("is one of csr-bootstrapper's own");
        }
        conflict_of(secret?, &session.names.cluster)
    }

    /// Returns whether the Secret is stored for `addon`, and has a pending request only if it `may` have one.
    pub(super) fn is_stored(&mut self, addon: &str, may: bool) -> Result<bool> {
        let data = self.registrations.read()?;
        let is_of_addon = data.get(&key(self.name)).is_some_and(|it| **it == *addon.as_bytes());
        Ok(is_of_addon && (may || !data.contains_key(&private_key(self.name))))
    }

    /// Stores the Secret with its add-on and its pending request, or removes both.
    pub(super) fn store(
        &mut self,
        registration: Option<(&str, Option<&CertificateRequest>)>,
    ) -> Result<()> {
        let stored = self.registrations.read()?.iter();
        let size: usize = stored.map(|(key, value)| key.len() + value.len()).sum();
        if registration.is_some() && size > MAX_STORED {
            let name = self.registrations.target();
            return Err(Error::TooLarge(format!("{name} has no room for another add-on's Secret")));
        }
        self.registrations.write(&values(self.name, registration))
    }
}

/// Returns the reason of [`SecretContext::conflict`] for a Secret that is not the program's own.
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

/// Returns the kept Secrets, each with the name of its add-on. Invalid entries are omitted.
pub(super) fn all(data: &Data) -> BTreeMap<RegistrationSecret, String> {
    let stored = data.iter().filter_map(|(key, addon)| {
        Some((secret_of(key)?, str::from_utf8(addon).ok().filter(|it| valid_name(it))?.to_owned()))
    });
    stored.collect()
}

/// Returns the pending request for a Secret: its stored key, for `template`.
pub(super) fn request(
    data: &Data,
    secret: &RegistrationSecret,
    template: &CsrTemplate,
) -> Option<CertificateRequest> {
    let pem = str::from_utf8(data.get(&private_key(secret))?).ok()?.to_owned();
    CertificateRequest::of_key(pem.into(), template)
}

fn values(
    secret: &RegistrationSecret,
    registration: Option<(&str, Option<&CertificateRequest>)>,
) -> SecretValues {
    let (addon, request) = registration.unzip();
    let private = request.flatten().and_then(|request| value(request.key.as_bytes()));
    [(key(secret), addon.and_then(value)), (private_key(secret), private)].into()
}

/// Returns the key of a Secret in the store, whose value is the add-on. Names contain no `_`.
fn key(secret: &RegistrationSecret) -> String {
    let place = if secret.hosted { HOSTED } else { SPOKE };
    format!("{place}_{}_{}", secret.namespace, secret.name)
}

/// Returns the key in the store for the private key of the pending request.
fn private_key(secret: &RegistrationSecret) -> String {
    key(secret) + "_tls.key"
}

fn secret_of(key: &str) -> Option<RegistrationSecret> {
    let parts: Vec<_> = key.split('_').collect();
    let [place @ (HOSTED | SPOKE), namespace, name] = parts[..] else { return None };
    let secret = RegistrationSecret {
        hosted: place == HOSTED,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    (valid_label(namespace) && valid_name(name)).then_some(secret)
}

#[cfg(test)]
pub(super) mod tests;
