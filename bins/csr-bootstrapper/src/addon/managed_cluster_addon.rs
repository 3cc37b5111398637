//! ManagedClusterAddOn of the hub, as far as its agent is concerned: pure.

use std::sync::Arc;

use apiclient::{
    reflector::Store,
    resource::{valid_label, valid_name},
};
use serde_json::Value;

use crate::{
    certificate::{csr::KUBE_API_SERVER_CLIENT, pkcs10::Subject},
    conditions::Condition,
};

const TOKEN_INFRASTRUCTURE: &str = "TokenInfrastructureReady";
/// The namespace of an add-on that names none (ocm `pkg/registration/spoke/addon/configuration.go`).
const INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";
const HOSTING_CLUSTER: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// A registration counts as so much more text: its credential costs memory, and room in the store.
const REGISTRATION_LENGTH: usize = 400;
/// No name in Kubernetes is longer.
const MAX_NAME: usize = 253;

/// The most add-ons that are kept: each costs memory, and a hub may list any number.
const MAX_ADDONS: usize = 500;
/// Nor may all their registrations weigh more: a few add-ons could fill the memory, and the store, otherwise.
const MAX_TOTAL_WEIGHT: usize = 256 << 10;

pub(crate) fn store() -> Store<Arc<AddOn>> {
    Store::new(MAX_ADDONS).weighing_at_most(MAX_TOTAL_WEIGHT, |addon| addon.weight)
}

/// An add-on of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOn {
    pub(super) name: String,
    /// `resourceVersion` of the object.
    pub(super) version: String,
    /// Its agent is on the management cluster, not on the spoke.
    pub(super) hosted: bool,
    /// The namespace of its agent, with the agent's Lease and Secrets.
    pub(super) namespace: String,
    /// The cluster that its agent runs on, if the add-on names one.
    pub(super) hosting_cluster: Option<String>,
    /// Somebody else reports its health.
    pub(super) customized: bool,
    /// It is about to be deleted: its agent may need its credentials to clean up.
    pub(super) terminating: bool,
    /// The credentials that its agent needs.
    pub(super) registrations: Vec<RegistrationConfig>,
    /// The memory that these cost, in bytes.
    pub(super) weight: usize,
    /// uid of its ServiceAccount on the hub, once the hub has made it.
    pub(super) service_account: Option<String>,
}

/// One entry of `status.registrations`: a credential that the add-on's agent needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistrationConfig {
    pub(super) signer: String,
    /// Parts that are empty have defaults.
    pub(super) subject: Subject,
}

impl AddOn {
    /// The content of `object`; `None` where a name cannot be one. Hosted add-ons are `apart` from others if the spoke
    /// is not the management cluster.
    pub(super) fn of(object: &Value, apart: bool) -> Option<Self> {
        let (status, metadata) = (&object["status"], &object["metadata"]);
        let hosting_cluster = text(&metadata["annotations"][HOSTING_CLUSTER]);
        let namespace = text(&status["namespace"])
            .or_else(|| text(&object["spec"]["installNamespace"]))
            .unwrap_or(INSTALL_NAMESPACE);
        let (name, version) = (text(&metadata["name"])?, text(&metadata["resourceVersion"])?);
        let registrations = status["registrations"].as_array().into_iter().flatten();
        let registrations: Vec<_> = registrations.map(RegistrationConfig::of).collect();
        let is_short = |text: &str| text.len() <= MAX_NAME;
        let is_valid = valid_label(namespace)
            && valid_name(name)
            && is_short(version)
            && hosting_cluster.is_none_or(is_short);
        is_valid.then(|| Self {
            name: name.to_owned(),
            version: version.to_owned(),
            hosted: apart && hosting_cluster.is_some(),
            namespace: namespace.to_owned(),
            hosting_cluster: hosting_cluster.map(str::to_owned),
            customized: status["healthCheck"]["mode"] == "Customized",
            terminating: !metadata["deletionTimestamp"].is_null(),
            weight: registrations.len() * REGISTRATION_LENGTH
                + status["registrations"].to_string().len(),
            registrations,
            service_account: Condition::of(object, TOKEN_INFRASTRUCTURE).and_then(service_account),
        })
    }

    /// Returns whether its agent needs a credential for the hub's API server.
    pub(super) fn has_kube_client(&self) -> bool {
        self.registrations.iter().any(|config| config.signer == KUBE_API_SERVER_CLIENT)
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// uid of the ServiceAccount in the message of condition TokenInfrastructureReady (ocm
/// `pkg/registration/register/token/token.go`, parseServiceAccountUIDFromMessage).
fn service_account(ready: Condition) -> Option<String> {
    let (_, rest) = ready.message.split_once("UID: ").filter(|_| ready.status == "True")?;
    let (uid, _) = rest.split_once(')')?;
    (1..=MAX_NAME).contains(&uid.len()).then(|| uid.to_owned())
}

impl RegistrationConfig {
    fn of(config: &Value) -> Self {
        let subject = &config["subject"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |field: &str| {
            let all = subject[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut texts: Vec<_> = all.map(str::to_owned).collect();
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        Self {
            signer: text(&config["signerName"]),
            subject: Subject {
                user: text(&subject["user"]),
                groups: texts("groups"),
                units: texts("organizationUnit"),
            },
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
