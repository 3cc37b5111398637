//! The command line and environment of the Go sidecar and what this one adds, checked as a whole.

use std::{path::PathBuf, time::Duration};

use shared::{
    flags::{FILES_ANYWHERE, Flag, FlagKind, Flags, Invocation, common},
    kubeconfig::{Env, Reach, own_namespace},
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
    pub(crate) own_container: Option<OwnContainer>,
    /// The namespace of the election's Lease, if there is an election.
    pub(crate) election: Option<String>,
}

/// The Lease on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubTarget {
    pub(crate) namespace: String,
    pub(crate) credentials: HubCredentials,
}

/// This container, whose own readiness does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnContainer {
    pub(crate) name: String,
    /// Named by the flag, where a wrong name is a mistake; the environment may mean something else by it.
    pub(crate) strict: bool,
}

/// Where the hub's kubeconfig is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubCredentials {
    File(PathBuf, Reach),
    Secret { namespace: String, name: String },
}

/// The flag table.
pub(crate) fn table() -> Vec<Flag> {
    let flag = |name, kind, default, help| Flag { name, kind, default, help };
    let mut table = vec![
        flag(
            "container-name",
            FlagKind::String,
            "",
            "Name of this container in its pod: the readiness of all the others counts instead of the pod's Ready condition (default: CONTAINER_NAME, if the pod has such a container).",
        ),
        flag(
            "hub-kubeconfig",
            FlagKind::String,
            "",
            "File with the hub's kubeconfig, instead of the Secret; read again when it changes.",
        ),
        flag(
            "hub-kubeconfig-secret",
            FlagKind::String,
            "",
            "Secret with the hub's kubeconfig, in WATCH_NAMESPACE or else the own namespace.",
        ),
        flag(
            "leader-election",
            FlagKind::Bool,
            "false",
            "Renew only while leading the replicas that share -lease-name.",
        ),
        flag(
            "lease-duration",
            FlagKind::Int,
            "60",
            "Seconds between renewals, and leaseDurationSeconds of the Lease.",
        ),
        flag("lease-name", FlagKind::String, "", "Name of the Lease: the add-on's. Required."),
        flag(
            "lease-namespace",
            FlagKind::String,
            "",
            "Namespace of the Lease on the hub: the cluster's name. Required for the hub.",
        ),
        flag(
            "lease-target",
            FlagKind::String,
            "",
            "Where to keep the Lease: hub, managed or both (default: hub if a hub kubeconfig is named, else managed).",
        ),
        flag(
            "managed-lease-namespace",
            FlagKind::String,
            "",
            "Namespace of the Lease on the managed cluster (default: POD_NAMESPACE, else the own namespace).",
        ),
        flag("startup-delay", FlagKind::Int, "10", "Seconds to wait before the first look."),
        FILES_ANYWHERE,
    ];
    table.extend(common("8384"));
    table
}

impl Settings {
    /// Checks flags and environment together.
    ///
    /// # Errors
    /// One sentence that names the flag.
    pub(crate) fn new(flags: &Flags) -> Result<Invocation<Self>, String> {
        let own_namespace = own_namespace(flags.some("namespace"), &Env::process());
        Self::check(flags, &|name| std::env::var(name).ok(), own_namespace).map(Invocation::Run)
    }

    fn check(
        flags: &Flags,
        env: &dyn Fn(&str) -> Option<String>,
        own_namespace: Option<String>,
    ) -> Result<Self, String> {
        let lease_name = required(flags, "lease-name")?;
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let pod_namespace = env("POD_NAMESPACE");
        let places = places(flags)?;
        let own =
            || own_namespace.clone().ok_or(NO_NAMESPACE).map_err(str::to_owned).and_then(valid_own);
        let secret_namespace = || env("WATCH_NAMESPACE").map_or_else(own, Ok);
        let hub = if places.hub { Some(hub(flags, secret_namespace)?) } else { None };
        let named = flags.some("managed-lease-namespace").map(str::to_owned);
        let managed = match named.or_else(|| pod_namespace.clone()) {
            _ if !places.managed => None,
            Some(namespace) => Some(namespace),
            None => Some(own()?),
        };
        let container = |name, strict| OwnContainer { name, strict };
        let named = flags.some("container-name").map(|name| container(name.to_owned(), true));
        let settings = Self {
            lease_name,
            period: seconds(flags, "lease-duration", 1)?,
            startup_delay: seconds(flags, "startup-delay", 0)?,
            hub,
            managed,
            pod: pod_namespace.zip(env("POD_NAME")),
            own_container: named.or_else(|| Some(container(env("CONTAINER_NAME")?, false))),
            election: if flags.switch("leader-election") { Some(own()?) } else { None },
        };
        settings.check_names()?;
        Ok(settings)
    }

    /// The name of the election's Lease: that of the Go sidecar's ConfigMap.
    pub(crate) fn election_name(&self) -> String {
        format!("{}-addon-lease.agent.stolostron.io", self.lease_name)
    }

    /// Each request gets half a period, so that another try fits in, but no less than a second.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.period / 2).clamp(Duration::from_secs(1), Duration::from_secs(10))
    }

    /// Whether anything is read from or written to the cluster that this runs on.
    pub(crate) fn needs_managed_cluster(&self) -> bool {
        let secret = self.hub.as_ref().and_then(HubTarget::secret);
        secret.is_some() || self.managed.is_some() || self.pod.is_some() || self.election.is_some()
    }

    fn check_names(&self) -> Result<(), String> {
        let hub = self.hub.as_ref();
        let secret = hub.and_then(HubTarget::secret);
        let names: [(_, Option<&str>); 7] = [
            ("-lease-name", Some(&self.lease_name)),
            ("-lease-namespace", hub.map(|hub| &*hub.namespace)),
            ("-hub-kubeconfig-secret", secret.map(|(_, name)| name)),
            ("the namespace of the Secret", secret.map(|(namespace, _)| namespace)),
            ("-managed-lease-namespace", self.managed.as_deref()),
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
            HubCredentials::File(..) => None,
            HubCredentials::Secret { namespace, name } => Some((namespace, name)),
        }
    }
}

const NO_NAMESPACE: &str = "the own namespace is not known: set -namespace or POD_NAMESPACE";

fn valid_own(namespace: String) -> Result<String, String> {
    if valid_name(&namespace) {
        return Ok(namespace);
    }
    Err(format!(
        "the own namespace {namespace:?} (-namespace, POD_NAMESPACE) is not a valid object name"
    ))
}

/// On which clusters a Lease is kept.
struct Places {
    hub: bool,
    managed: bool,
}

fn places(flags: &Flags) -> Result<Places, String> {
    let named =
        ["hub-kubeconfig", "hub-kubeconfig-secret"].iter().any(|name| flags.some(name).is_some());
    match (flags.text("lease-target"), named) {
        ("", true) | ("hub", _) => Ok(Places { hub: true, managed: false }),
        ("", false) | ("managed", _) => Ok(Places { hub: false, managed: true }),
        ("both", _) => Ok(Places { hub: true, managed: true }),
        (other, _) => Err(format!("-lease-target is hub, managed or both, not {other:?}")),
    }
}

fn hub(
    flags: &Flags,
    secret_namespace: impl FnOnce() -> Result<String, String>,
) -> Result<HubTarget, String> {
    let namespace = required(flags, "lease-namespace")?;
    let credentials = match (flags.some("hub-kubeconfig"), flags.some("hub-kubeconfig-secret")) {
        (Some(file), None) => HubCredentials::File(file.into(), Reach::of(flags)),
        (None, Some(name)) => {
            HubCredentials::Secret { namespace: secret_namespace()?, name: name.to_owned() }
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
    Ok(HubTarget { namespace, credentials })
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

#[cfg(test)]
mod tests {
    use shared::flags::parse;

    use super::*;

    /// The settings of a command line; `env` is `NAME=value` words, the service account is in `sa`.
    fn settings(line: &str, env: &str) -> Result<Settings, String> {
        checked(line, env, Some("sa"))
    }

    fn checked(line: &str, env: &str, account: Option<&str>) -> Result<Settings, String> {
        let arguments = line.split_whitespace().map(Into::into);
        let Invocation::Run(flags) = parse("x", &table(), arguments)? else { panic!("help") };
        let variable = |name: &str| {
            let mut words = env.split_whitespace().filter_map(|word| word.split_once('='));
            words.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        let own = flags.some("namespace").map(str::to_owned).or_else(|| variable("POD_NAMESPACE"));
        Settings::check(&flags, &variable, own.or_else(|| account.map(str::to_owned)))
    }

    /// The same outside of a pod.
    fn bare(line: &str, env: &str) -> Result<Settings, String> {
        checked(line, env, None)
    }

    const HUB: &str = "-lease-name a -lease-namespace c -hub-kubeconfig-secret s";

    fn secret_namespace(line: &str, env: &str) -> String {
        let hub = settings(line, env).unwrap().hub.unwrap();
        hub.secret().unwrap().0.to_owned()
    }

    #[test]
    fn defaults_are_those_of_the_go_sidecar() {
        let settings = settings(HUB, "").unwrap();
        assert_eq!(settings.period, Duration::from_secs(60));
        assert_eq!(settings.startup_delay, Duration::from_secs(10));
        assert_eq!((settings.managed, settings.pod, settings.election), (None, None, None));
        let default = |name: &str| table().iter().find(|flag| flag.name == name).unwrap().default;
        assert_eq!((default("metrics-host"), default("metrics-port")), ("0.0.0.0", "8384"));
    }

    #[test]
    fn a13_the_secret_is_in_one_namespace() {
        assert_eq!(secret_namespace(HUB, "WATCH_NAMESPACE=w POD_NAMESPACE=p"), "w");
        assert_eq!(secret_namespace(HUB, "WATCH_NAMESPACE= POD_NAMESPACE=p"), "p");
        assert_eq!(secret_namespace(HUB, ""), "sa");
        assert_eq!(secret_namespace(&format!("{HUB} -namespace n"), "POD_NAMESPACE=p"), "n");
    }

    #[test]
    fn the_gate_needs_both_names_of_the_pod() {
        assert_eq!(settings(HUB, "POD_NAME=x").unwrap().pod, None);
        assert_eq!(settings(HUB, "POD_NAMESPACE=p").unwrap().pod, None);
        let pod = Some(("p".to_owned(), "x".to_owned()));
        assert_eq!(settings(HUB, "POD_NAME=x POD_NAMESPACE=p").unwrap().pod, pod);
    }

    #[test]
    fn d11_the_required_flags_are_asked_for_first() {
        for (line, env) in [("", ""), ("-leader-election", ""), ("", "POD_NAME=x POD_NAMESPACE=p")]
        {
            assert_eq!(bare(line, env).unwrap_err(), "-lease-name is required", "{line}");
        }
        let line = "-lease-name a -hub-kubeconfig-secret s";
        assert_eq!(bare(line, "").unwrap_err(), "-lease-namespace is required");
    }

    #[test]
    fn the_own_container_is_named_by_the_flag_or_perhaps_by_the_environment() {
        let own = |line: &str, env| settings(&format!("{HUB} {line}"), env).unwrap().own_container;
        let container = |name: &str, strict| Some(OwnContainer { name: name.to_owned(), strict });
        assert_eq!(own("", ""), None);
        assert_eq!(own("", "CONTAINER_NAME=e"), container("e", false));
        assert_eq!(own("-container-name f", "CONTAINER_NAME=e"), container("f", true));
    }

    #[test]
    fn the_target_follows_what_is_named() {
        let target = |line: &str| {
            let settings = settings(line, "POD_NAMESPACE=p").unwrap();
            (settings.hub.is_some(), settings.managed)
        };
        let managed = |namespace: &str| Some(namespace.to_owned());
        assert_eq!(target(HUB), (true, None));
        assert_eq!(target("-lease-name a"), (false, managed("p")));
        assert_eq!(target(&format!("{HUB} -lease-target both")), (true, managed("p")));
        assert_eq!(target(&format!("{HUB} -lease-target managed")), (false, managed("p")));
        assert_eq!(target("-lease-name a -managed-lease-namespace m"), (false, managed("m")));
        let file = "-lease-name a -lease-namespace c -hub-kubeconfig /f";
        assert_eq!(target(file), (true, None));
    }

    #[test]
    fn requests_get_half_a_period() {
        for (period, timeout) in [(1, 1), (4, 2), (60, 10), (3600, 10)] {
            let settings = settings(&format!("{HUB} -lease-duration {period}"), "").unwrap();
            assert_eq!(settings.request_timeout(), Duration::from_secs(timeout));
        }
    }

    #[test]
    fn f29_what_makes_no_sense_is_refused_in_a_sentence() {
        for (line, sentence) in [
            ("", "-lease-name is required"),
            ("-lease-name a -hub-kubeconfig-secret s", "-lease-namespace is required"),
            ("-lease-name a -lease-namespace c -lease-target both", "-hub-kubeconfig-secret or"),
            (
                "-lease-name a -lease-namespace c -hub-kubeconfig-secret s -hub-kubeconfig /f",
                "exclude each other",
            ),
            ("-lease-name a -lease-target all", "-lease-target is hub, managed or both"),
            ("-lease-name ../secrets/x", "-lease-name \"../secrets/x\" is not a valid object name"),
            (
                "-lease-name a -namespace B",
                "the own namespace \"B\" (-namespace, POD_NAMESPACE) is not",
            ),
            ("-lease-name a -lease-duration 0", "-lease-duration is a number"),
            ("-lease-name a -startup-delay -1", "-startup-delay is a number"),
        ] {
            let refusal = settings(line, "").unwrap_err();
            assert!(refusal.contains(sentence), "{line}: {refusal}");
        }
        let refusal = settings(HUB, "POD_NAME=a/b POD_NAMESPACE=p").unwrap_err();
        assert_eq!(refusal, "POD_NAME \"a/b\" is not a valid object name");
    }

    #[test]
    fn the_readme_shows_the_flags_as_they_are() {
        let help = shared::flags::help("addon-lease-controller", &table());
        let block =
            format!("<!-- flags:addon-lease-controller -->\n```text\n{help}```\n<!-- end -->");
        assert!(include_str!("../README.md").contains(&block), "README.md should hold\n{block}");
    }
}
