//! Command line of the work duty: the work agent's flags and defaults (ocm `pkg/work/spoke/options.go`), and this program's
//! own. Flags that the registration agent has, too, are csr-bootstrapper's.

use std::{path::PathBuf, time::Duration};

use apiclient::{election::ElectionTiming, resource::valid_label};
use csr_bootstrapper::{NAMESPACE, agent_flags, https::HttpsSettings};
use kubeconfig::{Env, Reach, own_namespace};
use sidecar::{
    flags::{FILES_ANYWHERE, Flag, FlagKind, Flags, Invocation, common, flag, text},
    leadership,
};

use crate::work::eviction::Evict;

/// All settings of the process, complete and valid.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    pub(crate) hub_kubeconfig: PathBuf,
    /// Kubeconfig of the managed cluster, if it is not the local one.
    pub(crate) spoke_kubeconfig: Option<PathBuf>,
    pub(crate) reach: Reach,
    /// `None`: the hash of the hub's URL.
    pub(crate) agent_id: Option<String>,
    pub(crate) evict: Evict,
    pub(crate) grace_period: Duration,
    pub(crate) https: Option<HttpsSettings>,
    pub(crate) election: Option<ElectionTiming>,
    /// The flags that were given and have no effect, each with the reason.
    ignored_flags: Vec<(&'static str, &'static str)>,
}

/// The work agent's Lease, so that either program takes over from the other (ocm `pkg/work/spoke/options.go`).
pub(crate) const LOCK: &str = "work-agent-lock";

/// Flags of both agents, as the registration agent has them.
const SHARED: [&str; 9] = [
    "cluster-name",
    "disable-leader-election",
    "leader-election-lease-duration",
    "leader-election-renew-deadline",
    "leader-election-retry-period",
    "listen",
    "spoke-kubeconfig",
    "tls-cipher-suites",
    "tls-min-version",
];

/// Flags of the work agent that are accepted and ignored, each with the reason.
const IGNORED: [(&str, &str); 16] = [
    ("cloudevents-client-codecs", FROM_KUBE),
    ("cloudevents-client-id", FROM_KUBE),
    ("feature-gates", NO_FEEDBACK),
    ("hub-kube-api-burst", FEW_REQUESTS),
    ("hub-kube-api-qps", FEW_REQUESTS),
    ("hub-kubeconfig", OF_REGISTRATION),
    ("hub-kubeconfig-dir", OF_REGISTRATION),
    ("kube-api-burst", FEW_REQUESTS),
    ("kube-api-qps", FEW_REQUESTS),
    ("log-flush-frequency", "lines are written at once."),
    ("max-feedback-watch", NO_FEEDBACK),
    ("max-json-raw-length", NO_FEEDBACK),
    ("status-sync-interval", "watches report changes at once."),
    ("terminate-on-files", "changed files are read again without a restart."),
    ("vmodule", "-v is for all lines."),
    ("workload-agent-workers", FEW_REQUESTS),
];
const FEW_REQUESTS: &str = "requests are few, and sent one after the other.";
const FROM_KUBE: &str = "works come from the hub's API server.";
const NO_FEEDBACK: &str = "this version reports no feedback values and has no gates.";
const OF_REGISTRATION: &str = "the hub's kubeconfig is that of -workload-source-config.";

/// The flag table.
pub(crate) fn table() -> Vec<Flag> {
    let mut table: Vec<Flag> = agent_flags();
    table.retain(|flag| SHARED.contains(&flag.name));
    table.extend([
        text("agent-id", "Identity of the agent in its AppliedManifestWorks (default: the hash of the hub's URL)."),
        flag(
            "appliedmanifestwork-eviction-grace-period",
            FlagKind::Duration,
            "60m",
            "How long a ManifestWork is absent before what it applied is deleted.",
        ),
        flag(
            "evict",
            FlagKind::String,
            "after",
            "What happens after this time: after evicts, unless more than one and more than a tenth of the works are absent together; all evicts however many are; never evicts none.",
        ),
        text("spoke-cluster-name", "Name of this cluster: the namespace of its ManifestWorks on the hub."),
        flag(
            "workload-source-config",
            FlagKind::String,
            "/spoke/hub-kubeconfig/kubeconfig",
            "Kubeconfig of the hub; it may come later, and is read again when it changes.",
        ),
        flag(
            "workload-source-driver",
            FlagKind::String,
            "kube",
            "Source of ManifestWorks; only kube is supported.",
        ),
        FILES_ANYWHERE,
    ]);
    table.extend(IGNORED.map(|(name, reason)| flag(name, FlagKind::Hidden, "", reason)));
    table.push(flag("config", FlagKind::Hidden, "", "refused"));
    table.extend(common("8388"));
    table
}

impl Settings {
    /// Checks flags and environment together.
    ///
    /// # Errors
    /// One sentence about the flag.
    pub(crate) fn new(flags: &Flags) -> Result<Invocation<Self>, String> {
        Self::check(flags, own_namespace(flags.some("namespace"), &Env::process()))
            .map(Invocation::Run)
    }

    fn check(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        if flags.is_given("config") {
            return Err("-config has no meaning here: its settings are flags, -listen and \
                -tls-min-version"
                .into());
        }
        let driver = flags.text("workload-source-driver");
        if driver != "kube" {
            return Err(format!("-workload-source-driver must be kube, got {driver:?}"));
        }
        let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        if !valid_label(&namespace) {
            return Err(format!("the namespace must be a label, got {namespace:?}"));
        }
        let election = leadership::timing(flags)?;
        Ok(Self {
            namespace,
            cluster: cluster(flags)?,
            hub_kubeconfig: flags.required("workload-source-config")?.into(),
            spoke_kubeconfig: flags.some("spoke-kubeconfig").map(PathBuf::from),
            reach: flags.reach(),
            agent_id: flags.some("agent-id").map(str::to_owned),
            evict: evict(flags.text("evict"))?,
            grace_period: flags.duration("appliedmanifestwork-eviction-grace-period"),
            https: HttpsSettings::of(flags)?,
            election: (!flags.switch("disable-leader-election")).then_some(election),
            ignored_flags: IGNORED.into_iter().filter(|(name, _)| flags.is_given(name)).collect(),
        })
    }

    /// Logs the ignored flags, once there is a log.
    pub(crate) fn log_ignored(&self) {
        for (name, reason) in &self.ignored_flags {
            log::info!("-{name} is ignored: {reason}");
        }
    }
}

fn cluster(flags: &Flags) -> Result<String, String> {
    let cluster = match flags.some("cluster-name") {
        Some(name) => name.to_owned(),
        None => flags.required("spoke-cluster-name")?,
    };
    if flags.some("spoke-cluster-name").is_some_and(|other| other != cluster) {
        return Err("-cluster-name and -spoke-cluster-name differ".into());
    }
    if !valid_label(&cluster) {
        return Err(format!("-spoke-cluster-name must be a namespace, got {cluster:?}"));
    }
    Ok(cluster)
}

fn evict(word: &str) -> Result<Evict, String> {
    match word {
        "after" => Ok(Evict::After),
        "all" => Ok(Evict::All),
        "never" => Ok(Evict::Never),
        other => Err(format!("-evict must be after, all or never, got {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use sidecar::flags::{help, parse};

    use super::*;

    fn settings(line: &str) -> Result<Settings, String> {
        let arguments = line.split_whitespace().map(Into::into);
        match parse("klusterlet-agent", &table(), arguments)? {
            Invocation::Run(flags) => Settings::check(&flags, None),
            Invocation::Print(text) => Err(text),
        }
    }

    /// The arguments of the operator's Deployment (ocm `klusterlet-work-deployment.yaml`).
    #[test]
    fn command_line_of_the_operator_is_understood() {
        let settings = settings(
            "--spoke-cluster-name=c --workload-source-driver=kube --agent-id=k \
            --workload-source-config=/spoke/hub-kubeconfig/kubeconfig --feature-gates=X=true \
            --spoke-kubeconfig=/spoke/config/kubeconfig --status-sync-interval=60s \
            --terminate-on-files=/spoke/hub-kubeconfig/kubeconfig --kube-api-qps=1 \
            --appliedmanifestwork-eviction-grace-period=10m",
        )
        .unwrap();
        assert_eq!((&*settings.cluster, settings.agent_id.as_deref()), ("c", Some("k")));
        assert_eq!(settings.grace_period, Duration::from_secs(600));
        assert_eq!(settings.namespace, NAMESPACE);
        assert!(settings.https.is_some() && settings.election.is_some());
        let ignored: Vec<_> = settings.ignored_flags.iter().map(|(name, _)| *name).collect();
        let expected =
            ["feature-gates", "kube-api-qps", "status-sync-interval", "terminate-on-files"];
        assert_eq!(ignored, expected);
    }

    #[test]
    fn unusable_settings_are_refused_with_a_reason() {
        for (line, sentence) in [
            ("", "-spoke-cluster-name is required"),
            (
                "-cluster-name a -spoke-cluster-name b",
                "-cluster-name and -spoke-cluster-name differ",
            ),
            ("-cluster-name A/b", "-spoke-cluster-name must be a namespace, got \"A/b\""),
            ("-cluster-name c -evict x", "-evict must be after, all or never, got \"x\""),
            (
                "-cluster-name c -workload-source-driver mqtt",
                "-workload-source-driver must be kube, got \"mqtt\"",
            ),
            (
                "-cluster-name c -config f",
                "-config has no meaning here: its settings are flags, -listen and -tls-min-version",
            ),
        ] {
            assert_eq!(settings(line).unwrap_err(), sentence, "{line}");
        }
    }

    #[test]
    fn reference_shows_the_flags_as_they_are() {
        let help = help("klusterlet-agent", &table());
        let block = format!("<!-- flags:klusterlet-agent -->\n```text\n{help}```\n<!-- end -->");
        assert!(
            include_str!("../REFERENCE.md").contains(&block),
            "REFERENCE.md should hold\n{block}"
        );
    }
}
