//! Flag table: sync-controller's fields and clustercache's options, with their names and defaults, and what this
//! program adds.

use sidecar::{
    flags::{FILES_ANYWHERE, Flag, FlagKind, common, flag, list, switch, text},
    leadership,
};

/// All flags.
pub(crate) fn table() -> Vec<Flag> {
    let mut table = objects();
    table.extend(clusters());
    table.extend(deletion());
    table.extend(program());
    table.extend(leadership::flags(["15s", "10s", "2s"]));
    table.push(FILES_ANYWHERE);
    // Each program has its own port: they may share a pod.
    table.extend(common("8387"));
    table
}

/// Objects, and their names on both sides.
fn objects() -> Vec<Flag> {
    vec![
        flag(
            "adopt",
            FlagKind::String,
            "equal",
            "Whether to adopt an unmanaged object with the target's name: never, equal (only with the source's content) or always.",
        ),
        flag(
            "annotation-prefix",
            FlagKind::String,
            "cloud.teleport.dev",
            "Prefix of all annotations written and read.",
        ),
        flag(
            "direction",
            FlagKind::String,
            "pull",
            "pull: the remotes are the sources, this cluster is the target; push: the other way round.",
        ),
        text(
            "finalizer",
            "Finalizer on the source; instances that share objects each need their own (default: sync-local with the prefix).",
        ),
        list(
            "ignore-field",
            "KIND:POINTER of a field to set on creation and then ignore, as in deployments.apps:/spec/replicas.",
        ),
        text(
            "local-namespace-suffix",
            "Suffix that target namespaces carry and source namespaces do not; {cluster} is the remote's name.",
        ),
        list("local-secret-name", "Exact names of Secrets to upload, if a target controls them."),
        text("namespace-prefix", "Only namespaces with this prefix, on both sides (default: all)."),
        text(
            "remote-resource-suffix",
            "Suffix that source names carry and target names do not; {cluster} is the remote's name.",
        ),
        list(
            "resource",
            "Kinds to sync: plural.group or group/version/plural; in the core group plural or v1/plural. Required.",
        ),
        list("secret-metadata", "Keys of labels and annotations that are uploaded with Secrets."),
        list("source-namespace", "The namespace of all sources (default: all)."),
        text(
            "target-namespace",
            "The namespace of all targets, which is never created; needs -source-namespace.",
        ),
        flag(
            "track",
            FlagKind::String,
            "source",
            "Where the bookkeeping is kept: source (finalizer and annotations on the source) or target (the source gets its status alone).",
        ),
    ]
}

/// Clusters and connections.
fn clusters() -> Vec<Flag> {
    vec![
        list(
            "accept-identity",
            "NAME=[OLD:]UID: accept UID as the cluster identity (uid of namespace kube-system) of remote NAME, in place of OLD or the recorded one.",
        ),
        flag(
            "probe-interval",
            FlagKind::Duration,
            "10s",
            "Interval between probes of a connection.",
        ),
        flag("probe-timeout", FlagKind::Duration, "5s", "Timeout of a probe."),
        list(
            "remote-kubeconfig",
            "[NAME=]FILE: a remote, named after the file by default; re-read when it changes.",
        ),
        list(
            "remote-kubeconfig-secret",
            "[NAME=]NAMESPACE/SECRET[:KEY]: a remote, named after the Secret without -kubeconfig by default; key value, else kubeconfig.",
        ),
        text(
            "remote-selector",
            "Label selector: each Secret <cluster>-kubeconfig with the label cluster.x-k8s.io/cluster-name is a remote, while it exists.",
        ),
        text("remote-selector-namespace", "Namespace of these Secrets (default: the program's)."),
    ]
}

/// Deletion.
fn deletion() -> Vec<Flag> {
    vec![
        flag(
            "local-propagation-policy",
            FlagKind::String,
            "Foreground",
            "Propagation policy for deleting targets: Foreground, Background or Orphan.",
        ),
        flag(
            "max-deletions",
            FlagKind::String,
            "10/10m",
            "N/TIME: limit for deletions of a kind on a cluster; while more wait, all of them do.",
        ),
        flag(
            "namespace-policy",
            FlagKind::String,
            "never",
            "When namespaces that were created for targets are deleted: never, or once they are empty, which takes the right to list everything there.",
        ),
        flag(
            "orphan-grace",
            FlagKind::Duration,
            "5m",
            "With -orphan-policy confirm: how long a target must be without a source before it is deleted.",
        ),
        flag(
            "orphan-policy",
            FlagKind::String,
            "confirm",
            "Targets without a source: confirm deletes them once that is proven, keep keeps them.",
        ),
    ]
}

/// The process and its tasks.
fn program() -> Vec<Flag> {
    vec![
        switch(
            "cleanup",
            "Remove this instance's finalizer, and its annotations with it, wherever they are on all clusters, and exit; objects stay.",
        ),
        flag("concurrent-reconciles", FlagKind::Int, "8", "Workers per remote."),
        flag(
            "explain",
            FlagKind::Pair,
            "",
            "KIND NAMESPACE/NAME: print the state of the pair of this source or target, or its next action and why, and exit; write nothing.",
        ),
        switch("dry-run", "Log the first write of each pair; write nothing."),
        switch("leader-election", "Elect a leader; other replicas stand by."),
        flag(
            "leader-election-name",
            FlagKind::String,
            "remote-sync",
            "Name of the leader election Lease, in the program's namespace; each instance needs its own.",
        ),
        flag(
            "max-objects",
            FlagKind::Int,
            "20000",
            "Objects of a kind on a cluster; with more, the kind is held. Each takes up to 1 KiB of memory.",
        ),
        switch("once", "Sync everything and exit; no leader election."),
        switch("print-rbac", "Print the RBAC that these flags need, for both sides, and exit."),
        flag("qps", FlagKind::Int, "20", "Requests per second to a cluster; 0 means unlimited."),
        flag(
            "resync",
            FlagKind::Duration,
            "10h",
            "Interval between full re-checks from cache (no API requests); 0 disables them.",
        ),
        flag("timeout", FlagKind::Duration, "10s", "For one request."),
        flag(
            "wait-timeout",
            FlagKind::Seconds,
            "0",
            "With -once: how long to wait for unavailable clusters and kinds; 0 checks once. Orphans are deleted only if -orphan-grace is no longer.",
        ),
    ]
}
