//! Flag table: the registration agent's flags and defaults (ocm `pkg/common/options`,
//! `pkg/registration/spoke/options.go`, `pkg/registration/register/factory/options.go`), those of its flags
//! that have no effect here, and this program's own.

use sidecar::flags::{FILES_ANYWHERE, Flag, FlagKind, common, flag};

use crate::command::CommandForm;

/// The Secret with the bootstrap kubeconfig without a flag, and for the klusterlet operator.
pub(super) const BOOTSTRAP_SECRET: &str = "bootstrap-hub-kubeconfig";

/// All flags, with the defaults of this command line.
pub(crate) fn table(form: CommandForm) -> Vec<Flag> {
    let mut table = registration();
    table.extend(surroundings());
    for rows in [&IGNORED, &REFUSED] {
        table.extend(names(rows).map(|(name, reason)| flag(name, FlagKind::Hidden, "", reason)));
    }
    table.push(FILES_ANYWHERE);
    // Each program has a port of its own: they may share a pod.
    table.extend(common("8385"));
    if form == CommandForm::Agent {
        for flag in &mut table {
            let default = AGENT_DEFAULTS.iter().find(|(name, _)| *name == flag.name);
            flag.default = default.map_or(flag.default, |(_, default)| default);
        }
    }
    table
}

/// The defaults of `registration agent` that differ: the volumes of its Deployment (ocm
/// `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`), where it writes the files itself.
pub(super) const AGENT_DEFAULTS: [(&str, &str); 4] = [
    ("bootstrap-kubeconfig", "/spoke/bootstrap/kubeconfig"),
    ("hub-kubeconfig-dir", "/spoke/hub-kubeconfig"),
    // library-go `pkg/controller/controllercmd/flags.go`.
    ("listen", "0.0.0.0:8443"),
    ("write-files", "true"),
];

/// The identity of the cluster and its agent on the hub, and the way there.
fn registration() -> Vec<Flag> {
    vec![
        flag(
            "addon-kubeclient-registration-auth",
            FlagKind::String,
            "csr",
            "How agents of add-ons authenticate to the hub's API server: csr or token.",
        ),
        flag(
            "addon-token-expiration-seconds",
            FlagKind::Int,
            "31536000",
            "Lifetime of the tokens to request for add-ons, at least 600.",
        ),
        flag(
            "agent-id",
            FlagKind::String,
            "",
            "Last part of the agent's user name on the hub (default: as stored, else generated).",
        ),
        flag(
            "bootstrap-kubeconfig",
            FlagKind::String,
            "",
            "File with the bootstrap kubeconfig, instead of the Secret; re-read when it changes.",
        ),
        flag(
            "bootstrap-kubeconfig-secret",
            FlagKind::List,
            BOOTSTRAP_SECRET,
            "Secret with the bootstrap kubeconfig, in the program's namespace; several with feature MultipleHubs, in order of preference.",
        ),
        flag(
            "bootstrap-kubeconfigs",
            FlagKind::List,
            "",
            "With feature MultipleHubs: files with the bootstrap kubeconfigs, in order of preference, instead of the Secrets.",
        ),
        flag(
            "client-cert-expiration-seconds",
            FlagKind::Int,
            "0",
            "Lifetime of the certificate to request, at least 3600; 0 leaves it to the hub.",
        ),
        flag(
            "cluster-annotations",
            FlagKind::List,
            "",
            "Annotations k=v,... of the ManagedCluster; only keys that start with agent.open-cluster-management.io.",
        ),
        flag(
            "cluster-name",
            FlagKind::String,
            "",
            "Name of the cluster on the hub (default: as stored, else generated).",
        ),
        flag(
            "feature-gates",
            FlagKind::List,
            "",
            "Features Name=true|false,...: AddonManagement registers add-ons and reports whether they are available (default true), ClusterClaim the cluster's claims (default true), ClusterProperty its properties (default false), MultipleHubs selects one of several hubs (default false).",
        ),
        flag(
            "hub-connection-timeout-seconds",
            FlagKind::Int,
            "600",
            "With feature MultipleHubs: seconds without a heartbeat on the hub before another one is selected.",
        ),
        flag(
            "hub-kubeconfig-dir",
            FlagKind::String,
            "",
            "Directory for the files of -hub-kubeconfig-secret, written with -write-files or by hub-kubeconfig-dumper: names are read there too, and /readyz waits for the credential to arrive there (default: none).",
        ),
        flag(
            "hub-kubeconfig-secret",
            FlagKind::String,
            "hub-kubeconfig-secret",
            "Secret for the hub kubeconfig, certificate and key, in the program's namespace.",
        ),
        flag(
            "managed-namespaces",
            FlagKind::Bool,
            "true",
            "Create and label the namespaces that the hub's cluster sets manage.",
        ),
        flag(
            "max-custom-cluster-claims",
            FlagKind::Int,
            "20",
            "ClusterClaims to report besides the reserved ones.",
        ),
        flag(
            "registration-auth",
            FlagKind::String,
            "csr",
            "How to register; only csr is supported.",
        ),
        flag(
            "report-capacity",
            FlagKind::Bool,
            "true",
            "Report what the cluster's nodes have together: capacity and allocatable.",
        ),
        flag(
            "reserved-cluster-claim-suffixes",
            FlagKind::List,
            "",
            "Ends of names of ClusterClaims that are always reported.",
        ),
        flag("spoke-cluster-name", FlagKind::String, "", "Same as -cluster-name."),
        flag(
            "spoke-external-server-urls",
            FlagKind::List,
            "",
            "https URLs of this cluster's API server, for the ManagedCluster.",
        ),
    ]
}

/// Frame of the program: its clusters, election and endpoint.
fn surroundings() -> Vec<Flag> {
    vec![
        flag(
            "cluster-healthcheck-period",
            FlagKind::Duration,
            "1m",
            "Interval between health checks of this cluster's API server.",
        ),
        flag(
            "disable-leader-election",
            FlagKind::Bool,
            "false",
            "Do not elect a leader (single replica).",
        ),
        flag(
            "leader-election-lease-duration",
            FlagKind::Duration,
            "137s",
            "How long a leader that stops renewing keeps its Lease.",
        ),
        flag(
            "leader-election-renew-deadline",
            FlagKind::Duration,
            "107s",
            "How long the leader keeps trying to renew before it gives up.",
        ),
        flag(
            "leader-election-retry-period",
            FlagKind::Duration,
            "26s",
            "Interval between attempts to acquire or renew leadership.",
        ),
        flag(
            "listen",
            FlagKind::String,
            "",
            "Address and port for the endpoints by HTTPS too, with a self-signed certificate of this start (default: none).",
        ),
        flag(
            "once",
            FlagKind::Bool,
            "false",
            "Exit once the Secret holds a valid certificate, for an init container; no leader election.",
        ),
        flag(
            "spoke-kubeconfig",
            FlagKind::String,
            "",
            "Kubeconfig of the cluster that joins, if it is not the local one.",
        ),
        flag(
            "tls-cipher-suites",
            FlagKind::List,
            "",
            "With -listen: cipher suites of TLS 1.2, by Go's names; those for an ECDSA key count (default: all of them).",
        ),
        flag(
            "tls-min-version",
            FlagKind::String,
            "VersionTLS12",
            "With -listen: VersionTLS12 or VersionTLS13.",
        ),
        flag(
            "wait-timeout",
            FlagKind::Seconds,
            "24h",
            "With -once: how long to wait for a valid certificate; 0 checks once.",
        ),
        flag(
            "write-files",
            FlagKind::Bool,
            "false",
            "Write the files of -hub-kubeconfig-dir, as hub-kubeconfig-dumper does; not with -once.",
        ),
    ]
}

/// Reasons, and the names of flags.
type Rows = [(&'static str, &'static [&'static str]); 3];

/// The names of flags, each with its reason.
pub(super) fn names(rows: &Rows) -> impl Iterator<Item = (&'static str, &'static str)> {
    rows.iter().flat_map(|(reason, names)| names.iter().map(|name| (*name, *reason)))
}

/// Flags of the registration agent that are accepted and ignored.
pub(super) const IGNORED: Rows = [
    (
        "requests are few, and each loop has a pace of its own.",
        &["hub-kube-api-qps", "hub-kube-api-burst", "kube-api-qps", "kube-api-burst"],
    ),
    ("changed files are read again without a restart.", &["terminate-on-files"]),
    ("lines are written at once, and -v is for all of them.", &["log-flush-frequency", "vmodule"]),
];

/// Flags of the registration agent that would not do here what users expect.
pub(super) const REFUSED: Rows = [
    ("the kubeconfig is kept in -hub-kubeconfig-secret.", &["hub-kubeconfig"]),
    ("the settings of such a file are flags here: -listen and -tls-min-version.", &["config"]),
    (
        "registration is by CSR alone.",
        &[
            "grpc-bootstrap-config",
            "grpc-config",
            "hub-cluster-arn",
            "managed-cluster-arn",
            "managed-cluster-role-suffix",
        ],
    ),
];
