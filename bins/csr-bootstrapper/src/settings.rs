//! Settings from the command line: the registration agent's flags and defaults, and this program's own.

mod table;
mod values;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use apiclient::{
    election::ElectionTiming,
    resource::{Resource, valid_label, valid_name},
};
use kubeconfig::{Env, own_namespace};
use sidecar::{diagnostics::HttpsSettings, flags::Flags, leadership};

use self::table::BOOTSTRAP_SECRET;
pub(crate) use self::{
    table::table,
    values::{BootstrapSource, KubeClientDriver},
};
use crate::{
    claim::{CLAIM_KINDS, ClaimRules},
    identity::{valid_agent, valid_cluster},
};

/// All settings of the process, validated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of all Secrets, Events and the election's Lease.
    pub(crate) namespace: String,
    /// One, or several in the order of preference.
    pub(crate) bootstraps: Vec<BootstrapSource>,
    /// With several hubs: the time without a heartbeat after which another one is selected.
    pub(crate) hub_connection_timeout: Option<Duration>,
    pub(crate) hub_secret: String,
    pub(crate) hub_directory: Option<PathBuf>,
    pub(crate) write_files: bool,
    pub(crate) cluster_name: Option<String>,
    pub(crate) agent_id: Option<String>,
    /// Kubeconfig of the cluster that joins; `None` for the pod's own cluster.
    pub(crate) spoke_kubeconfig: Option<PathBuf>,
    pub(crate) external_urls: Vec<String>,
    /// Annotations of the ManagedCluster. As in upstream, only keys of Open Cluster Management are kept.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The lifetime to request from the signer, in seconds.
    pub(crate) expiration: Option<u32>,
    pub(crate) healthcheck_period: Duration,
    pub(crate) addon_management: bool,
    pub(crate) addon_driver: KubeClientDriver,
    pub(crate) managed_namespaces: bool,
    pub(crate) report_capacity: bool,
    pub(crate) claim_kinds: Vec<&'static Resource>,
    pub(crate) claim_rules: ClaimRules,
    pub(crate) https: Option<HttpsSettings>,
    pub(crate) election: Option<ElectionTiming>,
    /// The time limit of `-once`, if set; zero means a single check.
    pub(crate) once: Option<Duration>,
}

/// The default namespace, without a flag, POD_NAMESPACE and a service account (ocm `pkg/common/options/agent.go:23`).
pub const NAMESPACE: &str = "open-cluster-management-agent";
/// The suffix of the Secret for pending requests, after the name of the credential's Secret.
const PENDING: &str = "-pending";

impl Settings {
    /// Validates flags and environment; an error names the flag.
    pub fn new(flags: &Flags) -> Result<Self, String> {
        Self::check(flags, own_namespace(flags.some("namespace"), &Env::process()))
    }

    fn check(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        values::check_registration_auth(flags.text("registration-auth"))?;
        let once = flags.once()?;
        let election = leadership::timing(flags)?;
        let enabled = values::feature_gates(flags)?;
        let several_hubs = enabled["MultipleHubs"];
        let path = |name| flags.some(name).map(PathBuf::from);
        let settings = Self {
            namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            bootstraps: values::bootstraps(flags, several_hubs)?,
            hub_connection_timeout: several_hubs
                .then(|| values::hub_connection_timeout(flags))
                .transpose()?,
            hub_secret: flags.required("hub-kubeconfig-secret")?,
            hub_directory: path("hub-kubeconfig-dir"),
            write_files: flags.switch("write-files") && once.is_none(),
            cluster_name: values::name(flags, "cluster-name", valid_cluster)?,
            agent_id: values::name(flags, "agent-id", valid_agent)?,
            spoke_kubeconfig: path("spoke-kubeconfig"),
            external_urls: values::external_urls(flags)?,
            annotations: values::annotations(flags)?,
            expiration: values::expiration(flags)?,
            healthcheck_period: flags.period("cluster-healthcheck-period")?,
            addon_management: enabled["AddonManagement"],
            addon_driver: values::addon_driver(flags)?,
            managed_namespaces: flags.switch("managed-namespaces"),
            report_capacity: flags.switch("report-capacity"),
            claim_kinds: CLAIM_KINDS.iter().filter(|it| enabled[&*it.kind]).collect(),
            claim_rules: values::claim_rules(flags)?,
            https: HttpsSettings::of(flags)?,
            // With `-once`, a caller waits for the exit, and two instances that request a certificate do no harm.
            election: (once.is_none() && !flags.switch("disable-leader-election"))
                .then_some(election),
            once,
        };
        settings.check_names()?;
        Ok(settings)
    }

    pub(crate) fn pending_secret(&self) -> String {
        format!("{}{PENDING}", self.hub_secret)
    }

    /// Returns whether the program itself writes this Secret of its own namespace.
    fn writes_secret(&self, name: &str) -> bool {
        name == self.hub_secret || name == self.pending_secret()
    }

    /// Returns whether a Secret of this name in the program's namespace is the program's own. That includes the Secret
    /// of the bootstrap kubeconfig, which may be mounted as a file.
    pub(crate) fn has_own_secret(&self, name: &str) -> bool {
        name == BOOTSTRAP_SECRET
            || self.writes_secret(name)
            || self.bootstraps.iter().any(|source| source.name() == name)
    }

    fn check_names(&self) -> Result<(), String> {
        if self.write_files && self.hub_directory.is_none() {
            return Err("-write-files needs -hub-kubeconfig-dir".to_owned());
        }
        if !valid_label(&self.namespace) {
            return Err(format!("the namespace {:?} is not a valid name", self.namespace));
        }
        if !valid_name(&self.pending_secret()) {
            return Err(format!(
                "-hub-kubeconfig-secret {:?} is not a valid object name that leaves room for {PENDING}",
                self.hub_secret
            ));
        }
        let names = self.bootstraps.iter().map(BootstrapSource::name);
        for name in names.filter(|name| !name.is_empty()) {
            let flag = format!("-bootstrap-kubeconfig-secret {name:?}");
            if !valid_name(name) {
                return Err(format!("{flag} is not a valid object name"));
            }
            if self.writes_secret(name) {
                return Err(format!("{flag} is a Secret that this program writes"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
