//! Flag table: sync-controller's fields and clustercache's options with their defaults, and what this program adds.

use sidecar::{
    flag_rows,
    flags::{Flag, common},
};

pub(crate) fn table() -> Vec<Flag> {
    let mut table = own();
    // Each program has its own port: they may share a pod.
    table.extend(common("8387"));
    table
}

fn own() -> Vec<Flag> {
    flag_rows! {
        ["What to copy"]
        "direction" String "pull" =>
            "pull: the remotes are the sources, this cluster is the target; push: the other way round.";
        "ignore-field" List "" =>
            "KIND:POINTER of a field to set on creation and then ignore, as in deployments.apps:/spec/replicas.";
        "namespace-prefix" String "" =>
            "Only namespaces with this prefix, on both sides (default: all).";
        "resource" List "" =>
            "Kinds to sync: plural.group or group/version/plural; in the core group plural or v1/plural. Required.";
        // A list, so that a second one is an error.
        "source-namespace" List "" => "The one namespace of all sources (default: all).";
        "target-namespace" String "" =>
            "The namespace of all targets, which is never created; needs -source-namespace.";
        "target-secret-name" List "" =>
            "Exact names of Secrets to upload, if a target controls them.";

        ["Remotes"]
        "remote-kubeconfig" List "" =>
            "[NAME=]FILE: a remote, named after the file by default; re-read when it changes.";
        "remote-kubeconfig-secret" List "" =>
            "[NAME=]NAMESPACE/SECRET[:KEY]: a remote, by default named after the Secret without -kubeconfig; key value or kubeconfig.";
        "remote-selector" String "" =>
            "[NAMESPACE:]SELECTOR: each matching Secret <cluster>-kubeconfig labelled cluster.x-k8s.io/cluster-name is a remote.";

        ["Names and bookkeeping"]
        "finalizer" String "cloud.teleport.dev/sync-local" =>
            "Finalizer on the source; its domain is the prefix of all annotations. Each instance needs its own, all of one domain.";
        "source-name-suffix" String "" =>
            "Suffix that source names carry and target names do not; {cluster} is the remote's name.";
        "target-namespace-suffix" String "" =>
            "Suffix that target namespaces carry and source namespaces do not; {cluster} is the remote's name.";
        "track" String "source" =>
            "Where bookkeeping is kept: source (finalizer and annotations on it) or target (the source gets its status alone).";

        ["Adoption and deletion"]
        "adopt" String "equal" =>
            "Which unmanaged object with the target's name becomes the copy: equal, only one with the source's content; always, any.";
        "max-deletions" String "10/10m" =>
            "N/TIME: limit for deletions of a kind on a cluster; while more wait, all of them do.";
        "namespace-policy" String "never" =>
            "Whether to delete namespaces created for targets: never, or empty (needs the right to list everything in them).";
        "orphan-grace" String "5m" =>
            "How long a target must be without a source before it is deleted, or never.";
        "target-propagation-policy" String "Foreground" =>
            "Propagation policy for deleting targets: Foreground, Background or Orphan.";

        ["Single runs"]
        "cleanup" Bool "false" =>
            "Remove this instance's finalizer and annotations on all clusters, and exit; objects stay.";
        "dry-run" Bool "false" => "Log the first write of each pair; write nothing.";
        "explain" Pair "" =>
            "KIND NAMESPACE/NAME: print the state or next action of this object's pair, with the reason, and exit; write nothing.";
        "once" Bool "false" => "Sync everything and exit; no leader election.";
        "print-rbac" Bool "false" =>
            "Print the RBAC that these flags need, for both sides, and exit.";
        "wait-timeout" Seconds "0" =>
            "With -once: how long to wait for unavailable clusters and kinds; 0 tries once.";

        ["Pace and limits"]
        "concurrent-reconciles" Int "8" => "Workers per remote.";
        "max-objects" Int "20000" =>
            "Objects of a kind on a cluster; with more, the kind is held. Each takes up to 1 KiB of memory.";
        "qps" Int "20" => "Requests per second to a cluster; 0 means unlimited.";
        "resync" Duration "10h" =>
            "Interval between full re-checks from cache (no API requests); 0 disables them.";

        ["Replicas"]
        "leader-election" Bool "false" => "Elect a leader; other replicas stand by.";
        "leader-election-name" String "remote-sync" =>
            "Name of the leader election Lease, in the program's namespace; each instance needs its own.";

        ["Connections"]
        "probe-interval" Duration "10s" => "Interval between probes of a connection.";
        "timeout" Duration "10s" => "For one request; a probe has half of it.";

        ["Names in sync-controller"]
        "local-namespace-suffix" Alias "target-namespace-suffix" => "";
        "local-propagation-policy" Alias "target-propagation-policy" => "";
        "local-secret-name" Alias "target-secret-name" => "";
        "remote-resource-suffix" Alias "source-name-suffix" => "";
    }
    .into()
}
