//! ManagedClusterAddOn of the hub, as far as its agent is concerned: pure.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::resource::{valid_label, valid_name};
use serde_json::Value;

use crate::{
    certificate::{KUBE_API_SERVER_CLIENT, Subject},
    conditions::Condition,
};

/// Type of the condition that says whether the add-on is available.
pub(super) const AVAILABLE: &str = "Available";
/// Types of the conditions about its credentials (ocm `pkg/registration/register/csr/csr.go`,
/// `register/token/token.go`).
pub(super) const ROTATED: &str = "ClusterCertificateRotated";
pub(super) const TOKEN_REFRESHED: &str = "TokenRefreshed";
const TOKEN_INFRASTRUCTURE: &str = "TokenInfrastructureReady";
/// The namespace of an add-on that names none (ocm `pkg/registration/spoke/addon/configuration.go`).
const INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";
const HOSTING_CLUSTER: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// A registration counts as so much more text: its credential costs memory, and room in the store.
const REGISTRATION_LENGTH: usize = 400;
/// An add-on whose hosting cluster is no longer named counts as hosted for this long: whoever replaces the object may put the
/// annotation back (open-cluster-management-io/ocm#1677).
const UNHOSTED_TIMEOUT: Duration = Duration::from_secs(5);
/// No name in Kubernetes is longer.
const MAX_NAME: usize = 253;

/// An add-on of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOn {
    /// The namespace of its agent, with the agent's Lease and Secrets.
    pub(super) namespace: AddOnNamespace,
    /// The cluster that its agent runs on, if that is not this one.
    pub(super) hosting_cluster: Option<String>,
    /// When it stops to count as hosted, as its annotation is gone.
    pub(super) hosted_until: Option<Instant>,
    /// Somebody else tells its health.
    pub(super) customized: bool,
    /// It is about to be deleted: its agent may need its credentials to clean up.
    pub(super) terminating: bool,
    /// The credentials that its agent needs.
    pub(super) registrations: Vec<RegistrationConfig>,
    /// `status.kubeClientDriver`: how this agent is said to get a credential for the hub's API server.
    pub(super) driver: String,
    /// Digests of the conditions that this agent writes, as they are on the hub.
    pub(super) conditions: BTreeMap<&'static str, u64>,
    /// uid of its ServiceAccount on the hub, or else what a token waits for.
    pub(super) service_account: Result<String, &'static str>,
}

/// A namespace of the spoke, or of the management cluster for agents that are hosted there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddOnNamespace {
    pub(super) hosted: bool,
    pub(super) name: String,
}

/// One entry of `status.registrations`: a credential that the add-on's agent needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistrationConfig {
    pub(super) signer: String,
    /// Parts that are empty have defaults.
    pub(super) subject: Subject,
}

impl AddOn {
    /// What `object` says; `None` where it names what cannot be a namespace or a cluster.
    pub(super) fn of<'a>(object: &'a Value) -> Option<Self> {
        let (status, metadata) = (&object["status"], &object["metadata"]);
        let set = |value: &'a Value| value.as_str().filter(|text| !text.is_empty());
        let hosting = set(&metadata["annotations"][HOSTING_CLUSTER]);
        let namespace =
            set(&status["namespace"]).or_else(|| set(&object["spec"]["installNamespace"]));
        let namespace = namespace.unwrap_or(INSTALL_NAMESPACE);
        let registrations = status["registrations"].as_array().into_iter().flatten();
        let condition = |kind| Some((kind, Condition::of(object, kind)?.digest()));
        let conditions = [AVAILABLE, ROTATED, TOKEN_REFRESHED].into_iter().filter_map(condition);
        let driver = set(&status["kubeClientDriver"]).unwrap_or_default();
        let valid = valid_label(namespace)
            && valid_name(metadata["name"].as_str()?)
            && hosting.is_none_or(|cluster| cluster.len() <= MAX_NAME);
        valid.then(|| Self {
            namespace: AddOnNamespace { hosted: hosting.is_some(), name: namespace.to_owned() },
            hosting_cluster: hosting.map(str::to_owned),
            hosted_until: None,
            customized: status["healthCheck"]["mode"] == "Customized",
            terminating: !metadata["deletionTimestamp"].is_null(),
            registrations: registrations.map(RegistrationConfig::of).collect(),
            driver: if driver.len() > MAX_NAME { "?" } else { driver }.to_owned(),
            conditions: conditions.collect(),
            service_account: service_account(Condition::of(object, TOKEN_INFRASTRUCTURE)),
        })
    }

    /// The add-on that was `before`, for a moment as a hosted one.
    pub(super) fn following(mut self, before: Option<&Self>, now: Instant) -> Self {
        let is_unhosted = |before: &&Self| before.namespace.hosted && !self.namespace.hosted;
        if let Some(before) = before.filter(is_unhosted) {
            let until = before.hosted_until.unwrap_or(now + UNHOSTED_TIMEOUT);
            if now < until {
                self.namespace.hosted = true;
                self.hosting_cluster.clone_from(&before.hosting_cluster);
                self.hosted_until = Some(until);
            }
        }
        self
    }

    /// The add-on as it counts at this time.
    pub(super) fn at(self: &Arc<Self>, now: Instant) -> Arc<Self> {
        let mut addon = self.clone();
        if self.hosted_until.is_some_and(|until| now >= until) {
            let unhosted = Arc::make_mut(&mut addon);
            (unhosted.namespace.hosted, unhosted.hosting_cluster) = (false, None);
            unhosted.hosted_until = None;
        }
        addon
    }

    /// The registration for the hub's API server.
    pub(super) fn kube_client(&self) -> Option<&RegistrationConfig> {
        self.registrations.iter().find(|config| config.signer == KUBE_API_SERVER_CLIENT)
    }

    /// Bytes of text that it holds, of which only those of the registrations are many.
    pub(super) fn length(&self) -> usize {
        self.registrations.iter().map(RegistrationConfig::length).sum()
    }
}

/// uid of the ServiceAccount in the message of condition TokenInfrastructureReady (ocm
/// `pkg/registration/register/token/token.go`, parseServiceAccountUIDFromMessage).
fn service_account(ready: Option<Condition>) -> Result<String, &'static str> {
    let ready = ready.filter(|ready| ready.status == "True");
    let message = ready.ok_or("the hub has not made its ServiceAccount yet")?.message;
    let uid = message.split_once("UID: ").and_then(|(_, rest)| rest.split_once(')'));
    let uid = uid.map(|(uid, _)| uid).filter(|uid| (1..=MAX_NAME).contains(&uid.len()));
    uid.map(str::to_owned).ok_or("the hub does not say which ServiceAccount is its")
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

    fn length(&self) -> usize {
        let Subject { user, groups, units } = &self.subject;
        let texts = [&self.signer, user].into_iter().chain(groups).chain(units);
        // An empty text costs something too.
        REGISTRATION_LENGTH + texts.map(|text| text.len() + size_of::<String>()).sum::<usize>()
    }
}

#[cfg(test)]
pub(super) mod tests;
