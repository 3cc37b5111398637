//! Registrations of add-ons: the credentials that their agents need on the hub, and the Secrets that these go into.
//! Which are desired is decided here, without I/O.

mod certificate;
mod secret;
mod store;
mod token;

use std::collections::BTreeMap;

use apiclient::resource::{SECRETS, Target, valid_name};
use serde::{Deserialize, Serialize};

use super::{
    AddOns,
    managed_cluster_addon::{AddOn, RegistrationConfig},
};
use crate::{
    agent::Agent,
    certificate::{
        CsrTemplate, KUBE_API_SERVER_CLIENT, csr::CLUSTER_LABEL, csr_status::ADDON_LABEL,
        store::RequestStore,
    },
    identity::AgentNames,
    settings::KubeClientDriver,
    state::HubSession,
};

pub(super) use self::{secret::SecretController, store::all as stored};

/// The Secret of a registration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct RegistrationSecret {
    /// It is on the management cluster, not on the spoke.
    pub(super) hosted: bool,
    namespace: String,
    name: String,
}

impl RegistrationSecret {
    fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace, &self.name)
    }

    /// `Secret ns/name`, for sentences.
    fn sentence_name(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.name)
    }
}

/// A credential that an add-on's agent needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    addon: String,
    credential: Credential,
}

/// The kind of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Credential {
    Certificate {
        template: CsrTemplate,
        /// The default user before OCM 1.3, if the add-on names none: a certificate of that keeps its user at renewal.
        former_user: Option<String>,
    },
    /// A token of the add-on's ServiceAccount.
    Token {
        lifetime: u32,
        /// Its uid, once the hub has made it.
        account: Option<String>,
    },
}

/// The parts of the program that the work on add-ons needs.
pub(super) struct AddOnContext<'a> {
    pub(super) agent: &'a Agent,
    pub(super) session: &'a HubSession,
    pub(super) store: &'a mut RequestStore,
}

/// The desired registrations of all `addons` by their Secrets. `None` deletes a Secret of those in `stored`, each with
/// its add-on: the add-on `is_gone` from the hub for certain, or no longer names the Secret.
pub(super) fn desired(
    addons: &AddOns,
    stored: &BTreeMap<RegistrationSecret, String>,
    is_gone: impl Fn(&str) -> bool,
    settings: (&AgentNames, KubeClientDriver),
) -> BTreeMap<RegistrationSecret, Option<Registration>> {
    let mut desired = BTreeMap::new();
    for addon in addons.values() {
        for config in &addon.registrations {
            let Some((secret, registration)) = registration(addon, config, settings) else {
                continue;
            };
            // An add-on that is about to be deleted gets no new ones: its agent may still need those that it has.
            if !addon.terminating || stored.contains_key(&secret) {
                // Of two for one Secret the first counts.
                desired.entry(secret).or_insert(Some(registration));
            }
        }
    }
    for (secret, name) in stored {
        let is_obsolete = addons.get(name).map_or_else(|| is_gone(name), |it| !it.terminating);
        if is_obsolete {
            desired.entry(secret.clone()).or_insert(None);
        }
    }
    desired
}

/// The Secret and the credential for one of an add-on's registrations; `None` without a valid name.
fn registration(
    addon: &AddOn,
    config: &RegistrationConfig,
    (names, driver): (&AgentNames, KubeClientDriver),
) -> Option<(RegistrationSecret, Registration)> {
    let is_kube_client = config.signer == KUBE_API_SERVER_CLIENT;
    let name = match is_kube_client {
        true => format!("{}-hub-kubeconfig", addon.name),
        false => format!("{}-{}-client-cert", addon.name, config.signer.replace('/', "-")),
    };
    let credential = match driver {
        KubeClientDriver::Token { lifetime } if is_kube_client => {
            Credential::Token { lifetime, account: addon.service_account.clone() }
        }
        _ => certificate(&addon.name, config, names),
    };
    let (hosted, namespace) = (addon.hosted, addon.namespace.clone());
    let registration = Registration { addon: addon.name.clone(), credential };
    valid_name(&name).then_some((RegistrationSecret { hosted, namespace, name }, registration))
}

/// The ServiceAccount on the hub of an add-on's agent that has a token.
fn service_account(addon: &str) -> String {
    format!("{addon}-agent")
}

/// The user of that.
pub(super) fn service_account_user(cluster: &str, addon: &str) -> String {
    format!("system:serviceaccount:{cluster}:{}", service_account(addon))
}

/// The certificate of an add-on, with the parts of the subject that the add-on leaves open (ocm v1.3.1
/// `pkg/registration/register/csr/csr.go:657-663`; before, the last part of the user was the agent's name).
fn certificate(addon: &str, config: &RegistrationConfig, names: &AgentNames) -> Credential {
    let AgentNames { cluster, agent } = names;
    let (mut subject, mut former_user) = (config.subject.clone(), None);
    let group = format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}");
    // Its ServiceAccount is left from the time when its agent had a token.
    if subject.user.is_empty() || subject.user == service_account_user(cluster, addon) {
        subject.user = format!("{group}:agent:{addon}");
        former_user = Some(format!("{group}:agent:{agent}"));
    }
    if subject.groups.is_empty() && config.signer == KUBE_API_SERVER_CLIENT {
        subject.groups.push(group);
    }
    let template = CsrTemplate {
        subject,
        dns_names: vec![format!("{addon}.addon.open-cluster-management.io")],
        signer: config.signer.clone(),
        name_prefix: format!("addon-{cluster}-{addon}-"),
        labels: vec![(CLUSTER_LABEL, cluster.clone()), (ADDON_LABEL, addon.to_owned())],
    };
    Credential::Certificate { template, former_user }
}

#[cfg(test)]
mod tests;
