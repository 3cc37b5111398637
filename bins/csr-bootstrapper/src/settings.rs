//! Command line: the registration agent's flags and defaults, and this program's own.

mod table;

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use apiclient::{
    election,
    resource::{valid_key, valid_label, valid_name},
};
use kubeconfig::{Env, Reach, own_namespace};
use sidecar::flags::{Flags, Invocation};

pub(crate) use self::table::table;
use self::table::{BOOTSTRAP_SECRET, IGNORED, REFUSED};
use crate::{
    claim::{ClaimKind, ClaimRules},
    https::HttpsSettings,
    identity::{valid_agent, valid_cluster},
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
pub(crate) struct Settings {
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

/// The registration agent's Lease, so that either program takes over from the other (ocm
/// `pkg/common/options/options.go`).
pub(crate) const LOCK: &str = "registration-agent-lock";
/// The namespace without a flag, POD_NAMESPACE and a service account (ocm
/// `pkg/common/options/agent.go:23`).
pub const NAMESPACE: &str = "open-cluster-management-agent";
/// The prefix of the annotations that an agent gives to its ManagedCluster.
const ANNOTATIONS: &str = "agent.open-cluster-management.io";
/// Suffix of the Secret for a pending request, after the name of the credential's.
const PENDING: &str = "-pending";
/// Suffix of the Secret for the registrations of add-ons.
const REGISTRATIONS: &str = "-addons";
/// The registration agent's feature gates and their defaults (ocm v1.2.0, its api module, `feature/feature.go`,
/// DefaultSpokeRegistrationFeatureGates; v1.3.0 has the same). V1beta1CSRAPICompatibility changes nothing: each
/// Kubernetes from 1.19 has v1.
const FEATURE_GATES: [(&str, bool); 5] = [
    ("AddonManagement", true),
    ("ClusterClaim", true),
    ("ClusterProperty", false),
    ("MultipleHubs", false),
    ("V1beta1CSRAPICompatibility", false),
];
/// The largest int32, as upstream's and the API's fields are.
const MAX_SECONDS: u32 = i32::MAX.unsigned_abs();
/// Upstream's limit for tokens, which is the API server's own.
const MIN_TOKEN_SECONDS: u32 = 600;
/// Upstream's limit; the API server's own is 600.
const MIN_CERTIFICATE_SECONDS: u32 = 3600;

impl Settings {
    /// Checks flags and environment together.
    ///
    /// # Errors
    /// One sentence that names the flag.
    pub(crate) fn new(flags: &Flags) -> Result<Invocation<Self>, String> {
        Self::check(flags, own_namespace(flags.some("namespace"), &Env::process()))
            .map(Invocation::Run)
    }

    fn check(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        check_refused(flags)?;
        check_registration_auth(flags.text("registration-auth"))?;
        let once = flags.once()?;
        let election = sidecar::leadership::timing(flags)?;
        let (annotations, dropped_annotations) = annotations(flags)?;
        let enabled = feature_gates(flags)?;
        let several_hubs = enabled["MultipleHubs"];
        let path = |name| flags.some(name).map(PathBuf::from);
        let settings = Self {
            namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            bootstraps: bootstraps(flags, several_hubs)?,
            hub_connection_timeout: several_hubs
                .then(|| flags.number_in("hub-connection-timeout-seconds", 1..=MAX_SECONDS))
                .transpose()?
                .map(|seconds| Duration::from_secs(seconds.into())),
            hub_secret: flags.required("hub-kubeconfig-secret")?,
            hub_directory: path("hub-kubeconfig-dir"),
            write_files: flags.switch("write-files") && once.is_none(),
            cluster_name: cluster_name(flags)?,
            agent_id: agent_id(flags)?,
            reach: flags.reach(),
            spoke_kubeconfig: path("spoke-kubeconfig"),
            external_urls: external_urls(flags)?,
            annotations,
            dropped_annotations,
            ignored_flags: ignored_flags(flags),
            expiration: expiration(flags)?,
            healthcheck_period: flags.period("cluster-healthcheck-period")?,
            addon_management: enabled["AddonManagement"],
            addon_driver: addon_driver(flags)?,
            managed_namespaces: flags.switch("managed-namespaces"),
            report_capacity: flags.switch("report-capacity"),
            claim_kinds: claim_kinds(&enabled),
            claim_rules: claim_rules(flags)?,
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

    /// Returns whether a Secret of this name in the program's own namespace is the program's own. That of the bootstrap
    /// kubeconfig may be mounted as a file.
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

/// Whether each feature is enabled.
fn feature_gates(flags: &Flags) -> Result<BTreeMap<&'static str, bool>, String> {
    let mut gates = BTreeMap::from(FEATURE_GATES);
    for gate in flags.list("feature-gates") {
        let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
        let (name, enabled) = (name.trim(), value.trim().parse());
        match (gates.get_mut(name), enabled) {
            (_, Err(_)) => {
                return Err(format!("-feature-gates: {gate:?} is not Name=true or Name=false"));
            }
            (Some(gate), Ok(enabled)) => *gate = enabled,
            (None, _) => return Err(format!("-feature-gates: the agent has no feature {name:?}")),
        }
    }
    Ok(gates)
}

fn claim_kinds(enabled: &BTreeMap<&str, bool>) -> Vec<ClaimKind> {
    let kinds = [
        ("ClusterClaim", ClaimKind::ClusterClaim),
        ("ClusterProperty", ClaimKind::ClusterProperty),
    ];
    kinds.into_iter().filter(|(name, _)| enabled[name]).map(|(_, kind)| kind).collect()
}

/// The sources of the bootstrap kubeconfigs: several, or one.
fn bootstraps(flags: &Flags, several: bool) -> Result<Vec<BootstrapSource>, String> {
    let files = match (several, flags.some("bootstrap-kubeconfig")) {
        (true, _) => flags.list("bootstrap-kubeconfigs"),
        (false, _) if flags.some("bootstrap-kubeconfigs").is_some() => {
            return Err("-bootstrap-kubeconfigs needs -feature-gates MultipleHubs=true".into());
        }
        (false, file) => file.into_iter().collect(),
    };
    let secrets = flags.list("bootstrap-kubeconfig-secret").into_iter();
    let secrets = secrets.map(|name| BootstrapSource::Secret(name.to_owned()));
    let sources: Vec<_> = match files.is_empty() {
        true => secrets.collect(),
        false => files.into_iter().map(|file| BootstrapSource::File(file.into())).collect(),
    };
    match (several, sources.len()) {
        // Upstream's sentence (ocm `pkg/registration/spoke/options.go`, Validate).
        (true, 0 | 1) => {
            Err("expect at least 2 bootstrap kubeconfigs with -feature-gates MultipleHubs=true, \
            in -bootstrap-kubeconfigs or -bootstrap-kubeconfig-secret"
                .into())
        }
        (false, 0) => Err("-bootstrap-kubeconfig-secret is required".into()),
        (true, _) | (false, 1) => Ok(sources),
        (false, _) => {
            Err("-bootstrap-kubeconfig-secret: several need -feature-gates MultipleHubs=true"
                .into())
        }
    }
}

/// The value of a name's flag, without white space around it.
fn name<'a>(flags: &'a Flags, flag: &str) -> Option<&'a str> {
    flags.some(flag).map(str::trim).filter(|name| !name.is_empty())
}

fn cluster_name(flags: &Flags) -> Result<Option<String>, String> {
    let names = ["cluster-name", "spoke-cluster-name"].map(|flag| (flag, name(flags, flag)));
    if let [(_, Some(one)), (_, Some(other))] = names
        && one != other
    {
        return Err(format!("-cluster-name {one:?} and -spoke-cluster-name {other:?} differ"));
    }
    for (flag, name) in names {
        if let Some(name) = name {
            valid_cluster(name).map_err(|what| format!("-{flag} {name:?} {what}"))?;
        }
    }
    Ok(names.iter().find_map(|(_, name)| name.map(str::to_owned)))
}

fn agent_id(flags: &Flags) -> Result<Option<String>, String> {
    let Some(name) = name(flags, "agent-id") else { return Ok(None) };
    valid_agent(name).map_err(|what| format!("-agent-id {name:?} {what}"))?;
    Ok(Some(name.to_owned()))
}

fn external_urls(flags: &Flags) -> Result<Vec<String>, String> {
    let urls = flags.list("spoke-external-server-urls");
    match urls.iter().find(|url| !is_https(url)) {
        Some(url) => Err(format!(
            "-spoke-external-server-urls: {url:?} is invalid, it is not an https URL with a host"
        )),
        None => Ok(urls.into_iter().map(str::to_owned).collect()),
    }
}

/// Returns whether `url` is an https URL with a host, with a port if there is a colon, and without a user name.
fn is_https(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        // A colon within brackets belongs to the address.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['@', ':', '[', ']', '\\']),
    };
    scheme.eq_ignore_ascii_case("https")
        && is_host
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
        && !url.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Annotations for the ManagedCluster, and the keys of the others.
type Annotations = (BTreeMap<String, String>, Vec<String>);

fn annotations(flags: &Flags) -> Result<Annotations, String> {
    let (mut kept, mut dropped) = Annotations::default();
    for pair in flags.list("cluster-annotations") {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("-cluster-annotations: {pair:?} is not key=value"));
        };
        let key = key.trim();
        if !key.starts_with(ANNOTATIONS) {
            dropped.push(key.to_owned());
        } else if !valid_key(key) {
            // An invalid key would cause the whole ManagedCluster to be rejected.
            return Err(format!("-cluster-annotations: {key:?} is not a key of an annotation"));
        } else {
            kept.insert(key.to_owned(), value.trim().to_owned());
        }
    }
    Ok((kept, dropped))
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

fn claim_rules(flags: &Flags) -> Result<ClaimRules, String> {
    let most = flags.number("max-custom-cluster-claims");
    let most_custom = usize::try_from(most)
        .map_err(|_| format!("-max-custom-cluster-claims is 0 or more, not {most}"))?;
    let suffixes = flags.list("reserved-cluster-claim-suffixes");
    // An empty one would make each claim a reserved one.
    let suffixes = suffixes.into_iter().filter(|suffix| !suffix.is_empty());
    Ok(ClaimRules { most_custom, reserved_suffixes: suffixes.map(str::to_owned).collect() })
}

/// The other drivers of upstream need what is not in the image, and other hubs.
fn check_registration_auth(driver: &str) -> Result<(), String> {
    let why = match driver {
        "" | "csr" => return Ok(()),
        "awsirsa" => ", which needs the AWS CLI and a hub on AWS EKS",
        "grpc" => ", which needs a hub behind a gRPC broker",
        _ => "",
    };
    Err(format!("-registration-auth is csr, not {driver:?}{why}"))
}

fn addon_driver(flags: &Flags) -> Result<KubeClientDriver, String> {
    let seconds = MIN_TOKEN_SECONDS..=MAX_SECONDS;
    let lifetime = flags.number_in("addon-token-expiration-seconds", seconds)?;
    match flags.text("addon-kubeclient-registration-auth") {
        "" | "csr" => Ok(KubeClientDriver::Csr),
        "token" => Ok(KubeClientDriver::Token { lifetime }),
        other => Err(format!("-addon-kubeclient-registration-auth is csr or token, not {other:?}")),
    }
}

/// The lifetime of certificates; 0 leaves it to the hub.
fn expiration(flags: &Flags) -> Result<Option<u32>, String> {
    let name = "client-cert-expiration-seconds";
    match flags.number(name) {
        0 => Ok(None),
        _ => flags.number_in(name, MIN_CERTIFICATE_SECONDS..=MAX_SECONDS).map(Some),
    }
}

#[cfg(test)]
mod tests;
