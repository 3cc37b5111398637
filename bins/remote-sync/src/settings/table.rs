//! The flag table: sync-controller's fields and clustercache's options by their names, with the values
//! that these have there as defaults, and what is added.

use shared::flags::{FILES_ANYWHERE, Flag, FlagKind, common};

/// All flags.
pub(crate) fn table() -> Vec<Flag> {
    let mut table = objects();
    table.extend(clusters());
    table.extend(deletion());
    table.extend(surroundings());
    table.push(FILES_ANYWHERE);
    // Each program has a port of its own: they may share a pod.
    table.extend(common("8387"));
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

/// Which objects, and how they are called on both sides.
fn objects() -> Vec<Flag> {
    vec![
        flag(
            "annotation-prefix",
            FlagKind::String,
            "cloud.teleport.dev",
            "Prefix of all annotations that are written and read.",
        ),
        flag(
            "direction",
            FlagKind::String,
            "pull",
            "pull: remotes are the source of specs, this cluster is their target; push: the other way.",
        ),
        flag(
            "finalizer",
            FlagKind::String,
            "",
            "Finalizer on the source; each instance that shares objects needs one of its own (default: sync-local with the prefix).",
        ),
        flag(
            "local-namespace-suffix",
            FlagKind::String,
            "",
            "What the target's namespace has after the source's; {cluster} is the remote's name.",
        ),
        flag(
            "local-secret-name",
            FlagKind::List,
            "",
            "Secrets to upload, if a target's object controls them: their exact names.",
        ),
        flag(
            "mode",
            FlagKind::String,
            "safe",
            "safe, or compat: exactly sync-controller's writes, without marks on the target.",
        ),
        flag(
            "namespace-prefix",
            FlagKind::String,
            "",
            "Only namespaces that begin so, on both sides (default: all).",
        ),
        flag(
            "remote-resource-suffix",
            FlagKind::String,
            "",
            "What the source's name has after the target's; {cluster} is the remote's name.",
        ),
        flag(
            "resource",
            FlagKind::List,
            "",
            "Kinds to keep in step: plural.group or group/version/plural; without a group plural or v1/plural. Required.",
        ),
        flag("selector", FlagKind::String, "", "Label selector for objects of the source."),
        flag("source-namespace", FlagKind::List, "", "Namespaces of the source (default: all)."),
    ]
}

/// Which clusters, and what a connection is.
fn clusters() -> Vec<Flag> {
    vec![
        flag(
            "accept-identity",
            FlagKind::List,
            "",
            "[NAME=]UID: a remote may be this cluster, by the uid of kube-system, where it was another before.",
        ),
        flag("connection-retry", FlagKind::Duration, "30s", "Between two tries to connect."),
        flag("probe-failures", FlagKind::Int, "5", "Probes in a row that fail before it is lost."),
        flag("probe-interval", FlagKind::Duration, "10s", "Between two probes of a connection."),
        flag("probe-path", FlagKind::String, "/version", "What a probe asks for."),
        flag("probe-timeout", FlagKind::Duration, "5s", "For one probe."),
        flag(
            "remote-kubeconfig",
            FlagKind::List,
            "",
            "[NAME=]FILE: a remote, by default of the file's name; read again when it changes.",
        ),
        flag(
            "remote-kubeconfig-secret",
            FlagKind::List,
            "",
            "[NAME=]NAMESPACE/SECRET[:KEY]: a remote, by default of the Secret's name without -kubeconfig; key value, else kubeconfig.",
        ),
        flag(
            "remote-selector",
            FlagKind::String,
            "",
            "Label selector: each Secret <cluster>-kubeconfig with the label cluster.x-k8s.io/cluster-name is a remote, while it is there.",
        ),
        flag(
            "remote-selector-namespace",
            FlagKind::String,
            "",
            "Namespace of these Secrets (default: the own one).",
        ),
    ]
}

/// What may be deleted, and when.
fn deletion() -> Vec<Flag> {
    vec![
        flag(
            "local-propagation-policy",
            FlagKind::String,
            "Foreground",
            "How a target is deleted: Foreground, Background or Orphan.",
        ),
        flag(
            "max-deletions",
            FlagKind::String,
            "10/10m",
            "N/TIME: no more targets without a source than this are deleted, for each cluster.",
        ),
        flag(
            "orphan-grace",
            FlagKind::Duration,
            "5m",
            "With -orphan-policy confirm: how long a target has no source before it is deleted.",
        ),
        flag(
            "orphan-policy",
            FlagKind::String,
            "",
            "A target without a source: confirm deletes it when that is proven, keep does not (default: confirm; in compat: delete, at once).",
        ),
    ]
}

/// How the program runs.
fn surroundings() -> Vec<Flag> {
    vec![
        flag("burst", FlagKind::Int, "30", "Requests to a cluster that may come at once."),
        flag(
            "cleanup",
            FlagKind::Bool,
            "false",
            "Remove the finalizers and annotations of this instance from all clusters and exit; objects stay.",
        ),
        flag("concurrent-reconciles", FlagKind::Int, "8", "Workers for each remote."),
        flag("dry-run", FlagKind::Bool, "false", "Log what would be written, and write nothing."),
        flag("leader-election", FlagKind::Bool, "false", "Work only while leading the replicas."),
        flag(
            "leader-election-lease-duration",
            FlagKind::Duration,
            "15s",
            "Others take the lead when it was not renewed for this long.",
        ),
        flag(
            "leader-election-name",
            FlagKind::String,
            "remote-sync",
            "Name of the election's Lease, in the own namespace; each instance needs one of its own.",
        ),
        flag(
            "leader-election-renew-deadline",
            FlagKind::Duration,
            "10s",
            "The leader gives up when it could not renew for this long.",
        ),
        flag(
            "leader-election-retry-period",
            FlagKind::Duration,
            "2s",
            "Between two tries to get or to renew the lead.",
        ),
        flag(
            "max-objects",
            FlagKind::Int,
            "20000",
            "Objects of a kind on a cluster; where there are more the kind is held. Each takes up to 1 KiB of memory.",
        ),
        flag(
            "once",
            FlagKind::Bool,
            "false",
            "Bring everything in step and exit; without election.",
        ),
        flag(
            "print-rbac",
            FlagKind::Bool,
            "false",
            "Print the roles that these flags need, for both sides, and exit.",
        ),
        flag("qps", FlagKind::Int, "20", "Requests to a cluster in a second; 0 is without limit."),
        flag(
            "resync",
            FlagKind::Duration,
            "10h",
            "Between two looks at everything, without asking the servers; 0 turns them off.",
        ),
        flag("timeout", FlagKind::Duration, "10s", "For one request."),
        flag(
            "wait-timeout",
            FlagKind::Seconds,
            "0",
            "With -once: how long to wait for clusters and kinds that are not there; 0 looks once.",
        ),
    ]
}
