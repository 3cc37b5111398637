//! Registrations of add-ons: the credentials that their agents need on the hub, and the Secrets that these go into.
//! Which are desired is decided here, without I/O.

mod certificate;
mod keeper;
mod store;
mod token;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use apiclient::resource::{SECRETS, Target, valid_name};

use super::managed_cluster_addon::{AddOn, AddOnNamespace, RegistrationConfig};
use crate::{
    agent::Agent,
    certificate::{
        CsrTemplate, KUBE_API_SERVER_CLIENT, csr::CLUSTER_LABEL, csr_status::ADDON_LABEL,
    },
    identity::AgentNames,
    settings::KubeClientDriver,
    state::HubSession,
};

pub(super) use self::{keeper::Keeper, store::RegistrationStore};

/// The Secret of a registration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RegistrationSecret {
    pub(super) namespace: AddOnNamespace,
    pub(super) name: String,
}

impl RegistrationSecret {
    fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace.name, &self.name)
    }

    /// `Secret ns/name`, for sentences.
    fn sentence_name(&self) -> String {
        format!("Secret {}/{}", self.namespace.name, self.name)
    }

    /// The Secret where it is: where the spoke is the management cluster, that of a hosted add-on is at the same place as
    /// that of any other.
    fn placed(mut self, apart: bool) -> Self {
        self.namespace.hosted &= apart;
        self
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
    /// A token of this add-on's ServiceAccount.
    Token {
        lifetime: u32,
        /// Its uid, or else what the token waits for.
        account: Result<String, &'static str>,
    },
}

/// What the work on add-ons needs.
#[derive(Clone, Copy)]
pub(super) struct AddOnContext<'a> {
    pub(super) agent: &'a Agent,
    pub(super) session: &'a HubSession,
    pub(super) store: &'a Mutex<RegistrationStore>,
}

/// What is known at one moment.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// The add-ons that can be read, by name.
    pub(super) addons: &'a BTreeMap<String, Arc<AddOn>>,
    /// Returns whether the add-on is gone from the hub for certain.
    pub(super) is_gone: &'a dyn Fn(&str) -> bool,
    /// The Secrets that are kept, each with its add-on.
    pub(super) stored: &'a [(RegistrationSecret, String)],
    pub(super) names: &'a AgentNames,
    pub(super) driver: KubeClientDriver,
    /// The spoke is another cluster than the management cluster.
    pub(super) apart: bool,
}

/// The desired registrations of all add-ons by their Secrets; `None` removes an obsolete Secret.
pub(super) fn desired(inputs: &Inputs<'_>) -> BTreeMap<RegistrationSecret, Option<Registration>> {
    let Inputs { addons, stored, apart, .. } = *inputs;
    let named = addons.iter().map(|(name, addon)| (name, inputs.registrations(name, addon)));
    let named: BTreeMap<_, _> = named.collect();
    let kept: BTreeSet<_> = stored.iter().map(|(it, _)| it.clone().placed(apart)).collect();
    // The hub certainly no longer has the add-on, or the add-on no longer names the Secret.
    let is_obsolete = |(secret, name): &&(RegistrationSecret, String)| match addons.get(name) {
        Some(addon) => {
            !addon.terminating && !named[name].contains_key(&secret.clone().placed(apart))
        }
        None => (inputs.is_gone)(name),
    };
    let obsolete: Vec<_> = stored.iter().filter(is_obsolete).collect();
    // An add-on that is about to be deleted gets no new ones: its agent may still need those that it has.
    let wanted = named.into_iter().flat_map(|(name, all)| {
        let (terminating, kept) = (addons[name].terminating, &kept);
        all.into_iter().filter(move |(secret, _)| !terminating || kept.contains(secret))
    });
    let mut desired: BTreeMap<_, _> =
        wanted.map(|(secret, registration)| (secret, Some(registration))).collect();
    for (secret, _) in obsolete {
        if !desired.contains_key(&secret.clone().placed(apart)) {
            desired.insert(secret.clone(), None);
        }
    }
    desired
}

impl Inputs<'_> {
    /// The registrations of an add-on, one for each Secret: of two for one signer the first counts. Those without a valid
    /// name are left out.
    fn registrations(
        &self,
        name: &str,
        addon: &AddOn,
    ) -> BTreeMap<RegistrationSecret, Registration> {
        let mut all = BTreeMap::new();
        for config in &addon.registrations {
            let is_kube_client = config.signer == KUBE_API_SERVER_CLIENT;
            let secret = match is_kube_client {
                true => format!("{name}-hub-kubeconfig"),
                false => format!("{name}-{}-client-cert", config.signer.replace('/', "-")),
            };
            let secret = RegistrationSecret { namespace: addon.namespace.clone(), name: secret };
            let secret = secret.placed(self.apart);
            if !valid_name(&secret.name) || all.contains_key(&secret) {
                continue;
            }
            let credential = match self.driver {
                KubeClientDriver::Token { lifetime } if is_kube_client => {
                    Credential::Token { lifetime, account: addon.service_account.clone() }
                }
                _ => certificate(name, config, self.names),
            };
            all.insert(secret, Registration { addon: name.to_owned(), credential });
        }
        all
    }
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
    let mut subject = config.subject.clone();
    if subject.user == service_account_user(cluster, addon) {
        // Left from the time when its agent had a token.
        subject.user.clear();
    }
    let group = format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}");
    let former_user = subject.user.is_empty().then(|| format!("{group}:agent:{agent}"));
    if subject.user.is_empty() {
        subject.user = format!("{group}:agent:{addon}");
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
