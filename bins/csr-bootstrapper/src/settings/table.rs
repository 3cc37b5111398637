//! The flag table: the registration agent's names and defaults (ocm `pkg/common/options`,
//! `pkg/registration/spoke/options.go`, `pkg/registration/register/factory/options.go`), its flags that
//! have no meaning here, and what is added.

use shared::flags::{FILES_ANYWHERE, Flag, FlagKind, common};

/// All flags.
pub(crate) fn table() -> Vec<Flag> {
    let mut table = registration();
    table.extend(surroundings());
    table.extend(REFUSED.iter().flat_map(|(reason, names)| {
        names.iter().map(|name| flag(name, FlagKind::Refused, "", reason))
    }));
    table.push(FILES_ANYWHERE);
    // Each program has a port of its own: they may share a pod.
    table.extend(common("8385"));
    table
}

const fn flag(
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, kind, default, help }
}

/// What the cluster and its agent are on the hub, and how they get there.
fn registration() -> Vec<Flag> {
    vec![
        flag(
            "agent-id",
            FlagKind::String,
            "",
            "Last part of the agent's user name on the hub (default: the one it has, at first a random one).",
        ),
        flag(
            "bootstrap-kubeconfig",
            FlagKind::String,
            "",
            "File with the kubeconfig to join the hub with, instead of the Secret; read again when it changes.",
        ),
        flag(
            "bootstrap-kubeconfig-secret",
            FlagKind::String,
            "bootstrap-hub-kubeconfig",
            "Secret with the kubeconfig to join the hub with, in the own namespace.",
        ),
        flag(
            "client-cert-expiration-seconds",
            FlagKind::Int,
            "0",
            "Lifetime of the certificate to ask for, from 3600 on; 0 leaves it to the hub.",
        ),
        flag(
            "cluster-annotations",
            FlagKind::List,
            "",
            "Annotations k=v,... of the ManagedCluster; only keys that begin with agent.open-cluster-management.io.",
        ),
        flag(
            "cluster-name",
            FlagKind::String,
            "",
            "Name of the cluster on the hub (default: the one it has, at first a random one).",
        ),
        flag(
            "hub-kubeconfig-dir",
            FlagKind::String,
            "",
            "Directory that hub-kubeconfig-dumper writes: names are read there too, and ready is only what has arrived there (default: none).",
        ),
        flag(
            "hub-kubeconfig-secret",
            FlagKind::String,
            "hub-kubeconfig-secret",
            "Secret for the hub's kubeconfig, certificate and key, in the own namespace.",
        ),
        flag(
            "registration-auth",
            FlagKind::String,
            "csr",
            "How to register; csr is the only way here.",
        ),
        flag("spoke-cluster-name", FlagKind::String, "", "The same as -cluster-name."),
        flag(
            "spoke-external-server-urls",
            FlagKind::List,
            "",
            "https URLs of this cluster's API server for the ManagedCluster.",
        ),
    ]
}

/// How the program runs, and beside what.
fn surroundings() -> Vec<Flag> {
    vec![
        flag(
            "cluster-healthcheck-period",
            FlagKind::Duration,
            "1m",
            "Between two looks at the health of this cluster's API server.",
        ),
        flag(
            "disable-leader-election",
            FlagKind::Bool,
            "false",
            "Work without being the leader: for a single replica.",
        ),
        flag(
            "leader-election-lease-duration",
            FlagKind::Duration,
            "137s",
            "Others take the lead when it was not renewed for this long.",
        ),
        flag(
            "leader-election-renew-deadline",
            FlagKind::Duration,
            "107s",
            "The leader gives up when it could not renew for this long.",
        ),
        flag(
            "leader-election-retry-period",
            FlagKind::Duration,
            "26s",
            "Between two tries to get or to renew the lead.",
        ),
        flag(
            "once",
            FlagKind::Bool,
            "false",
            "Exit when the Secret holds a certificate that can be used, as an init container does; without election.",
        ),
        flag(
            "spoke-kubeconfig",
            FlagKind::String,
            "",
            "Kubeconfig of the cluster that joins, where it is not the one this runs on.",
        ),
        flag(
            "wait-timeout",
            FlagKind::Seconds,
            "24h",
            "With -once: how long to wait for a certificate that can be used; 0 looks once.",
        ),
    ]
}

/// Flags of the registration agent that would not do what is expected of them.
const REFUSED: [(&str, &[&str]); 9] = [
    ("the kubeconfig is kept in -hub-kubeconfig-secret.", &["hub-kubeconfig"]),
    (
        "requests are few, and each loop has a pace of its own.",
        &["hub-kube-api-qps", "hub-kube-api-burst", "kube-api-qps", "kube-api-burst"],
    ),
    (
        "the endpoint is plain HTTP on -metrics-host and -metrics-port.",
        &["config", "listen", "tls-cipher-suites", "tls-min-version"],
    ),
    ("changed files are read again without a restart.", &["terminate-on-files"]),
    ("there are no features to choose from.", &["feature-gates"]),
    (
        "there is one hub, that of -bootstrap-kubeconfig or its Secret.",
        &["bootstrap-kubeconfigs", "hub-connection-timeout-seconds"],
    ),
    ("claims are not reported.", &["max-custom-cluster-claims", "reserved-cluster-claim-suffixes"]),
    (
        "add-ons are not registered.",
        &["addon-kubeclient-registration-auth", "addon-token-expiration-seconds"],
    ),
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
