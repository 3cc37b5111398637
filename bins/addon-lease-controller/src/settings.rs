//! Settings from the command line and the environment: the Go sidecar's, and this program's own.

use std::{path::PathBuf, time::Duration};

use kubeconfig::{Env, own_namespace};
use sidecar::{
    flag_rows,
    flags::{Flag, Flags, Invocation, NO_NAMESPACE, common, object_name},
};

use crate::pod::OwnContainer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) lease_name: String,
    pub(crate) period: Duration,
    pub(crate) startup_delay: Duration,
    pub(crate) hub: Option<HubTarget>,
    /// The namespace of the Lease on the managed cluster, if any.
    pub(crate) managed: Option<String>,
    /// The pod whose readiness gates the Leases: namespace and name.
    pub(crate) pod: Option<(String, String)>,
    pub(crate) own_container: Option<OwnContainer>,
    /// The namespace of the election's Lease, if any.
    pub(crate) election: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubTarget {
    pub(crate) namespace: String,
    pub(crate) credentials: HubCredentials,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubCredentials {
    File(PathBuf),
    Secret { namespace: String, name: String },
}

pub(crate) fn table() -> Vec<Flag> {
    let mut table = Vec::from(flag_rows! {
        ["Lease"]
        "lease-duration" Int "60" =>
            "Seconds between renewals, and leaseDurationSeconds of the Lease.";
        "lease-name" String "" => "Name of the Lease, which is the add-on's. Required.";
        "lease-namespace" String "" =>
            "Namespace of the Lease on the hub, which is the cluster's name. Required for the hub.";
        "lease-target" String "" =>
            "Cluster of the Lease: hub, managed or both (default: hub if a hub kubeconfig is given, else managed).";
        "managed-lease-namespace" String "" =>
            "Namespace of the Lease on the managed cluster (default: POD_NAMESPACE, else the program's namespace).";

        ["Hub"]
        "hub-kubeconfig" String "" =>
            "File with the hub kubeconfig, instead of the Secret; re-read when it changes.";
        "hub-kubeconfig-secret" String "" =>
            "Secret with the hub kubeconfig, in WATCH_NAMESPACE or else the program's namespace.";

        ["Pod and replicas"]
        "container-name" String "" =>
            "This container's name: the pod's other containers count, not its condition Ready (default: CONTAINER_NAME, if the pod has it).";
        "leader-election" Bool "false" =>
            "Renew only as the leader of the replicas that share -lease-name.";
        "startup-delay" Int "10" => "Seconds to wait before the first check.";
    });
    table.extend(common("8384"));
    table
}

impl Settings {
    pub(crate) fn new(flags: &Flags) -> Result<Invocation<Self>, String> {
        let own_namespace = own_namespace(flags.some("namespace"), &Env::process());
        Self::check(flags, &|name| std::env::var(name).ok(), own_namespace).map(Invocation::Run)
    }

    fn check(
        flags: &Flags,
        env: &dyn Fn(&str) -> Option<String>,
        own_namespace: Option<String>,
    ) -> Result<Self, String> {
        let lease_name = object_name("-lease-name", flags.required("lease-name")?)?;
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let pod_namespace = env("POD_NAMESPACE");
        let (on_hub, on_managed) = lease_targets(flags)?;
        let own = || {
            object_name("-namespace or POD_NAMESPACE", own_namespace.clone().ok_or(NO_NAMESPACE)?)
        };
        let secret_namespace = || env("WATCH_NAMESPACE").map_or_else(own, Ok);
        let hub = if on_hub { Some(hub(flags, secret_namespace)?) } else { None };
        let named = flags.some("managed-lease-namespace").map(str::to_owned);
        let managed = match named.or_else(|| pod_namespace.clone()) {
            _ if !on_managed => None,
            Some(namespace) => Some(object_name("-managed-lease-namespace", namespace)?),
            None => Some(own()?),
        };
        let pod = match pod_namespace.zip(env("POD_NAME")) {
            None => None,
            Some((namespace, name)) => {
                Some((object_name("POD_NAMESPACE", namespace)?, object_name("POD_NAME", name)?))
            }
        };
        let container = |name, strict| OwnContainer { name, strict };
        let named = flags.some("container-name").map(|name| container(name.to_owned(), true));
        Ok(Self {
            lease_name,
            period: seconds(flags, "lease-duration", 1)?,
            startup_delay: seconds(flags, "startup-delay", 0)?,
            hub,
            managed,
            pod,
            own_container: named.or_else(|| Some(container(env("CONTAINER_NAME")?, false))),
            election: if flags.switch("leader-election") { Some(own()?) } else { None },
        })
    }

    /// The name of the election's Lease: the Go sidecar's ConfigMap has it.
    pub(crate) fn election_name(&self) -> String {
        format!("{}-addon-lease.agent.stolostron.io", self.lease_name)
    }

    /// The time limit of a request: half a period, which leaves time for another attempt, and at least a second.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.period / 2).clamp(Duration::from_secs(1), Duration::from_secs(10))
    }

    pub(crate) fn needs_managed_cluster(&self) -> bool {
        let secret = self.hub.as_ref().and_then(HubTarget::secret);
        secret.is_some() || self.managed.is_some() || self.pod.is_some() || self.election.is_some()
    }
}

impl HubTarget {
    /// Namespace and name of the Secret that holds the kubeconfig, if any.
    pub(crate) fn secret(&self) -> Option<(&str, &str)> {
        match &self.credentials {
            HubCredentials::File(..) => None,
            HubCredentials::Secret { namespace, name } => Some((namespace, name)),
        }
    }
}

/// Whether to renew a Lease on the hub, and on the managed cluster.
fn lease_targets(flags: &Flags) -> Result<(bool, bool), String> {
    let named =
        ["hub-kubeconfig", "hub-kubeconfig-secret"].iter().any(|name| flags.some(name).is_some());
    match (flags.text("lease-target"), named) {
        ("", true) | ("hub", _) => Ok((true, false)),
        ("", false) | ("managed", _) => Ok((false, true)),
        ("both", _) => Ok((true, true)),
        (other, _) => Err(format!("-lease-target must be hub, managed or both, got {other:?}")),
    }
}

fn hub(
    flags: &Flags,
    secret_namespace: impl FnOnce() -> Result<String, String>,
) -> Result<HubTarget, String> {
    let namespace = object_name("-lease-namespace", flags.required("lease-namespace")?)?;
    let credentials = match (flags.some("hub-kubeconfig"), flags.some("hub-kubeconfig-secret")) {
        (Some(file), None) => HubCredentials::File(file.into()),
        (None, Some(name)) => HubCredentials::Secret {
            namespace: object_name("the namespace of the Secret", secret_namespace()?)?,
            name: object_name("-hub-kubeconfig-secret", name)?,
        },
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
    Ok(HubTarget { namespace, credentials })
}

/// Lease seconds are an int32 in the API.
fn seconds(flags: &Flags, name: &str, least: u32) -> Result<Duration, String> {
    match u32::try_from(flags.number(name)) {
        Ok(seconds) if seconds >= least && i32::try_from(seconds).is_ok() => {
            Ok(Duration::from_secs(seconds.into()))
        }
        _ => Err(format!(
            "-{name} must be a number of seconds from {least} to {}, got {}",
            i32::MAX,
            flags.number(name)
        )),
    }
}

#[cfg(test)]
mod tests;
