//! Controller: all remotes, with their watches, workqueues and workers.

pub(crate) mod clusters;
mod dependents;
mod handlers;
mod remotes;
mod watches;

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use apiclient::{lock::lock, stop::Stop};

use crate::{
    cache::{
        cluster::{ClusterClient, SourceSide, TargetSide},
        documents::DocumentCache,
    },
    connection::ClusterRecords,
    model::{discovery::ApiResource, key::KindIndex},
    sync::{context::SyncContext, remote::RemoteSync},
};

/// The longest time until a change that wakes nobody is noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Shared by all threads of the program.
pub(crate) struct Controller {
    pub(crate) context: Arc<SyncContext>,
    /// Woken when a workqueue may have to be opened or closed.
    pub(crate) stop: Stop,
    pub(crate) local: LocalCluster,
    /// Which cluster each remote is.
    pub(crate) records: Arc<ClusterRecords>,
    pub(crate) documents: Arc<DocumentCache>,
    /// Whether the registry was listed; without one all remotes are known at startup.
    pub(crate) all_known: AtomicBool,
    /// The reason why some remotes of the registry are not followed.
    registry_trouble: Mutex<Option<String>>,
    remotes: Mutex<Arc<Vec<Arc<RemoteSync>>>>,
    /// Woken when the local cluster may have found a kind.
    awaiting_kind: Mutex<Vec<Stop>>,
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
    pub(crate) fn cluster(&self) -> &Arc<ClusterClient> {
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
        records: Arc<ClusterRecords>,
        documents: Arc<DocumentCache>,
        stop: &Stop,
    ) -> Self {
        let all_known = AtomicBool::new(context.settings.registry.is_none());
        Self {
            context,
            stop: stop.clone(),
            local,
            records,
            documents,
            all_known,
            registry_trouble: Mutex::default(),
            remotes: Mutex::default(),
            awaiting_kind: Mutex::default(),
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
        self.context.metrics.forget(name);
    }

    /// A remote's own cluster, on whichever side it is.
    pub(crate) fn remote_cluster<'a>(&self, remote: &'a RemoteSync) -> &'a Arc<ClusterClient> {
        match self.local {
            LocalCluster::Target(_) => &remote.source.cluster,
            LocalCluster::Source(_) => &remote.target.cluster,
        }
    }

    /// A kind as the local cluster serves it, once it was found: its version is used everywhere.
    pub(crate) fn local_kind(&self, kind: KindIndex) -> Option<Arc<ApiResource>> {
        match &self.local {
            LocalCluster::Source(side) => side.stores[kind].kind(),
            LocalCluster::Target(side) => side.stores[kind].kind(),
        }
    }

    /// Wakes `stop` when [`local_kind`](Self::local_kind) may have another answer.
    fn wake_for_local_kind(&self, stop: &Stop) {
        lock(&self.awaiting_kind).push(stop.clone());
    }

    fn local_kind_changed(&self) {
        let waiting = std::mem::take(&mut *lock(&self.awaiting_kind));
        waiting.iter().for_each(Stop::wake);
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
                if remote.source_cluster_is_new() | remote.secrets_are_back() {
                    self.enqueue_all(remote);
                }
            }
            if resync.is_some_and(|at| at <= Instant::now()) {
                for remote in self.remotes().iter() {
                    remote.memory().forget_secrets();
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
}
