//! Values of single flags.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use apiclient::resource::valid_key;
use kubeconfig::server_url;
use sidecar::flags::Flags;

use crate::claim::ClaimRules;

/// The prefix of the annotations that an agent gives to its ManagedCluster.
const ANNOTATIONS: &str = "agent.open-cluster-management.io";
/// The registration agent's feature gates and their defaults (ocm v1.2.0, its api module, `feature/feature.go`,
/// DefaultSpokeRegistrationFeatureGates; v1.3.0 has the same). V1beta1CSRAPICompatibility changes nothing: each
/// Kubernetes from 1.19 has v1. The last two are the work agent's: in mode Singleton the operator passes the gates of
/// both agents in one flag.
const FEATURE_GATES: [(&str, bool); 7] = [
    ("AddonManagement", true),
    ("ClusterClaim", true),
    ("ClusterProperty", false),
    ("MultipleHubs", false),
    ("V1beta1CSRAPICompatibility", false),
    ("ExecutorValidatingCaches", false),
    ("RawFeedbackJsonString", false),
];
/// The maximum int32, the type of upstream's and the API's fields.
const MAX_SECONDS: u32 = i32::MAX.unsigned_abs();
/// Minimum lifetime of tokens, in upstream as in the API server.
const MIN_TOKEN_SECONDS: u32 = 600;
/// Minimum lifetime of certificates in upstream; the API server's is 600.
const MIN_CERTIFICATE_SECONDS: u32 = 3600;

/// How agents of add-ons get their credential for the hub's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KubeClientDriver {
    Csr,
    /// A token of a ServiceAccount on the hub, with its lifetime in seconds.
    Token {
        lifetime: u32,
    },
}

impl KubeClientDriver {
    /// Returns the value of `status.kubeClientDriver`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csr => "csr",
            Self::Token { .. } => "token",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapSource {
    File(PathBuf),
    /// Key `kubeconfig` of a Secret of this name in the program's namespace.
    Secret(String),
}

impl BootstrapSource {
    /// Returns the Secret's name; empty for a file.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::File(_) => "",
            Self::Secret(name) => name,
        }
    }
}

/// Formats the source as the subject of a sentence.
impl fmt::Display for BootstrapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "bootstrap kubeconfig {}", path.display()),
            Self::Secret(name) => write!(f, "bootstrap Secret {name}"),
        }
    }
}

pub(super) fn feature_gates(flags: &Flags) -> Result<BTreeMap<&'static str, bool>, String> {
    let mut gates = BTreeMap::from(FEATURE_GATES);
    for gate in flags.list("feature-gates") {
        let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
        let enabled = value
            .trim()
            .parse()
            .map_err(|_| format!("-feature-gates: {gate:?} is not Name=true or Name=false"))?;
        let name = name.trim();
        let known = gates.get_mut(name);
        *known.ok_or_else(|| format!("-feature-gates: the agent has no feature {name:?}"))? =
            enabled;
    }
    Ok(gates)
}

/// Returns the sources of the bootstrap kubeconfigs: several, or one. Files take precedence over Secrets.
pub(super) fn bootstraps(flags: &Flags, several: bool) -> Result<Vec<BootstrapSource>, String> {
    if !several && flags.some("bootstrap-kubeconfigs").is_some() {
        return Err("-bootstrap-kubeconfigs needs -feature-gates MultipleHubs=true".into());
    }
    let files = match several {
        true => flags.list("bootstrap-kubeconfigs"),
        false => flags.some("bootstrap-kubeconfig").into_iter().collect(),
    };
    let files = files.into_iter().map(|path| BootstrapSource::File(path.into()));
    let secrets = flags.list("bootstrap-kubeconfig-secret").into_iter();
    let secrets = secrets.map(|name| BootstrapSource::Secret(name.to_owned()));
    let mut sources: Vec<_> = files.collect();
    if sources.is_empty() {
        sources.extend(secrets);
    }
    match (several, sources.len()) {
        // Upstream's sentence (ocm `pkg/registration/spoke/options.go`, Validate).
        (true, 0 | 1) => {
            Err("expect at least 2 bootstrap kubeconfigs with -feature-gates MultipleHubs=true, \
            in -bootstrap-kubeconfigs or -bootstrap-kubeconfig-secret"
                .into())
        }
        (true, _) | (false, 1) => Ok(sources),
        (false, count) => Err(format!(
            "-bootstrap-kubeconfig-secret must be one Secret without MultipleHubs, got {count}"
        )),
    }
}

pub(super) fn hub_connection_timeout(flags: &Flags) -> Result<Duration, String> {
    let seconds = flags.number_in("hub-connection-timeout-seconds", 1..=MAX_SECONDS)?;
    Ok(Duration::from_secs(seconds.into()))
}

/// Returns the trimmed value of a name's flag.
pub(super) fn name(
    flags: &Flags,
    flag: &str,
    valid: fn(&str) -> Result<(), &'static str>,
) -> Result<Option<String>, String> {
    let name = flags.text(flag).trim();
    if name.is_empty() {
        return Ok(None);
    }
    valid(name).map_err(|what| format!("-{flag} {name:?} {what}"))?;
    Ok(Some(name.to_owned()))
}

pub(super) fn external_urls(flags: &Flags) -> Result<Vec<String>, String> {
    let urls = flags.list("spoke-external-server-urls");
    match urls.iter().find(|url| !is_https(url)) {
        Some(url) => Err(format!(
            "-spoke-external-server-urls: {url:?} is invalid, it is not an https URL with a host"
        )),
        None => Ok(urls.into_iter().map(str::to_owned).collect()),
    }
}

/// Returns whether `url` is an https URL with a host, and without a user name.
pub(super) fn is_https(url: &str) -> bool {
    url.contains("://") && server_url(url).is_some_and(|url| url.starts_with("https://"))
}

pub(super) fn annotations(flags: &Flags) -> Result<BTreeMap<String, String>, String> {
    let mut annotations = BTreeMap::new();
    for pair in flags.list("cluster-annotations") {
        let split = pair.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let (key, value) =
            split.ok_or_else(|| format!("-cluster-annotations: {pair:?} is not key=value"))?;
        if !key.starts_with(ANNOTATIONS) {
            continue;
        }
        // With an invalid key, the hub would reject the whole ManagedCluster.
        if !valid_key(key) {
            return Err(format!("-cluster-annotations: {key:?} is not a key of an annotation"));
        }
        annotations.insert(key.to_owned(), value.to_owned());
    }
    Ok(annotations)
}

pub(super) fn claim_rules(flags: &Flags) -> Result<ClaimRules, String> {
    let most = flags.number("max-custom-cluster-claims");
    let max_custom = usize::try_from(most)
        .map_err(|_| format!("-max-custom-cluster-claims must be 0 or more, got {most}"))?;
    let suffixes = flags.list("reserved-cluster-claim-suffixes").into_iter();
    Ok(ClaimRules { max_custom, reserved_suffixes: suffixes.map(str::to_owned).collect() })
}

pub(super) fn check_registration_auth(driver: &str) -> Result<(), String> {
    match driver {
        "" | "csr" => Ok(()),
        other => Err(format!("-registration-auth must be csr, got {other:?}")),
    }
}

pub(super) fn addon_driver(flags: &Flags) -> Result<KubeClientDriver, String> {
    let seconds = MIN_TOKEN_SECONDS..=MAX_SECONDS;
    let lifetime = flags.number_in("addon-token-expiration-seconds", seconds)?;
    match flags.text("addon-kubeclient-registration-auth") {
        "" | "csr" => Ok(KubeClientDriver::Csr),
        "token" => Ok(KubeClientDriver::Token { lifetime }),
        other => {
            Err(format!("-addon-kubeclient-registration-auth must be csr or token, got {other:?}"))
        }
    }
}

/// Returns the lifetime of certificates, in seconds; for 0, the hub decides.
pub(super) fn expiration(flags: &Flags) -> Result<Option<u32>, String> {
    let name = "client-cert-expiration-seconds";
    if flags.number(name) == 0 {
        return Ok(None);
    }
    let seconds = flags.number_in(name, MIN_CERTIFICATE_SECONDS..=MAX_SECONDS);
    seconds.map(Some).map_err(|error| error.replacen("must be from", "must be 0 or from", 1))
}
