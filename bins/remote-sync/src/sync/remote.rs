//! The pairs of one remote: both sides, the workqueue, and what is remembered about each pair.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicBool},
    time::{Duration, Instant},
};

use apiclient::{lock::lock, stop::Stop, workqueue::Workqueue};
use sidecar::metrics::{Family, Metrics};

use crate::{
    cache::{Answers, ApiResources, ClusterSide},
    connection::Connection,
    model::{
        annotations::Uid,
        key::{self, KindIndex, NameMapping, Pair},
        object::{Role, SourceObject, TargetObject},
    },
    settings::Settings,
    sync::{
        deletion_limit::DeletionLimit,
        memory::{Memory, PairMemory},
        status::Reason,
    },
};

/// The wait before a retry in a missing namespace. Without permission to read it, only a write shows whether it exists.
const TRY_NAMESPACE: Duration = Duration::from_secs(5);

/// The obstacle of pairs that wait for lists only.
pub(crate) const LISTING: &str = "its objects are being listed";

/// The session of the sources' cluster, and the kind, with which pairs of a kind can be reconciled.
type Open = (u64, ApiResources);

pub(crate) struct RemoteSync {
    pub(crate) name: String,
    pub(crate) names: NameMapping,
    /// The remote's own cluster: the source's or the target's.
    pub(crate) cluster: Arc<Connection>,
    pub(crate) source: Arc<ClusterSide<SourceObject>>,
    pub(crate) target: Arc<ClusterSide<TargetObject>>,
    pub(crate) queue: Workqueue<Pair>,
    /// `None` parks the pairs of a kind.
    open: Mutex<Vec<Option<Open>>>,
    pub(crate) deletions: Mutex<DeletionLimit>,
    pub(crate) metrics: SyncMetrics,
    /// Whether a Namespace of a source was ever read.
    pub(crate) has_read_namespace: AtomicBool,
    pub(crate) stop: Stop,
    memory: Mutex<Memory>,
    /// Target namespaces that could not be written to: why and when.
    missing: Mutex<BTreeMap<String, (Reason, Instant)>>,
}

impl RemoteSync {
    pub(crate) fn new(
        name: &str,
        settings: &Settings,
        cluster: Arc<Connection>,
        (source, target): (Arc<ClusterSide<SourceObject>>, Arc<ClusterSide<TargetObject>>),
        stop: Stop,
    ) -> Self {
        Self {
            name: name.to_owned(),
            names: settings.mapping.names(name),
            cluster,
            source,
            target,
            queue: Workqueue::new(settings.workers),
            open: Mutex::new(vec![None; settings.resources.len()]),
            deletions: Mutex::new(DeletionLimit::new(settings.orphans)),
            metrics: SyncMetrics::default(),
            has_read_namespace: AtomicBool::new(false),
            stop,
            memory: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    pub(crate) fn clusters(&self) -> [&Arc<Connection>; 2] {
        [&self.source.cluster, &self.target.cluster]
    }

    /// Opens the workqueue for the kinds whose pairs can be reconciled, and closes it for the others.
    pub(crate) fn open_queue(&self) {
        for kind in 0..self.source.stores.len() {
            let open = self.check(kind).ok();
            let is_open = open.is_some();
            if mem::replace(&mut lock(&self.open)[kind], open.clone()) != open && is_open {
                // A missing source may be back: grace periods start over. Failed pairs may succeed.
                lock(&self.deletions).restart_grace(kind, Instant::now());
                self.queue.retry(|pair| pair.kind == kind);
            }
        }
    }

    /// The controllers of a namespace's Secrets that are not known to be uploaded for `source`, by index in
    /// `-target-secret-name`.
    pub(crate) fn controllers_of_secrets(
        &self,
        namespace: &str,
        source: Option<Uid>,
        memory: &PairMemory,
    ) -> Vec<Option<Uid>> {
        let secrets = self.target.secrets.iter().enumerate();
        let controllers = secrets.map(|(index, (name, store))| {
            let secret = store.get(&key::of(namespace, name))?;
            let is_uploaded = |source| memory.uploads.contains(&(index, source, secret.version));
            secret.value.controller.filter(|_| source.is_some_and(|source| !is_uploaded(source)))
        });
        controllers.collect()
    }

    /// The kind, while its pairs can be reconciled.
    pub(crate) fn open_kinds(&self, kind: KindIndex) -> Option<ApiResources> {
        lock(&self.open)[kind].as_ref().map(|(_, kinds)| kinds.clone())
    }

    /// Returns whether a pair is in the queue, being processed, or remembered.
    pub(crate) fn knows(&self, pair: &Pair) -> bool {
        self.queue.has(pair) || self.memory().get(pair).is_some()
    }

    /// Why writes to a namespace are not retried yet, if one failed recently.
    pub(crate) fn lacks_namespace(&self, namespace: &str, now: Instant) -> Option<Reason> {
        let (reason, since) = *lock(&self.missing).get(namespace)?;
        (now.saturating_duration_since(since) < TRY_NAMESPACE).then_some(reason)
    }

    /// Records that the namespace cannot be written to.
    pub(crate) fn note_missing(&self, namespace: &str, reason: Reason, now: Instant) {
        let mut all = lock(&self.missing);
        all.retain(|_, (_, then)| now.saturating_duration_since(*then) < TRY_NAMESPACE);
        all.insert(namespace.to_owned(), (reason, now));
    }

    /// Records that the namespace was written to.
    pub(crate) fn note_present(&self, namespace: &str) {
        lock(&self.missing).remove(namespace);
    }

    pub(crate) fn has_source(&self, pair: &Pair) -> bool {
        self.source.stores[pair.kind].has(&self.names.source_key(&pair.key))
    }

    /// Returns whether other sources have targets in the target's namespace.
    pub(crate) fn shares_namespace(&self, pair: &Pair) -> bool {
        let own = key::split(&pair.key);
        self.source.stores.iter().enumerate().any(|(kind, store)| {
            let is_other = |key: &str| {
                let names = self.canonical_of_source(key);
                names.is_some_and(|it| it.0 == own.0 && (kind, it.1) != (pair.kind, own.1))
            };
            store.count_where(is_other) > 0
        })
    }

    fn canonical_of_source<'a>(&'a self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let (namespace, name) = key::split(key);
        self.names.canonical(Role::Source, namespace, name)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    pub(crate) fn with_answers<T>(&self, pair: &Pair, change: impl FnOnce(&mut Answers) -> T) -> T {
        self.memory().update(pair, |memory| memory.with_answers(change))
    }

    pub(crate) fn count_sources(&self, kind: KindIndex) -> usize {
        self.source.stores[kind].count_where(|key| self.canonical_of_source(key).is_some())
    }

    /// The number of pairs of a kind that are not in sync, by state, and how many of them have a source.
    pub(crate) fn count_states(&self, kind: KindIndex) -> (BTreeMap<&'static str, usize>, usize) {
        let (mut states, mut sources) = (BTreeMap::new(), 0);
        for (pair, condition) in self.memory().conditions().filter(|(pair, _)| pair.kind == kind) {
            *states.entry(condition.state.as_str()).or_default() += 1;
            sources += usize::from(self.has_source(pair));
        }
        (states, sources)
    }

    /// Why pairs of this kind cannot be reconciled now, if so.
    pub(crate) fn obstacle(&self, kind: KindIndex) -> Option<String> {
        self.check(kind).err()
    }

    fn check(&self, kind: KindIndex) -> Result<Open, String> {
        let [from, to] = self.clusters().map(session);
        let (from, to) = (from?, to?);
        let (source, target) = (&self.source.stores[kind], &self.target.stores[kind]);
        let kinds = ApiResources::of(&self.source, &self.target, kind);
        if let Some(ApiResources { source, target }) = &kinds {
            let name = &source.resource.kind;
            if source.namespaced != target.namespaced {
                return Err(format!("{name} is namespaced on one side only"));
            }
            let (from, to) = (&source.resource.version, &target.resource.version);
            if from != to {
                return Err(format!("the source has version {from} and the target {to}"));
            }
        }
        let complete =
            source.is_complete(from) && target.is_complete(to) && self.target.has_secrets(to);
        if let Some(kinds) = kinds.filter(|_| complete) {
            return Ok((from, kinds));
        }
        let mut secrets = self.target.secrets.iter().filter(|(_, it)| !it.is_refused());
        let trouble = self.trouble(kind).or_else(|| secrets.find_map(|(_, it)| it.trouble()));
        Err(trouble.unwrap_or_else(|| LISTING.into()))
    }

    /// Why changes of this kind may go unnoticed now, for example a revoked permission.
    pub(crate) fn trouble(&self, kind: KindIndex) -> Option<String> {
        let (source, target) = (&self.source.stores[kind], &self.target.stores[kind]);
        source.trouble().or_else(|| target.trouble())
    }

    /// Why the reported state of the kind's pairs may be wrong, if so.
    pub(crate) fn unready(&self, kind: KindIndex) -> Option<String> {
        self.obstacle(kind).or_else(|| self.trouble(kind))
    }

    /// The Secrets to upload, as named in metrics, each with the reason why its changes may go unnoticed now.
    pub(crate) fn secret_troubles(&self) -> impl Iterator<Item = (String, Option<String>)> {
        self.target.secrets.iter().map(|(name, it)| (format!("secrets/{name}"), it.trouble()))
    }
}

/// The number of a cluster's session, or why there is none.
fn session(cluster: &Arc<Connection>) -> Result<u64, String> {
    cluster.session().map(|session| session.number).map_err(|error| match cluster.error() {
        Some(detail) => format!("{error}: {detail}"),
        None => error.to_string(),
    })
}

const WRITES: Family = Family::counter(
    "remote_sync_writes_total",
    "Writes to either side, by operation, including failed ones.",
);
const FAILURES: Family =
    Family::counter("remote_sync_failures_total", "Failed passes over a pair, by reason.");

/// Counters of one remote, by family and value of the second label.
#[derive(Debug, Default)]
pub(crate) struct SyncMetrics(Mutex<BTreeMap<(Family, Label), u64>>);

type Label = (&'static str, &'static str);

impl SyncMetrics {
    pub(crate) fn wrote(&self, operation: &'static str) {
        self.count(WRITES, ("operation", operation));
    }

    pub(crate) fn failed(&self, reason: &'static str) {
        self.count(FAILURES, ("reason", reason));
    }

    fn count(&self, family: Family, label: Label) {
        *lock(&self.0).entry((family, label)).or_default() += 1;
    }

    pub(crate) fn add_to(&self, remote: &str, metrics: &mut Metrics) {
        for ((family, label), count) in &*lock(&self.0) {
            metrics.add(*family, &[("remote", remote), *label], count);
        }
    }
}
