//! Command line: the registration agent's flags and defaults, and this program's own.

mod table;
mod values;

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use apiclient::{
    election,
    resource::{valid_label, valid_name},
};
use kubeconfig::{Env, Reach, own_namespace};
use sidecar::flags::Flags;

pub(crate) use self::table::table;
use self::{
    table::{BOOTSTRAP_SECRET, IGNORED, REFUSED},
    values::ANNOTATIONS,
};
use crate::{
    claim::{ClaimKind, ClaimRules},
    https::HttpsSettings,
};

/// How agents of add-ons get their credential for the hub's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KubeClientDriver {
    /// A certificate by CSR.
    Csr,
    /// A token of a ServiceAccount on the hub, for so many seconds.
    Token { lifetime: u32 },
}

impl KubeClientDriver {
    /// As `status.kubeClientDriver` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csr => "csr",
            Self::Token { .. } => "token",
        }
    }
}

/// All settings of the process, complete and valid.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program's namespace: of all Secrets, Events and the election's Lease.
    pub(crate) namespace: String,
    /// The sources of the bootstrap kubeconfigs: one, or several in the order of preference.
    pub(crate) bootstraps: Vec<BootstrapSource>,
    /// The time without a heartbeat after which a hub is given up, if one of several hubs is selected.
    pub(crate) hub_connection_timeout: Option<Duration>,
    /// The Secret for the hub's credential.
    pub(crate) hub_secret: String,
    /// The directory with the Secret's files, if readiness includes them.
    pub(crate) hub_directory: Option<PathBuf>,
    /// Whether this program writes these files.
    pub(crate) write_files: bool,
    pub(crate) cluster_name: Option<String>,
    pub(crate) agent_id: Option<String>,
    /// The files that a kubeconfig of the hub or the spoke may name.
    pub(crate) reach: Reach,
    /// Kubeconfig of the cluster whose health is reported, if it is not the local one.
    pub(crate) spoke_kubeconfig: Option<PathBuf>,
    /// https URLs of the spoke's API server.
    pub(crate) external_urls: Vec<String>,
    /// Annotations for the ManagedCluster; all keys are Open Cluster Management's.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The other keys: dropped as in upstream, and logged once there is a log.
    pub(crate) dropped_annotations: Vec<String>,
    /// The flags that were given and have no effect, each with the reason.
    pub(crate) ignored_flags: Vec<(&'static str, &'static str)>,
    /// The lifetime to request from the signer, in seconds.
    pub(crate) expiration: Option<u32>,
    pub(crate) healthcheck_period: Duration,
    /// Whether the availability of add-ons is reported.
    pub(crate) addon_management: bool,
    /// How agents of add-ons get their credential for the hub's API server.
    pub(crate) addon_driver: KubeClientDriver,
    /// Whether namespaces are labelled for the hub.
    pub(crate) managed_namespaces: bool,
    /// Whether the resources of the cluster's nodes are reported.
    pub(crate) report_capacity: bool,
    /// The kinds of claims that are reported.
    pub(crate) claim_kinds: Vec<ClaimKind>,
    /// The choice of claims that are reported.
    pub(crate) claim_rules: ClaimRules,
    /// The endpoint by HTTPS, if there is one.
    pub(crate) https: Option<HttpsSettings>,
    /// The times of the leader election, if there is one.
    pub(crate) election: Option<election::ElectionTiming>,
    /// The time limit, if the credential is obtained once and not kept; zero is a single check.
    pub(crate) once: Option<Duration>,
}

/// The source of the bootstrap kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapSource {
    File(PathBuf),
    /// Key `kubeconfig` of a Secret of this name in the program's namespace.
    Secret(String),
}

impl BootstrapSource {
    /// The Secret's name; empty for a file.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::File(_) => "",
            Self::Secret(name) => name,
        }
    }
}

/// As the subject of a sentence.
impl fmt::Display for BootstrapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "bootstrap kubeconfig {}", path.display()),
            Self::Secret(name) => write!(f, "bootstrap Secret {name}"),
        }
    }
}

/// The namespace without a flag, POD_NAMESPACE and a service account (ocm
/// `pkg/common/options/agent.go:23`).
pub const NAMESPACE: &str = "open-cluster-management-agent";
/// Suffix of the Secret for a pending request, after the name of the credential's.
const PENDING: &str = "-pending";
/// Suffix of the Secret for the registrations of add-ons.
const REGISTRATIONS: &str = "-addons";

impl Settings {
    /// Checks flags and environment together.
    ///
    /// # Errors
    /// One sentence that names the flag.
    pub fn new(flags: &Flags) -> Result<Self, String> {
        Self::check(flags, own_namespace(flags.some("namespace"), &Env::process()))
    }

    fn check(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        check_refused(flags)?;
        values::check_registration_auth(flags.text("registration-auth"))?;
        let once = flags.once()?;
        let election = sidecar::leadership::timing(flags)?;
        let (annotations, dropped_annotations) = values::annotations(flags)?;
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
            cluster_name: values::cluster_name(flags)?,
            agent_id: values::agent_id(flags)?,
            reach: flags.reach(),
            spoke_kubeconfig: path("spoke-kubeconfig"),
            external_urls: values::external_urls(flags)?,
            annotations,
            dropped_annotations,
            ignored_flags: ignored_flags(flags),
            expiration: values::expiration(flags)?,
            healthcheck_period: flags.period("cluster-healthcheck-period")?,
            addon_management: enabled["AddonManagement"],
            addon_driver: values::addon_driver(flags)?,
            managed_namespaces: flags.switch("managed-namespaces"),
            report_capacity: flags.switch("report-capacity"),
            claim_kinds: values::claim_kinds(&enabled),
            claim_rules: values::claim_rules(flags)?,
            https: HttpsSettings::of(flags)?,
            // A caller waits for the exit, and two instances that request a certificate do no harm.
            election: (once.is_none() && !flags.switch("disable-leader-election"))
                .then_some(election),
            once,
        };
        settings.check_names()?;
        Ok(settings)
    }

    /// The Secret for a pending request.
    pub(crate) fn pending_secret(&self) -> String {
        format!("{}{PENDING}", self.hub_secret)
    }

    /// The Secret for the registrations of add-ons.
    pub(crate) fn registrations_secret(&self) -> String {
        format!("{}{REGISTRATIONS}", self.hub_secret)
    }

    /// The Secrets that this program writes in its own namespace.
    fn written_secrets(&self) -> [String; 3] {
        [self.hub_secret.clone(), self.pending_secret(), self.registrations_secret()]
    }

    /// Returns whether a Secret of this name in the program's own namespace is the program's own. The Secret of
    /// the bootstrap kubeconfig may be mounted as a file.
    pub(crate) fn has_own_secret(&self, name: &str) -> bool {
        let is_bootstrap =
            |source: &BootstrapSource| matches!(source, BootstrapSource::Secret(it) if it == name);
        name == BOOTSTRAP_SECRET
            || self.written_secrets().iter().any(|own| own == name)
            || self.bootstraps.iter().any(is_bootstrap)
    }

    /// Logs the dropped annotations and ignored flags, once there is a log.
    pub(crate) fn log_dropped(&self) {
        for (name, reason) in &self.ignored_flags {
            log::info!("-{name} is ignored: {reason}");
        }
        for key in &self.dropped_annotations {
            log::warn!(
                "-cluster-annotations: {key} is dropped, it does not start with {ANNOTATIONS}"
            );
        }
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
        for bootstrap in &self.bootstraps {
            let BootstrapSource::Secret(name) = bootstrap else { continue };
            let problem = if !valid_name(name) {
                "is not a valid object name"
            } else if self.written_secrets().contains(name) {
                "is a Secret that this program writes"
            } else {
                continue;
            };
            return Err(format!("-bootstrap-kubeconfig-secret {name:?} {problem}"));
        }
        Ok(())
    }
}

fn ignored_flags(flags: &Flags) -> Vec<(&'static str, &'static str)> {
    IGNORED.into_iter().filter(|(name, _)| flags.is_given(name)).collect()
}

fn check_refused(flags: &Flags) -> Result<(), String> {
    match REFUSED.iter().find(|(name, _)| flags.is_given(name)) {
        Some((name, reason)) => Err(format!("-{name} has no meaning here: {reason}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
