//! Settings from flags and environment, checked as a whole: invalid combinations are rejected before anything is
//! written.

mod remotes;
mod table;
mod values;

use std::time::Duration;

use apiclient::{client::Propagation, resource::valid_label};
use kubeconfig::{Env, own_namespace};
use sidecar::flags::{Flags, object_name};

use self::{remotes::Registry, values::one_of};
pub(crate) use self::{
    remotes::{CLUSTER_LABEL, Remote, RemoteSource, SECRET_SUFFIX},
    table::table,
    values::{
        AdoptPolicy, Direction, Explained, NamespacePolicy, Operation, OrphanSettings, Track,
    },
};
use crate::{
    connection::ProbeTiming,
    model::{
        annotations::AnnotationKeys,
        discovery::ResourceArg,
        key::{CLUSTER, NameMapping},
        rules::FieldRules,
    },
};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) operation: Operation,
    pub(crate) dry_run: bool,
    pub(crate) direction: Direction,
    pub(crate) track: Track,
    pub(crate) resources: Vec<ResourceArg>,
    pub(crate) mapping: NameMapping,
    pub(crate) rules: Vec<FieldRules>,
    /// Names of Secrets to upload.
    pub(crate) secrets: Vec<String>,
    pub(crate) keys: AnnotationKeys,
    pub(crate) finalizer: String,
    pub(crate) propagation: Propagation,
    pub(crate) orphans: OrphanSettings,
    pub(crate) adopt: AdoptPolicy,
    pub(crate) namespaces: NamespacePolicy,
    pub(crate) remotes: Vec<Remote>,
    pub(crate) registry: Option<Registry>,
    /// Namespace and name of the ConfigMap; `None` outside of a pod without `-namespace`.
    pub(crate) known_clusters: Option<(String, String)>,
    pub(crate) probes: ProbeTiming,
    /// The most objects of a kind on a cluster.
    pub(crate) max_objects: usize,
    /// Per remote.
    pub(crate) workers: usize,
    /// Requests per second to a cluster; 0 means unlimited.
    pub(crate) qps: u32,
    pub(crate) timeout: Duration,
    /// Interval between full re-checks.
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
        // Instances differ by the name of their Lease.
        let name = flags.text("leader-election-name");
        let instance = object_name("-leader-election-name", name)?;
        let mut settings = Self {
            dry_run: flags.switch("dry-run"),
            direction: one_of(flags, "direction", values::DIRECTION)?,
            track: one_of(flags, "track", values::TRACK)?,
            rules: values::rules(flags, &resources)?,
            resources,
            mapping: values::mapping(flags)?,
            secrets: values::secrets(flags)?,
            keys,
            finalizer,
            propagation: one_of(flags, "target-propagation-policy", values::PROPAGATION)?,
            orphans: values::orphans(flags)?,
            adopt: one_of(flags, "adopt", values::ADOPT)?,
            namespaces: one_of(flags, "namespace-policy", values::NAMESPACES)?,
            known_clusters: namespace.clone().map(|it| (it, format!("{instance}-known-clusters"))),
            remotes: remotes::remotes(flags)?,
            registry: remotes::registry(flags, namespace.as_deref())?,
            // At the defaults clustercache's: a lost cluster is tried again after three intervals.
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
            // What it explains, it works on itself.
            (settings.dry_run, settings.workers) = (true, 0);
        }
        // None for tasks that end: somebody waits for them.
        let elects = flags.switch("leader-election") && !settings.dry_run;
        if elects && settings.operation == Operation::Run {
            let namespace = namespace
                .ok_or("-leader-election needs a namespace: set -namespace or POD_NAMESPACE")?;
            settings.election = Some((namespace, instance));
        }
        // Roles can be printed without a remote.
        if settings.remotes.is_empty() && settings.registry.is_none() && !flags.switch("print-rbac")
        {
            return Err("no remote is configured: set -remote-kubeconfig, -remote-kubeconfig-secret or -remote-selector".into());
        }
        settings.check_names()?;
        settings.check_overlap()?;
        Ok(settings)
    }

    pub(crate) fn burst(&self) -> u32 {
        self.qps + self.qps / 2
    }

    /// The first of `others` that a remote overlaps with: in push a source would have two targets, each with a status.
    pub(crate) fn clash<'a>(
        &self,
        remote: &str,
        others: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        let names = self.mapping.names(remote);
        let pushes = self.direction == Direction::Push;
        let shares = |other: &&str| names.shares_sources(&self.mapping.names(other));
        others.into_iter().find(|other| pushes && shares(other))
    }

    /// Returns whether the local cluster can be its own remote: a source and its target differ, and a target is no
    /// source in turn.
    pub(crate) fn tells_copies_apart(&self) -> bool {
        !self.mapping.resource_suffix.is_empty()
    }

    pub(crate) fn many(&self) -> bool {
        self.registry.is_some() || self.remotes.len() > 1
    }

    /// Checks that there can be valid names on both sides; for remotes that are not known yet, with a shortest one.
    fn check_names(&self) -> Result<(), String> {
        let NameMapping { namespace_prefix: prefix, source_namespace, .. } = &self.mapping;
        let namespace = source_namespace.clone().unwrap_or_else(|| format!("{prefix}x"));
        if !self.mapping.covers(&namespace) {
            return Err(format!(
                "-source-namespace {namespace} does not start with -namespace-prefix {prefix}"
            ));
        }
        let flags = "-namespace-prefix, -source-name-suffix or -target-namespace-suffix";
        self.names().chain(["x"]).try_for_each(|remote| {
            let valid = self.mapping.names(remote).check(&namespace, "x");
            valid.map_err(|why| format!("{flags} is not valid: {why}"))
        })
    }

    /// Checks that each source belongs to one remote only; in pull, the marks keep the copies of remotes apart.
    fn check_overlap(&self) -> Result<(), String> {
        let suffix = &self.mapping.resource_suffix;
        if self.direction == Direction::Push && self.many() && !suffix.contains(CLUSTER) {
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

#[cfg(test)]
mod tests;
