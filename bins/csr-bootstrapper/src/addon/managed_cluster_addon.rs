//! ManagedClusterAddOn of the hub: where its agent runs, and which credentials the agent needs. No I/O.

use std::{sync::Arc, time::Duration};

use apiclient::{
    reflector::Store,
    resource::{Resource, SECRETS, Target, valid_label, valid_name},
};
use serde_json::Value;

use crate::{
    certificate::{
        csr::{CLUSTER_LABEL, CsrTemplate, KUBE_API_SERVER_CLIENT},
        csr_status::ADDON_LABEL,
        pkcs10::Subject,
    },
    conditions::Condition,
    identity::AgentNames,
    settings::KubeClientDriver,
};

/// `addon.open-cluster-management.io/v1alpha1` ManagedClusterAddOn: newer hubs serve it beside v1beta1.
pub(super) static MANAGED_CLUSTER_ADDONS: Resource = Resource::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "managedclusteraddons",
    "ManagedClusterAddOn",
);
/// The interval of reads of Leases and Secrets: upstream's AddOnLeaseControllerSyncInterval. A watch would need the
/// permission to list all Secrets of a namespace.
pub(super) const READ_INTERVAL: Duration = Duration::from_secs(30);

const TOKEN_INFRASTRUCTURE: &str = "TokenInfrastructureReady";
/// The default namespace of an add-on (ocm `pkg/registration/spoke/addon/configuration.go`).
const INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";
const HOSTING_CLUSTER: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// The additional weight of a registration, in bytes: its credential costs memory, and space in the store.
const REGISTRATION_LENGTH: usize = 400;
/// Maximum length of a name in Kubernetes.
const MAX_NAME: usize = 253;
/// Maximum length of a Secret's name: its key in the store also holds place, namespace and `tls.key`.
pub(super) const MAX_SECRET_NAME: usize = 174;

/// Maximum number of add-ons: each costs memory, and a hub may list any number.
const MAX_ADDONS: usize = 500;
/// Maximum weight of all registrations, in bytes: otherwise, a few add-ons could fill the memory and the store.
const MAX_TOTAL_WEIGHT: usize = 256 << 10;

pub(crate) fn store() -> Store<Arc<AddOn>> {
    Store::new(MAX_ADDONS)
        .weighing_at_most(MAX_TOTAL_WEIGHT, |addon: &Arc<AddOn>| addon.weight)
        .warning()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOn {
    pub(super) name: String,
    /// `resourceVersion` of the object.
    pub(super) version: String,
    /// Whether its agent is on the management cluster, not on the spoke.
    pub(super) hosted: bool,
    /// The namespace of its agent, with the agent's Lease and Secrets.
    pub(super) namespace: String,
    /// The cluster on which its agent runs, if the add-on names one.
    pub(super) hosting_cluster: Option<String>,
    /// Whether another component reports its health.
    pub(super) customized: bool,
    /// Whether it is being deleted: its agent may need its credentials to clean up.
    pub(super) terminating: bool,
    /// The credentials that its agent needs, and their Secrets.
    pub(super) registrations: Vec<(RegistrationSecret, Arc<Registration>)>,
    /// The weight of these registrations, in bytes.
    pub(super) weight: usize,
    /// How its agent gets a credential for the hub's API server, if it needs one.
    pub(super) driver: Option<KubeClientDriver>,
}

/// The Secret of a registration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegistrationSecret {
    /// Whether it is on the management cluster, not on the spoke.
    pub(super) hosted: bool,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl RegistrationSecret {
    pub(super) fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace, &self.name)
    }

    /// Returns `Secret ns/name`, for sentences.
    pub(super) fn sentence_name(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.name)
    }
}

/// A credential that an add-on's agent needs: one entry of `status.registrations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(super) addon: String,
    pub(super) credential: Credential,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    Certificate {
        template: CsrTemplate,
        /// The default user before OCM 1.3, if the add-on names no user: a certificate with that user keeps it.
        former_user: Option<String>,
    },
    /// A token of the add-on's ServiceAccount.
    Token {
        lifetime: u32,
        /// The ServiceAccount's uid, once the hub has created it.
        account: Option<String>,
    },
}

impl AddOn {
    /// Parses an add-on; `None` if a name is invalid. `apart` means that the spoke is not the management cluster.
    pub(super) fn of(
        object: &Value,
        apart: bool,
        (names, driver): (&AgentNames, KubeClientDriver),
    ) -> Option<Self> {
        let (status, metadata) = (&object["status"], &object["metadata"]);
        let hosting_cluster = text(&metadata["annotations"][HOSTING_CLUSTER]);
        let namespace = text(&status["namespace"])
            .or_else(|| text(&object["spec"]["installNamespace"]))
            .unwrap_or(INSTALL_NAMESPACE);
        let (name, version) = (text(&metadata["name"])?, text(&metadata["resourceVersion"])?);
        let is_short = |text: &str| text.len() <= MAX_NAME;
        let is_valid = valid_label(namespace)
            && valid_name(name)
            && is_short(version)
            && hosting_cluster.is_none_or(is_short);
        if !is_valid {
            return None;
        }
        let hosted = apart && hosting_cluster.is_some();
        let account = Condition::of(object, TOKEN_INFRASTRUCTURE).and_then(service_account_uid);
        let configs = status["registrations"].as_array().map_or(&[][..], Vec::as_slice);
        let registration = |config: &Value| {
            let (secret, credential) = credential(name, config, (names, driver), account.as_ref())?;
            let (addon, namespace) = (name.to_owned(), namespace.to_owned());
            let secret = RegistrationSecret { hosted, namespace, name: secret };
            Some((secret, Arc::new(Registration { addon, credential })))
        };
        let has_kube_client =
            configs.iter().any(|config| config["signerName"] == KUBE_API_SERVER_CLIENT);
        Some(Self {
            name: name.to_owned(),
            version: version.to_owned(),
            hosted,
            namespace: namespace.to_owned(),
            hosting_cluster: hosting_cluster.map(str::to_owned),
            customized: status["healthCheck"]["mode"] == "Customized",
            terminating: !metadata["deletionTimestamp"].is_null(),
            registrations: configs.iter().filter_map(registration).collect(),
            weight: configs.len() * REGISTRATION_LENGTH + status["registrations"].to_string().len(),
            driver: has_kube_client.then_some(driver),
        })
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Returns the uid of the ServiceAccount in the message of condition TokenInfrastructureReady (ocm
/// `pkg/registration/register/token/token.go`, parseServiceAccountUIDFromMessage).
fn service_account_uid(ready: Condition) -> Option<String> {
    let (_, rest) = ready.message.split_once("UID: ").filter(|_| ready.status == "True")?;
    let (uid, _) = rest.split_once(')')?;
    (1..=MAX_NAME).contains(&uid.len()).then(|| uid.to_owned())
}

/// Returns the Secret's name and the credential for an entry of `status.registrations`; `None` if it is invalid.
fn credential(
    addon: &str,
    config: &Value,
    (names, driver): (&AgentNames, KubeClientDriver),
    account: Option<&String>,
) -> Option<(String, Credential)> {
    let signer = config["signerName"].as_str().unwrap_or_default();
    let is_kube_client = signer == KUBE_API_SERVER_CLIENT;
    let name = match is_kube_client {
        true => format!("{addon}-hub-kubeconfig"),
        false => format!("{addon}-{}-client-cert", signer.replace('/', "-")),
    };
    let credential = match driver {
        KubeClientDriver::Token { lifetime } if is_kube_client => {
            Credential::Token { lifetime, account: account.cloned() }
        }
        _ => certificate(addon, signer, subject(&config["subject"]), names),
    };
    (valid_name(&name) && name.len() <= MAX_SECRET_NAME).then_some((name, credential))
}

/// Returns the subject of a registration; `certificate` sets defaults for its empty parts.
fn subject(subject: &Value) -> Subject {
    let texts = |field: &str| {
        let all = subject[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut texts: Vec<_> = all.map(str::to_owned).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    };
    let user = subject["user"].as_str().unwrap_or_default().to_owned();
    Subject { user, groups: texts("groups"), units: texts("organizationUnit") }
}

/// Returns the certificate of an add-on, with defaults for the empty parts of the subject (ocm v1.3.1
/// `pkg/registration/register/csr/csr.go:657-663`; before, the last part of the user was the agent's name).
fn certificate(
    addon: &str,
    signer: &str,
    mut subject: Subject,
    AgentNames { cluster, agent }: &AgentNames,
) -> Credential {
    let mut former_user = None;
    let group = format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}");
    // The user of the ServiceAccount is left from a time when the agent had a token.
    if subject.user.is_empty() || subject.user == service_account_user(cluster, addon) {
        subject.user = format!("{group}:agent:{addon}");
        former_user = Some(format!("{group}:agent:{agent}"));
    }
    if subject.groups.is_empty() && signer == KUBE_API_SERVER_CLIENT {
        subject.groups.push(group);
    }
    let template = CsrTemplate {
        subject,
        dns_names: vec![format!("{addon}.addon.open-cluster-management.io")],
        signer: signer.to_owned(),
        name_prefix: format!("addon-{cluster}-{addon}-"),
        labels: [(CLUSTER_LABEL, cluster.clone()), (ADDON_LABEL, addon.to_owned())].into(),
    };
    Credential::Certificate { template, former_user }
}

/// Returns the name of the ServiceAccount on the hub for the token of an add-on's agent.
pub(super) fn service_account(addon: &str) -> String {
    format!("{addon}-agent")
}

/// Returns the user of that ServiceAccount.
pub(super) fn service_account_user(cluster: &str, addon: &str) -> String {
    format!("system:serviceaccount:{cluster}:{}", service_account(addon))
}

#[cfg(test)]
pub(super) mod tests;
