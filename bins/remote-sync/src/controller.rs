//! Controller: all remotes, with their watches, workqueues and workers.

pub(crate) mod clusters;
mod handlers;
mod remotes;

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use apiclient::{discovery::ApiResource, lock::lock, stop::Stop};
use sidecar::runtime;

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        documents::DocumentCache,
    },
    connection::{ClusterRecords, Connection},
    model::{
        key::{self, KindIndex, Pair},
        object::TargetObject,
    },
    sync::{context::SyncContext, reconcile, remote::RemoteSync},
};

/// The longest time until a change that wakes nobody is noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Shared by all threads of the program.
pub(crate) struct Controller {
    pub(crate) context: Arc<SyncContext>,
    /// Woken when a workqueue may have to be opened or closed, and when the local cluster may have found a kind.
    pub(crate) stop: Stop,
    pub(crate) local: LocalCluster,
    /// Woken when a cluster may have other credentials, and when the local cluster is connected.
    credentials: Stop,
    /// Which cluster each remote is.
    pub(crate) records: Arc<ClusterRecords>,
    pub(crate) documents: Arc<DocumentCache>,
    /// Whether the registry was listed; without one all remotes are known at startup.
    pub(crate) all_known: AtomicBool,
    /// The reason why some remotes of the registry are not followed.
    registry_trouble: Mutex<Option<String>>,
    remotes: Mutex<Arc<Vec<Arc<RemoteSync>>>>,
    /// The last iteration of the loop that opens and closes workqueues.
    beat: Mutex<Option<Instant>>,
}

/// The local cluster, on the side that it has in all pairs.
#[derive(Clone)]
pub(crate) enum LocalCluster {
    Source(Arc<SourceSide>),
    Target(Arc<TargetSide>),
}

impl LocalCluster {
    pub(crate) fn cluster(&self) -> &Arc<Connection> {
        match self {
            Self::Source(side) => &side.cluster,
            Self::Target(side) => &side.cluster,
        }
    }
}

impl Controller {
    pub(crate) fn new(
        context: Arc<SyncContext>,
        local: LocalCluster,
        credentials: Stop,
        records: Arc<ClusterRecords>,
        documents: Arc<DocumentCache>,
        stop: &Stop,
    ) -> Self {
        let all_known = AtomicBool::new(context.settings.registry.is_none());
        Self {
            context,
            stop: stop.clone(),
            local,
            credentials,
            records,
            documents,
            all_known,
            registry_trouble: Mutex::default(),
            remotes: Mutex::default(),
            beat: Mutex::default(),
        }
    }

    /// The current remotes.
    pub(crate) fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        lock(&self.remotes).clone()
    }

    pub(crate) fn registry_trouble(&self) -> Option<String> {
        lock(&self.registry_trouble).clone()
    }

    pub(crate) fn set_registry_trouble(&self, trouble: Option<String>) {
        *lock(&self.registry_trouble) = trouble;
    }

    pub(crate) fn beat(&self) -> Option<Instant> {
        *lock(&self.beat)
    }

    /// Adds a remote, and enqueues its pairs with objects that are cached already.
    pub(crate) fn add(self: &Arc<Self>, remote: Arc<RemoteSync>) {
        let mut remotes = lock(&self.remotes);
        *remotes = remotes.iter().cloned().chain([remote.clone()]).collect::<Vec<_>>().into();
        drop(remotes);
        self.enqueue_all(&remote);
        self.stop.wake();
    }

    /// Removes a remote and forgets its pairs, whose objects stay as they are.
    pub(crate) fn remove(&self, name: &str) {
        let mut remotes = lock(&self.remotes);
        let Some(remote) = remotes.iter().find(|remote| remote.name == name).cloned() else {
            return;
        };
        *remotes =
            remotes.iter().filter(|other| other.name != name).cloned().collect::<Vec<_>>().into();
        drop(remotes);
        remote.queue.close();
        remote.stop.raise();
        self.stop.wake();
        self.context.metrics.forget(name);
    }

    /// A kind as the local cluster serves it, once it was found: its version is used everywhere.
    pub(crate) fn local_kind(&self, kind: KindIndex) -> Option<Arc<ApiResource>> {
        match &self.local {
            LocalCluster::Source(side) => side.stores[kind].kind(),
            LocalCluster::Target(side) => side.stores[kind].kind(),
        }
    }

    /// Opens and closes workqueues as connections and stores allow, until `stop` is raised.
    pub(crate) fn supervise_queues(self: &Arc<Self>) {
        let mut resync = self.next_resync();
        loop {
            let seen = self.stop.wakes();
            *lock(&self.beat) = Some(Instant::now());
            for remote in self.remotes().iter() {
                remote.open_queue();
                remote.memory().forget_old(Instant::now());
                self.start_workers(remote);
                if remote.source_cluster_is_new() {
                    self.enqueue_all(remote);
                }
            }
            if resync.is_some_and(|at| at <= Instant::now()) {
                for remote in self.remotes().iter() {
                    remote.memory().forget_uploads();
                    self.enqueue_all(remote);
                }
                resync = self.next_resync();
            }
            if self.stop.wait_for_change(seen, Instant::now() + CHECK_INTERVAL) {
                self.remotes().iter().for_each(|remote| remote.queue.close());
                return;
            }
        }
    }

    /// With jitter, as controller-runtime's SyncPeriod (`pkg/cache/cache.go:150-184`).
    fn next_resync(&self) -> Option<Instant> {
        let resync = self.context.settings.resync?;
        Some(Instant::now() + resync.mul_f64(0.9 + 0.2 * fastrand::f64()))
    }

    /// Enqueues all pairs of a remote: those of its sources, and those that only have a copy.
    pub(super) fn enqueue_all(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        for kind in self.context.settings.resources.kinds() {
            self.enqueue_kind(remote, kind);
        }
    }

    /// Enqueues all pairs of a kind.
    fn enqueue_kind(self: &Arc<Self>, remote: &Arc<RemoteSync>, kind: KindIndex) {
        let names = &remote.names;
        let is_source = |key: &str| names.canonical_of_source_key(key).is_some();
        for key in remote.source.stores[kind].keys_where(|key, _| is_source(key)) {
            self.enqueue(remote, kind, names.canonical_of_source_key(&key), false);
        }
        let ours = |target: &TargetObject| {
            let from = target.copy_of.as_ref().map(|copy| copy.cluster);
            from.is_some_and(|from| remote.is_followed_for(from))
        };
        let copies = remote.target.stores[kind].keys_where(|_, it| it.is_some_and(ours));
        for key in copies {
            let (namespace, name) = key::split(&key);
            let target = remote.names.canonical_of_target(namespace, name);
            self.enqueue(remote, kind, target, false);
        }
    }

    /// Enqueues a target's pair for each of the remotes that has its source, or whose orphan it may be. With many remotes
    /// most targets belong to another one, so this is quick.
    pub(super) fn enqueue_target(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: KindIndex,
        key: &str,
        urgent: bool,
    ) {
        let Some(first) = remotes.first() else { return };
        // All of them have it: the local cluster's, or that of the only remote.
        let store = &first.target.stores[kind];
        let gone = !store.has(key);
        let origin =
            store.get(key).and_then(|target| target.value.copy_of).map(|copy| copy.cluster);
        let (namespace, name) = key::split(key);
        for remote in remotes {
            let Some(canonical) = remote.names.canonical_of_target(namespace, name) else {
                continue;
            };
            let source = remote.names.source(canonical.0, canonical.1);
            let concerned = origin.is_some_and(|origin| remote.is_followed_for(origin))
                || remote.source.stores[kind].has(&key::of(&source.0, &source.1))
                || gone && remote.knows(kind, canonical);
            if concerned {
                self.enqueue(remote, kind, Some(canonical), urgent);
            }
        }
    }

    /// Enqueues the pair of these canonical names, if there are any.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        remote: &Arc<RemoteSync>,
        kind: KindIndex,
        canonical: Option<(&str, &str)>,
        urgent: bool,
    ) {
        let Some((namespace, name)) = canonical else { return };
        let key = key::of(namespace, name).into();
        remote.queue.add(Pair { kind, key }, urgent);
        self.start_workers(remote);
    }

    /// Starts as many workers as the remote's workqueue needs.
    pub(super) fn start_workers(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        while remote.queue.wants_worker() {
            let (controller, of) = (self.clone(), remote.clone());
            let work = move || {
                reconcile::run_worker(&controller.context, &of, &|| controller.start_workers(&of))
            };
            if let Err(error) = runtime::spawn("worker", work) {
                log::warn!(remote:% = remote.name, error:% = error; "no thread for a worker");
                remote.queue.lacks_worker();
                return;
            }
        }
    }
}
