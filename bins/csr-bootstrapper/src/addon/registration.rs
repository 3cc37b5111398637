//! Registrations of add-ons: the credentials that their agents need on the hub, and the Secrets that these go into.

mod certificate;
mod controller;
mod entry;
mod plan;
mod secret;
mod status;
mod store;
mod token;
mod token_driver;

use std::time::Duration;

use apiclient::{
    error::Error,
    resource::{SECRETS, Target, valid_name},
};

use self::{certificate::CertificateRegistration, token_driver::TokenRegistration};
use super::managed_cluster_addon::{AddOn, AddOnNamespace, RegistrationConfig};
use crate::{
    agent::Agent,
    cached::CachedObject,
    certificate::{
        CsrTemplate, KUBE_API_SERVER_CLIENT, csr::CLUSTER_LABEL, csr_status::ADDON_LABEL,
        csr_watch::CsrWatch,
    },
    identity::AgentNames,
    settings::KubeClientDriver,
    state::HubSession,
};

pub(super) use self::{controller::run, store::RegistrationStore};

/// The Secret of a registration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegistrationSecret {
    pub(super) namespace: AddOnNamespace,
    pub(super) name: String,
}

impl RegistrationSecret {
    pub(super) fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace.name, &self.name)
    }

    /// `Secret ns/name`, for sentences.
    fn sentence_name(&self) -> String {
        format!("Secret {}/{}", self.namespace.name, self.name)
    }
}

/// A credential that an add-on's agent needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registration {
    addon: String,
    secret: RegistrationSecret,
    credential: Credential,
}

/// The kind of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Credential {
    Certificate {
        template: CsrTemplate,
        /// The default user before OCM 1.3, if the add-on names none: a certificate of that is renewed as it is.
        former_user: Option<String>,
    },
    /// A token of this add-on's ServiceAccount.
    Token { lifetime: u32 },
}

/// What the work on a registration needs.
struct Context<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    names: &'a AgentNames,
    store: &'a mut RegistrationStore,
    csrs: &'a mut CsrWatch,
}

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The same for a Secret whose namespace does not exist yet: it comes with the add-on's other objects.
const LONGEST_WAIT_FOR_NAMESPACE: Duration = Duration::from_secs(10);

/// The longest wait after this failure.
fn longest_wait(error: &Error) -> Duration {
    match error {
        Error::NotFound(_) => LONGEST_WAIT_FOR_NAMESPACE,
        _ => LONGEST_WAIT,
    }
}

/// The ServiceAccount on the hub of an add-on's agent that has a token.
fn service_account(addon: &str) -> String {
    format!("{addon}-agent")
}

/// The user of that.
fn service_account_user(cluster: &str, addon: &str) -> String {
    format!("system:serviceaccount:{cluster}:{}", service_account(addon))
}

/// The registrations of an add-on, one for each Secret: of two for one signer the first counts. Those without a valid
/// name are left out.
fn registrations(
    name: &str,
    addon: &AddOn,
    names: &AgentNames,
    driver: KubeClientDriver,
) -> Vec<Registration> {
    let mut all: Vec<Registration> = Vec::new();
    for config in addon.registrations.iter().flatten() {
        let is_kube_client = config.signer == KUBE_API_SERVER_CLIENT;
        let secret = match is_kube_client {
            true => format!("{name}-hub-kubeconfig"),
            false => format!("{name}-{}-client-cert", config.signer.replace('/', "-")),
        };
        let secret = RegistrationSecret { namespace: addon.namespace.clone(), name: secret };
        if !valid_name(&secret.name) || all.iter().any(|known| known.secret == secret) {
            continue;
        }
        let credential = match driver {
            KubeClientDriver::Token { lifetime } if is_kube_client => {
                Credential::Token { lifetime }
            }
            _ => certificate(name, config, names),
        };
        all.push(Registration { addon: name.to_owned(), secret, credential });
    }
    all
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

impl Credential {
    /// The template for the certificate that follows the one in this Secret, unless it is a token.
    fn template(&self, secret: &CachedObject) -> Option<CsrTemplate> {
        let Self::Certificate { template, former_user } = self else { return None };
        let mut template = template.clone();
        let former =
            former_user.as_ref().filter(|former| user_of(secret).as_ref() == Some(*former));
        template.subject.user = former.unwrap_or(&template.subject.user).clone();
        Some(template)
    }
}

/// The user of the certificate in a Secret.
fn user_of(secret: &CachedObject) -> Option<String> {
    let CachedObject::Object(secret) = secret else { return None };
    let data = kubeconfig::secret::data(secret).ok()?;
    let chain = apiclient::certificate::chain(data.get("tls.crt")?).ok()?;
    Some(chain.into_iter().next()?.common_name)
}

#[cfg(test)]
mod tests;
