//! Settings from flags and environment. They are validated as a whole: invalid combinations are rejected before any
//! write. The flags are sync-controller's fields and clustercache's options, with their defaults, and this program's
//! own.

mod remotes;
mod values;

use std::time::Duration;

use apiclient::{client::Propagation, resource::valid_label};
use kubeconfig::{Env, own_namespace};
use sidecar::{
    flag_rows,
    flags::{Flag, Flags, common, object_name},
};

use self::{remotes::Registry, values::one_of};
pub(crate) use self::{
    remotes::{CLUSTER_LABEL, Remote, RemoteSource, SECRET_SUFFIX},
    values::{Explained, Operation, OrphanSettings},
};
use crate::{
    connection::ProbeTiming,
    model::{
        annotations::AnnotationKeys,
        discovery::ResourceArg,
        key::{self, CLUSTER, NameMapping},
        object::Role,
        rules::FieldRules,
    },
};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) operation: Operation,
    pub(crate) dry_run: bool,
    /// The role of local objects (`-direction`).
    pub(crate) local_role: Role,
    pub(crate) marks_sources: bool,
    pub(crate) resources: Vec<ResourceArg>,
    pub(crate) mapping: NameMapping,
    pub(crate) rules: Vec<FieldRules>,
    /// Names of Secrets to upload.
    pub(crate) secrets: Vec<String>,
    pub(crate) keys: AnnotationKeys,
    pub(crate) finalizer: String,
    pub(crate) propagation: Propagation,
    pub(crate) orphans: OrphanSettings,
    pub(crate) adopts_any: bool,
    /// Whether to delete namespaces that were created for targets once they are empty.
    pub(crate) deletes_namespaces: bool,
    pub(crate) remotes: Vec<Remote>,
    pub(crate) registry: Option<Registry>,
    /// Namespace and name of the ConfigMap; `None` outside of a pod without `-namespace`.
    pub(crate) known_clusters: Option<(String, String)>,
    pub(crate) probes: ProbeTiming,
    /// The most objects of a kind on one cluster.
    pub(crate) max_objects: usize,
    /// Per remote.
    pub(crate) workers: usize,
    /// Requests per second to a cluster; 0 means unlimited.
    pub(crate) qps: u32,
    pub(crate) timeout: Duration,
    /// The interval between full resyncs from the cache, before jitter.
    pub(crate) resync: Option<Duration>,
    /// Namespace and name of the Lease.
    pub(crate) election: Option<(String, String)>,
}

impl Settings {
    pub(crate) fn new(flags: &Flags) -> Result<Self, String> {
        Self::check(flags, own_namespace(flags.some("namespace"), &Env::process()))
    }

    fn check(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !valid_label(namespace)) {
            return Err(format!(
                "the namespace {namespace:?} (-namespace, POD_NAMESPACE) is not a valid name"
            ));
        }
        let resources = values::resources(flags)?;
        let operation = values::operation(flags, &resources)?;
        let (keys, finalizer) = values::keys(flags)?;
        let number = |name, most| flags.number_in(name, 1..=most).map(|number| number as usize);
        let (interval, timeout) = (flags.period("probe-interval")?, flags.period("timeout")?);
        // The name of its Lease identifies an instance.
        let name = flags.text("leader-election-name");
        let instance = object_name("-leader-election-name", name)?;
        let mut settings = Self {
            dry_run: flags.switch("dry-run"),
            local_role: one_of(flags, "direction", values::DIRECTION)?,
            marks_sources: one_of(flags, "track", &[("source", true), ("target", false)])?,
            rules: values::rules(flags, &resources)?,
            resources,
            mapping: values::mapping(flags)?,
            secrets: values::secrets(flags)?,
            keys,
            finalizer,
            propagation: one_of(flags, "target-propagation-policy", values::PROPAGATION)?,
            orphans: values::orphans(flags)?,
            adopts_any: one_of(flags, "adopt", &[("equal", false), ("always", true)])?,
            deletes_namespaces: one_of(
                flags,
                "namespace-policy",
                &[("never", false), ("empty", true)],
            )?,
            known_clusters: namespace.clone().map(|it| (it, format!("{instance}-known-clusters"))),
            remotes: remotes::remotes(flags)?,
            registry: remotes::registry(flags, namespace.as_deref())?,
            // With the default flags, clustercache's: a lost cluster is retried after three intervals.
            probes: ProbeTiming { retry: 3 * interval, interval, timeout: timeout / 2 },
            max_objects: number("max-objects", 10_000_000)?,
            workers: number("concurrent-reconciles", 256)?,
            qps: flags.number_in("qps", 0..=1_000_000)?,
            timeout,
            resync: Some(flags.duration("resync")).filter(|resync| !resync.is_zero()),
            election: None,
            operation,
        };
        if matches!(settings.operation, Operation::Explain(_)) {
            // The task itself evaluates the pair, without workers.
            (settings.dry_run, settings.workers) = (true, 0);
        }
        // A task that ends needs no election: somebody waits for it.
        let elects = flags.switch("leader-election") && !settings.dry_run;
        if elects && settings.operation == Operation::Run {
            let namespace = namespace
                .ok_or("-leader-election needs a namespace: set -namespace or POD_NAMESPACE")?;
            settings.election = Some((namespace, instance));
        }
        // RBAC can be printed without a remote.
        if settings.remotes.is_empty() && settings.registry.is_none() && !flags.switch("print-rbac")
        {
            return Err("no remote is configured: set -remote-kubeconfig, -remote-kubeconfig-secret or -remote-selector".into());
        }
        settings.check_names()?;
        settings.check_overlap()?;
        Ok(settings)
    }

    /// The first of `others` that shares sources with `remote`: in push, such a source would have two targets.
    pub(crate) fn clash<'a>(
        &self,
        remote: &str,
        others: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        let names = self.mapping.names(remote);
        let pushes = self.local_role == Role::Source;
        let shares = |other: &&str| names.shares_sources(&self.mapping.names(other));
        others.into_iter().find(|other| pushes && shares(other))
    }

    /// Returns whether the local cluster can be its own remote: a source and its target have different names, and a
    /// target is not a source again.
    pub(crate) fn tells_copies_apart(&self) -> bool {
        !self.mapping.resource_suffix.is_empty()
    }

    /// Checks that names on both sides can be valid; `x` stands for remotes that are not yet known.
    fn check_names(&self) -> Result<(), String> {
        let NameMapping { namespace_prefix: prefix, source_namespace, .. } = &self.mapping;
        let namespace = source_namespace.clone().unwrap_or_else(|| format!("{prefix}x"));
        if !self.mapping.has_sources(&namespace) {
            return Err(format!(
                "-source-namespace {namespace} does not start with -namespace-prefix {prefix}"
            ));
        }
        let flags = "-namespace-prefix, -source-name-suffix or -target-namespace-suffix";
        let canonical = key::of(&namespace, "x");
        self.names().chain(["x"]).try_for_each(|remote| {
            let names = self.mapping.names(remote);
            let valid = key::check(&names.source_key(&canonical), &names.target_key(&canonical));
            valid.map_err(|why| format!("{flags} is not valid: {why}"))
        })
    }

    /// Checks that a source belongs to one remote only. In pull, marks tell the copies of remotes apart.
    fn check_overlap(&self) -> Result<(), String> {
        let suffix = &self.mapping.resource_suffix;
        let many = self.registry.is_some() || self.remotes.len() > 1;
        if self.local_role == Role::Source && many && !suffix.contains(CLUSTER) {
            return Err(format!(
                "-source-name-suffix must contain {CLUSTER} if there may be several remotes, or an object would belong to all of them"
            ));
        }
        for (index, name) in self.names().enumerate() {
            if let Some(other) = self.clash(name, self.names().take(index)) {
                return Err(format!(
                    "the remotes {other} and {name} overlap in -source-name-suffix {suffix:?}: an object could belong to both"
                ));
            }
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.remotes.iter().map(|remote| &*remote.name)
    }
}

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
            "Only source namespaces with this prefix (default: all).";
        "resource" List "" =>
            "Kinds to sync: plural.group or group/version/plural; in the core group plural or v1/plural. Required.";
        // A list, so that a second value is an error.
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

#[cfg(test)]
mod tests;
