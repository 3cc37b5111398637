//! The command line and environment of the Go sidecar and what this one adds, checked as a whole.

use std::{path::PathBuf, time::Duration};

use shared::{
    flags::{Flag, Flags, Kind, common},
    kubeconfig::{Env, own_namespace},
    resource::valid_name,
};

/// All that the process is told, complete and valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) lease_name: String,
    pub(crate) period: Duration,
    pub(crate) startup_delay: Duration,
    pub(crate) hub: Option<HubTarget>,
    /// The namespace of the Lease on the managed cluster, if one is kept there.
    pub(crate) managed: Option<String>,
    /// The pod whose readiness gates the Leases: namespace and name.
    pub(crate) pod: Option<(String, String)>,
    pub(crate) own_container: Option<String>,
    /// The namespace of the election's Lease, if there is an election.
    pub(crate) election: Option<String>,
}

/// The Lease on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubTarget {
    pub(crate) namespace: String,
    pub(crate) credentials: HubCredentials,
}

/// Where the hub's kubeconfig is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubCredentials {
    File(PathBuf),
    Secret { namespace: String, name: String },
}

/// The flag table.
pub(crate) fn table() -> Vec<Flag> {
    let flag = |name, kind, default, help| Flag { name, kind, default, help };
    let mut table = vec![
        flag(
            "container-name",
            Kind::String,
            "",
            "Name of this container in its pod: the readiness of all the others counts instead of the pod's Ready condition (default: CONTAINER_NAME).",
        ),
        flag(
            "hub-kubeconfig",
            Kind::String,
            "",
            "File with the hub's kubeconfig, instead of the Secret; read again when it changes.",
        ),
        flag(
            "hub-kubeconfig-secret",
            Kind::String,
            "",
            "Secret with the hub's kubeconfig, in WATCH_NAMESPACE or else the own namespace.",
        ),
        flag(
            "leader-election",
            Kind::Bool,
            "false",
            "Renew only while leading the replicas that share -lease-name.",
        ),
        flag(
            "lease-duration",
            Kind::Int,
            "60",
            "Seconds between renewals, and leaseDurationSeconds of the Lease.",
        ),
        flag("lease-name", Kind::String, "", "Name of the Lease: the add-on's. Required."),
        flag(
            "lease-namespace",
            Kind::String,
            "",
            "Namespace of the Lease on the hub: the cluster's name. Required for the hub.",
        ),
        flag(
            "lease-target",
            Kind::String,
            "",
            "Where to keep the Lease: hub, managed or both (default: hub if a hub kubeconfig is named, else managed).",
        ),
        flag(
            "managed-lease-namespace",
            Kind::String,
            "",
            "Namespace of the Lease on the managed cluster (default: POD_NAMESPACE, else the own namespace).",
        ),
        flag("startup-delay", Kind::Int, "10", "Seconds to wait before the first look."),
    ];
    table.extend(common("8384"));
    table
}

impl Settings {
    /// Checks flags and environment together.
    ///
    /// # Errors
    /// One sentence that names the flag.
    pub(crate) fn new(flags: &Flags) -> Result<Self, String> {
        let own_namespace = own_namespace(flags.some("namespace"), &Env::process());
        Self::check(flags, &|name| std::env::var(name).ok(), own_namespace)
    }

    fn check(
        flags: &Flags,
        env: &dyn Fn(&str) -> Option<String>,
        own_namespace: Option<String>,
    ) -> Result<Self, String> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let pod_namespace = env("POD_NAMESPACE");
        let target = target(flags)?;
        let own = || {
            own_namespace
                .clone()
                .ok_or("the own namespace is not known: set -namespace or POD_NAMESPACE")
        };

        let secret_namespace = env("WATCH_NAMESPACE").map_or_else(own, Ok);
        let hub = if target.hub {
            Some(hub(flags, secret_namespace.map_err(str::to_owned))?)
        } else {
            None
        };
        let managed_namespace = flags.some("managed-lease-namespace").map(str::to_owned);
        let managed = match (target.managed, managed_namespace.or_else(|| pod_namespace.clone())) {
            (false, _) => None,
            (true, Some(namespace)) => Some(namespace),
            (true, None) => Some(own()?),
        };
        let settings = Self {
            lease_name: required(flags, "lease-name")?,
            period: seconds(flags, "lease-duration", 1)?,
            startup_delay: seconds(flags, "startup-delay", 0)?,
            hub,
            managed,
            pod: pod_namespace.zip(env("POD_NAME")),
            own_container: flags
                .some("container-name")
                .map(str::to_owned)
                .or_else(|| env("CONTAINER_NAME")),
            election: if flags.switch("leader-election") { Some(own()?) } else { None },
        };
        settings.check_names()?;
        Ok(settings)
    }

    /// The name of the election's Lease: that of the Go sidecar's ConfigMap.
    pub(crate) fn election_name(&self) -> String {
        format!("{}-addon-lease.agent.stolostron.io", self.lease_name)
    }

    /// Each request gets at most half a period, so that a try fits in beside it.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.period / 2).clamp(Duration::from_secs(1), Duration::from_secs(10))
    }

    fn check_names(&self) -> Result<(), String> {
        let hub = self.hub.as_ref();
        let secret = hub.and_then(HubTarget::secret);
        let names: [(_, Option<&str>); 8] = [
            ("-lease-name", Some(&self.lease_name)),
            ("-lease-namespace", hub.map(|hub| &*hub.namespace)),
            ("-hub-kubeconfig-secret", secret.map(|(_, name)| name)),
            ("the namespace of the Secret", secret.map(|(namespace, _)| namespace)),
            ("-managed-lease-namespace", self.managed.as_deref()),
            ("the own namespace", self.election.as_deref()),
            ("POD_NAMESPACE", self.pod.as_ref().map(|(namespace, _)| &**namespace)),
            ("POD_NAME", self.pod.as_ref().map(|(_, name)| &**name)),
        ];
        match names.iter().find(|(_, name)| name.is_some_and(|name| !valid_name(name))) {
            Some((what, Some(name))) => Err(format!("{what} {name:?} is not a valid object name")),
            _ => Ok(()),
        }
    }
}

impl HubTarget {
    /// Namespace and name of the Secret, if the kubeconfig is in one.
    pub(crate) fn secret(&self) -> Option<(&str, &str)> {
        match &self.credentials {
            HubCredentials::File(_) => None,
            HubCredentials::Secret { namespace, name } => Some((namespace, name)),
        }
    }
}

struct Target {
    hub: bool,
    managed: bool,
}

fn target(flags: &Flags) -> Result<Target, String> {
    let named =
        ["hub-kubeconfig", "hub-kubeconfig-secret"].iter().any(|name| flags.some(name).is_some());
    match (flags.text("lease-target"), named) {
        ("", true) | ("hub", _) => Ok(Target { hub: true, managed: false }),
        ("", false) | ("managed", _) => Ok(Target { hub: false, managed: true }),
        ("both", _) => Ok(Target { hub: true, managed: true }),
        (other, _) => Err(format!("-lease-target is hub, managed or both, not {other:?}")),
    }
}

fn hub(flags: &Flags, secret_namespace: Result<String, String>) -> Result<HubTarget, String> {
    let credentials = match (flags.some("hub-kubeconfig"), flags.some("hub-kubeconfig-secret")) {
        (Some(file), None) => HubCredentials::File(file.into()),
        (None, Some(name)) => {
            HubCredentials::Secret { namespace: secret_namespace?, name: name.to_owned() }
        }
        (Some(_), Some(_)) => {
            return Err("-hub-kubeconfig and -hub-kubeconfig-secret exclude each other".into());
        }
        (None, None) => {
            return Err(
                "-hub-kubeconfig-secret or -hub-kubeconfig is required for a Lease on the hub"
                    .into(),
            );
        }
    };
    Ok(HubTarget { namespace: required(flags, "lease-namespace")?, credentials })
}

fn required(flags: &Flags, name: &str) -> Result<String, String> {
    flags.some(name).map(str::to_owned).ok_or_else(|| format!("-{name} is required"))
}

/// Lease seconds are an int32 in the API.
fn seconds(flags: &Flags, name: &str, least: u32) -> Result<Duration, String> {
    match u32::try_from(flags.number(name)) {
        Ok(seconds) if seconds >= least && i32::try_from(seconds).is_ok() => {
            Ok(Duration::from_secs(seconds.into()))
        }
        _ => Err(format!(
            "-{name} is a number of seconds from {least} to {}, not {}",
            i32::MAX,
            flags.number(name)
        )),
    }
}
