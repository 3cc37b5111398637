//! Flag table: sync-controller's fields and clustercache's options with their defaults, and what this program adds.

use sidecar::{
    flag_rows,
    flags::{FILES_ANYWHERE, Flag, common},
};

/// All flags.
pub(crate) fn table() -> Vec<Flag> {
    let mut table = own();
    table.push(FILES_ANYWHERE);
    // Each program has its own port: they may share a pod.
    table.extend(common("8387"));
    table
}

fn own() -> Vec<Flag> {
    flag_rows! {
        "accept-identity" List "" =>
            "NAME=[OLD:]UID: accept UID as the cluster identity (uid of namespace kube-system) of remote NAME, in place of OLD or the recorded one.";
        "adopt" String "equal" =>
            "Whether to adopt an unmanaged object with the target's name: never, equal (only with the source's content) or always.";
        "annotation-prefix" String "cloud.teleport.dev" =>
            "Prefix of all annotations written and read.";
        "cleanup" Bool "false" =>
            "Remove this instance's finalizer, and its annotations with it, wherever they are on all clusters, and exit; objects stay.";
        "concurrent-reconciles" Int "8" => "Workers per remote.";
        "direction" String "pull" =>
            "pull: the remotes are the sources, this cluster is the target; push: the other way round.";
        "dry-run" Bool "false" => "Log the first write of each pair; write nothing.";
        "explain" Pair "" =>
            "KIND NAMESPACE/NAME: print the state of the pair of this source or target, or its next action and why, and exit; write nothing.";
        "finalizer" String "" =>
            "Finalizer on the source; instances that share objects each need their own (default: sync-local with the prefix).";
        "ignore-field" List "" =>
            "KIND:POINTER of a field to set on creation and then ignore, as in deployments.apps:/spec/replicas.";
        "leader-election" Bool "false" => "Elect a leader; other replicas stand by.";
        "leader-election-name" String "remote-sync" =>
            "Name of the leader election Lease, in the program's namespace; each instance needs its own.";
        "max-deletions" String "10/10m" =>
            "N/TIME: limit for deletions of a kind on a cluster; while more wait, all of them do.";
        "max-objects" Int "20000" =>
            "Objects of a kind on a cluster; with more, the kind is held. Each takes up to 1 KiB of memory.";
        "namespace-policy" String "never" =>
            "When namespaces that were created for targets are deleted: never, or once they are empty, which takes the right to list everything there.";
        "namespace-prefix" String "" =>
            "Only namespaces with this prefix, on both sides (default: all).";
        "once" Bool "false" => "Sync everything and exit; no leader election.";
        "orphan-grace" Duration "5m" =>
            "With -orphan-policy confirm: how long a target must be without a source before it is deleted.";
        "orphan-policy" String "confirm" =>
            "Targets without a source: confirm deletes them once that is proven, keep keeps them.";
        "print-rbac" Bool "false" =>
            "Print the RBAC that these flags need, for both sides, and exit.";
        "probe-interval" Duration "10s" => "Interval between probes of a connection.";
        "probe-timeout" Duration "5s" => "Timeout of a probe.";
        "qps" Int "20" => "Requests per second to a cluster; 0 means unlimited.";
        "remote-kubeconfig" List "" =>
            "[NAME=]FILE: a remote, named after the file by default; re-read when it changes.";
        "remote-kubeconfig-secret" List "" =>
            "[NAME=]NAMESPACE/SECRET[:KEY]: a remote, named after the Secret without -kubeconfig by default; key value, else kubeconfig.";
        "remote-selector" String "" =>
            "Label selector: each Secret <cluster>-kubeconfig with the label cluster.x-k8s.io/cluster-name is a remote, while it exists.";
        "remote-selector-namespace" String "" =>
            "Namespace of these Secrets (default: the program's).";
        "resource" List "" =>
            "Kinds to sync: plural.group or group/version/plural; in the core group plural or v1/plural. Required.";
        "resync" Duration "10h" =>
            "Interval between full re-checks from cache (no API requests); 0 disables them.";
        "secret-metadata" List "" =>
            "Keys of labels and annotations that are uploaded with Secrets.";
        "source-name-suffix" String "" =>
            "Suffix that source names carry and target names do not; {cluster} is the remote's name.";
        "source-namespace" List "" => "The namespace of all sources (default: all).";
        "target-namespace" String "" =>
            "The namespace of all targets, which is never created; needs -source-namespace.";
        "target-namespace-suffix" String "" =>
            "Suffix that target namespaces carry and source namespaces do not; {cluster} is the remote's name.";
        "target-propagation-policy" String "Foreground" =>
            "Propagation policy for deleting targets: Foreground, Background or Orphan.";
        "target-secret-name" List "" =>
            "Exact names of Secrets to upload, if a target controls them.";
        "timeout" Duration "10s" => "For one request.";
        "track" String "source" =>
            "Where the bookkeeping is kept: source (finalizer and annotations on the source) or target (the source gets its status alone).";
        "wait-timeout" Seconds "0" =>
            "With -once: how long to wait for unavailable clusters and kinds; 0 checks once. Orphans are deleted only if -orphan-grace is no longer.";
        // sync-controller's names.
        "local-namespace-suffix" Alias "target-namespace-suffix" => "";
        "local-propagation-policy" Alias "target-propagation-policy" => "";
        "local-secret-name" Alias "target-secret-name" => "";
        "remote-resource-suffix" Alias "source-name-suffix" => "";
    }
    .into()
}
