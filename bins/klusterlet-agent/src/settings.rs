//! Settings from the command line, for both duties or the work duty alone: the flags and defaults of upstream's agents,
//! and this program's own. csr-bootstrapper defines the flags of registration.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use apiclient::{election::ElectionTiming, resource::valid_label};
use csr_bootstrapper::{NAMESPACE, agent_flags};
use kubeconfig::{Env, own_namespace};
use sidecar::{
    diagnostics::HttpsSettings,
    flag_rows,
    flags::{Flag, Flags, common},
    leadership,
};

use crate::{
    command::Duties,
    work::{eviction::Evict, feedback::RawLimit},
};

/// All settings of the process, validated.
#[derive(Clone, Debug)]
pub(crate) enum Settings {
    Both { registration: Box<csr_bootstrapper::Settings>, work: WorkSettings },
    Work(AloneSettings),
}

/// Settings of the work duty.
#[derive(Clone, Debug)]
pub(crate) struct WorkSettings {
    pub(crate) hub_kubeconfig: PathBuf,
    /// Kubeconfig of the managed cluster; `None` for the pod's own cluster.
    pub(crate) spoke_kubeconfig: Option<PathBuf>,
    pub(crate) evict: Evict,
    pub(crate) grace_period: Duration,
    pub(crate) status_sync_interval: Duration,
    pub(crate) raw_limit: RawLimit,
}

/// Settings of a process with the work duty alone.
#[derive(Clone, Debug)]
pub(crate) struct AloneSettings {
    pub(crate) work: WorkSettings,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    /// `None` stands for the hash of the hub's URL.
    pub(crate) agent_id: Option<String>,
    pub(crate) https: Option<HttpsSettings>,
    pub(crate) election: Option<ElectionTiming>,
}

/// csr-bootstrapper's flags that this program omits: with `-once`, it would end before it applies works.
const LEFT_OUT: [&str; 2] = ["once", "wait-timeout"];

/// Flags of registration that the work agent has, too.
const SHARED: [&str; 20] = [
    "agent-id",
    "cluster-name",
    "config",
    "disable-leader-election",
    "feature-gates",
    "hub-kube-api-burst",
    "hub-kube-api-qps",
    "kube-api-burst",
    "kube-api-qps",
    "leader-election-lease-duration",
    "leader-election-renew-deadline",
    "leader-election-retry-period",
    "listen",
    "log-flush-frequency",
    "spoke-cluster-name",
    "spoke-kubeconfig",
    "terminate-on-files",
    "tls-cipher-suites",
    "tls-min-version",
    "vmodule",
];

const FROM_KUBE: &str = "works come from the hub's API server.";
const OF_REGISTRATION: &str = "the hub's kubeconfig is that of -workload-source-config.";

/// The feature gate for feedback values that are lists or maps.
const RAW_FEEDBACK: &str = "RawFeedbackJsonString";
const WORK_FEATURES: &str = "Features Name=true|false,...: RawFeedbackJsonString (default false).";
const FEATURES: &str = "Features Name=true|false,...: AddonManagement and ClusterClaim (default true), ClusterProperty, MultipleHubs and RawFeedbackJsonString (default false).";

/// Returns the flag table for these duties.
pub(crate) fn table(duties: Duties) -> Vec<Flag> {
    let common = common("8388");
    let mut registration: Vec<Flag> = agent_flags();
    registration.retain(|flag| {
        let is_here = match duties {
            Duties::Both => !LEFT_OUT.contains(&flag.name),
            Duties::Work => SHARED.contains(&flag.name),
        };
        is_here && common.iter().all(|other| other.name != flag.name)
    });
    for flag in registration.iter_mut().filter(|flag| flag.name == "feature-gates") {
        flag.help = if duties == Duties::Both { FEATURES } else { WORK_FEATURES };
    }
    let mut table = own();
    table.extend(registration);
    table.extend(common);
    if duties == Duties::Work {
        table.extend(flag_rows! {
            ["Without effect"]
            "hub-kubeconfig" Ignored "" => OF_REGISTRATION;
            "hub-kubeconfig-dir" Ignored "" => OF_REGISTRATION;
        });
    }
    table
}

/// The work agent's flags, its flags without effect here, and this program's own.
fn own() -> Vec<Flag> {
    flag_rows! {
        ["ManifestWorks"]
        "appliedmanifestwork-eviction-grace-period" Duration "60m" =>
            "How long a ManifestWork is absent before what it applied is deleted.";
        "evict" String "after" =>
            "Whether to delete it: after (not while several works, and more than a tenth, are absent), all (however many are) or never.";
        "max-json-raw-length" Int "1024" =>
            "With RawFeedbackJsonString: the longest feedback value as JSON, in bytes.";
        "status-sync-interval" Duration "10s" =>
            "Interval between reports of feedback and condition rules, and between reads of kinds that cannot be watched.";
        "workload-source-config" String "/spoke/hub-kubeconfig/kubeconfig" =>
            "For the work duty alone: the hub's kubeconfig, which another program keeps; re-read when it changes.";
        "workload-source-driver" String "kube" =>
            "Source of ManifestWorks; only kube is supported.";

        ["Without effect"]
        "cloudevents-client-codecs" Ignored "" => FROM_KUBE;
        "cloudevents-client-id" Ignored "" => FROM_KUBE;
        "max-feedback-watch" Ignored "" => "the watches that find changes of others serve feedback too.";
        "workload-agent-workers" Ignored "" => "requests are few, and sent one after the other.";
    }
    .into()
}

impl Settings {
    /// Validates flags and environment.
    ///
    /// # Errors
    /// One sentence about the invalid setting.
    pub(crate) fn new(flags: &Flags, duties: Duties) -> Result<Self, String> {
        match duties {
            Duties::Both => {
                let registration = Box::new(csr_bootstrapper::Settings::new(flags)?);
                let kubeconfig = written_kubeconfig(flags)?;
                let work = WorkSettings::new(flags, kubeconfig)?;
                Ok(Self::Both { registration, work })
            }
            Duties::Work => {
                let namespace = own_namespace(flags.some("namespace"), &Env::process());
                AloneSettings::new(flags, namespace).map(Self::Work)
            }
        }
    }
}

impl WorkSettings {
    fn new(flags: &Flags, hub_kubeconfig: PathBuf) -> Result<Self, String> {
        let driver = flags.text("workload-source-driver");
        if driver != "kube" {
            return Err(format!("-workload-source-driver must be kube, got {driver:?}"));
        }
        Ok(Self {
            hub_kubeconfig,
            spoke_kubeconfig: flags.some("spoke-kubeconfig").map(PathBuf::from),
            evict: evict(flags.text("evict"))?,
            grace_period: flags.duration("appliedmanifestwork-eviction-grace-period"),
            status_sync_interval: flags.period("status-sync-interval")?,
            raw_limit: raw_limit(flags)?,
        })
    }
}

impl AloneSettings {
    fn new(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        if !valid_label(&namespace) {
            return Err(format!("the namespace must be a label, got {namespace:?}"));
        }
        let election = leadership::timing(flags)?;
        let kubeconfig = flags.required("workload-source-config")?.into();
        Ok(Self {
            cluster: cluster(flags)?,
            work: WorkSettings::new(flags, kubeconfig)?,
            namespace,
            agent_id: flags.some("agent-id").map(str::to_owned),
            https: HttpsSettings::of(flags)?,
            election: (!flags.switch("disable-leader-election")).then_some(election),
        })
    }
}

/// The CRD's limit, in bytes: the hub would refuse a whole status with a longer value.
const MAX_JSON_RAW_LENGTH: u32 = 1024;

/// Returns the length limit of raw values; `None` if their gate is off. Registration checks the other gates.
fn raw_limit(flags: &Flags) -> Result<RawLimit, String> {
    let limit = flags.number_in("max-json-raw-length", 0..=MAX_JSON_RAW_LENGTH)?;
    let gates = flags.list("feature-gates").into_iter().filter_map(|gate| gate.split_once('='));
    let gate = gates.rev().find(|(name, _)| *name == RAW_FEEDBACK);
    let is_on = gate.is_some_and(|(_, value)| value == "true");
    Ok(usize::try_from(limit).ok().filter(|_| is_on))
}

/// Returns the path of the kubeconfig that registration writes.
fn written_kubeconfig(flags: &Flags) -> Result<PathBuf, String> {
    let written = PathBuf::from(flags.required("hub-kubeconfig-dir")?).join("kubeconfig");
    let source = flags.text("workload-source-config");
    if flags.is_given("workload-source-config") && written != Path::new(source) {
        return Err(format!(
            "-workload-source-config must be in -hub-kubeconfig-dir, as {}, got {source:?}",
            written.display()
        ));
    }
    Ok(written)
}

fn cluster(flags: &Flags) -> Result<String, String> {
    let cluster = flags.required("cluster-name")?;
    if !valid_label(&cluster) {
        return Err(format!("-cluster-name must be a namespace, got {cluster:?}"));
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
    use sidecar::flags::{Invocation, help, parse};

    use super::*;

    fn parsed(line: &str, duties: Duties) -> Result<Flags, String> {
        let arguments = line.split_whitespace().map(Into::into);
        match parse("klusterlet-agent", &table(duties), arguments)? {
            Invocation::Run(flags) => Ok(flags),
            Invocation::Print(text) => Err(text),
        }
    }

    fn settings(line: &str) -> Result<AloneSettings, String> {
        AloneSettings::new(&parsed(line, Duties::Work)?, None)
    }

    fn both(line: &str) -> Result<Settings, String> {
        Settings::new(&parsed(line, Duties::Both)?, Duties::Both)
    }

    /// The arguments of the operator's Deployment (ocm `klusterlet-work-deployment.yaml`).
    #[test]
    fn command_line_of_the_operator_is_understood() {
        let line = "--spoke-cluster-name=c --workload-source-driver=kube --agent-id=k \
            --workload-source-config=/spoke/hub-kubeconfig/kubeconfig --feature-gates=X=true \
            --spoke-kubeconfig=/spoke/config/kubeconfig --status-sync-interval=60s \
            --terminate-on-files=/spoke/hub-kubeconfig/kubeconfig --kube-api-qps=1 \
            --appliedmanifestwork-eviction-grace-period=10m";
        let settings = settings(line).unwrap();
        assert_eq!((&*settings.cluster, settings.agent_id.as_deref()), ("c", Some("k")));
        assert_eq!(settings.work.grace_period, Duration::from_secs(600));
        assert_eq!(settings.namespace, NAMESPACE);
        assert!(settings.https.is_some() && settings.election.is_some());
        let flags = parsed(line, Duties::Work).unwrap();
        let ignored: Vec<_> = flags.ignored().keys().copied().collect();
        assert_eq!(ignored, ["kube-api-qps", "terminate-on-files"]);
        assert_eq!(settings.work.status_sync_interval, Duration::from_secs(60));
        assert_eq!(settings.work.raw_limit, None);
    }

    /// The same in mode SingletonHosted, with all that a Klusterlet may set (ocm `klusterlet-agent-deployment.yaml`).
    #[test]
    fn command_line_of_the_operators_singleton_is_understood() {
        let settings = both(
            "--spoke-cluster-name=c --bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig \
            --agent-id=k --workload-source-driver=kube \
            --workload-source-config=/spoke/hub-kubeconfig/kubeconfig \
            --feature-gates=ExecutorValidatingCaches=true --feature-gates=RawFeedbackJsonString=true \
            --feature-gates=AddonManagement=true --feature-gates=ClusterProperty=true \
            --spoke-external-server-urls=https://a:6443 --status-sync-interval=60s \
            --client-cert-expiration-seconds=7200 \
            --cluster-annotations=agent.open-cluster-management.io/a=b \
            --spoke-kubeconfig=/spoke/config/kubeconfig \
            --terminate-on-files=/spoke/config/kubeconfig --kube-api-qps=50 --kube-api-burst=100 \
            --hub-kube-api-qps=50 --hub-kube-api-burst=100 --max-custom-cluster-claims=7 \
            --reserved-cluster-claim-suffixes=a.io --addon-kubeclient-registration-auth=token \
            --addon-token-expiration-seconds=7200 --tls-min-version=VersionTLS12 \
            --appliedmanifestwork-eviction-grace-period=10m",
        );
        let Ok(Settings::Both { work, .. }) = settings else { panic!("{settings:?}") };
        assert_eq!(work.hub_kubeconfig, PathBuf::from("/spoke/hub-kubeconfig/kubeconfig"));
        assert_eq!(work.spoke_kubeconfig, Some("/spoke/config/kubeconfig".into()));
        assert_eq!(work.grace_period, Duration::from_secs(600));
        assert_eq!(work.raw_limit, Some(1024));
    }

    #[test]
    fn unusable_settings_of_both_duties_are_refused_with_a_reason() {
        for (line, sentence) in [
            (
                "-workload-source-config /a/kubeconfig",
                "-workload-source-config must be in -hub-kubeconfig-dir, as /spoke/hub-kubeconfig/kubeconfig, got \"/a/kubeconfig\"",
            ),
            ("-write-files=false -hub-kubeconfig-dir=", "-hub-kubeconfig-dir is required"),
            ("-workload-source-driver grpc", "-workload-source-driver must be kube, got \"grpc\""),
            ("-once", "flag provided but not defined: -once"),
        ] {
            assert_eq!(both(line).map(drop).unwrap_err(), sentence, "{line}");
        }
    }

    #[test]
    fn unusable_settings_are_refused_with_a_reason() {
        for (line, sentence) in [
            ("", "-cluster-name is required"),
            ("-spoke-cluster-name A/b", "-cluster-name must be a namespace, got \"A/b\""),
            ("-cluster-name c -evict x", "-evict must be after, all or never, got \"x\""),
            (
                "-cluster-name c -workload-source-driver mqtt",
                "-workload-source-driver must be kube, got \"mqtt\"",
            ),
            (
                "-cluster-name c -config f",
                "-config has no meaning here: the address in such a file is the flag -listen.",
            ),
        ] {
            assert_eq!(settings(line).map(drop).unwrap_err(), sentence, "{line}");
        }
    }

    /// csr-bootstrapper's reference shows the other flags.
    #[test]
    fn reference_shows_the_flags_of_works_as_they_are() {
        let help = help("klusterlet-agent", &own());
        let block = format!("<!-- flags:klusterlet-agent -->\n```text\n{help}```\n<!-- end -->");
        assert!(
            include_str!("../REFERENCE.md").contains(&block),
            "REFERENCE.md should hold\n{block}"
        );
    }
}
