//! All remotes together: which pair has to be looked at when something changed, and by whom.

pub(crate) mod clusters;
mod handlers;
pub(crate) mod registry;
mod watches;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::{Duration, Instant},
};

use shared::{lock::lock, runtime, stop::Stop};

use crate::{
    cache::cluster::{ClusterClient, SourceSide, TargetSide},
    connection::ClusterIdentity,
    model::{
        discovery::ApiResource,
        key::{self, ObjectKey, Pair},
    },
    sync::{context::SyncContext, reconcile, remote::RemoteSync},
};

/// A change that nobody told of is noticed after this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What all threads share.
pub(crate) struct Controller {
    pub(crate) context: Arc<SyncContext>,
    /// Woken when a queue may have to be opened or closed.
    pub(crate) stop: Stop,
    pub(crate) own: OwnCluster,
    /// Bytes of all kept documents.
    pub(crate) used: Arc<AtomicUsize>,
    /// Whether the registry was listed; without one all remotes are known from the start.
    pub(crate) all_known: AtomicBool,
    /// Why not all remotes of the registry are followed, if so.
    registry_trouble: Mutex<Option<String>>,
    remotes: Mutex<Arc<Vec<Arc<RemoteSync>>>>,
    /// When the loop that opens and closes queues last came by.
    beat: Mutex<Option<Instant>>,
}

/// The side that the own cluster is on.
#[derive(Clone)]
pub(crate) enum OwnCluster {
    Source(Arc<SourceSide>),
    Target(Arc<TargetSide>),
}

impl OwnCluster {
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
        own: OwnCluster,
        used: Arc<AtomicUsize>,
        stop: &Stop,
    ) -> Self {
        let all_known = AtomicBool::new(context.settings.registry.is_none());
        Self {
            context,
            stop: stop.clone(),
            own,
            used,
            all_known,
            registry_trouble: Mutex::default(),
            remotes: Mutex::default(),
            beat: Mutex::default(),
        }
    }

    /// All remotes as they are now.
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

    /// Adds a remote; what is known of the own cluster already is enqueued for it.
    pub(crate) fn add(&self, remote: Arc<RemoteSync>) {
        let mut remotes = lock(&self.remotes);
        *remotes = remotes.iter().cloned().chain([remote.clone()]).collect::<Vec<_>>().into();
        drop(remotes);
        self.enqueue_all(&remote);
        self.stop.wake();
    }

    /// Removes a remote: its pairs are forgotten, their objects stay as they are. Returns which cluster
    /// the remote was, where that is known.
    pub(crate) fn remove(&self, name: &str) -> Option<String> {
        let mut remotes = lock(&self.remotes);
        let remote = remotes.iter().find(|remote| remote.name == name).cloned()?;
        *remotes =
            remotes.iter().filter(|other| other.name != name).cloned().collect::<Vec<_>>().into();
        drop(remotes);
        remote.queue.close();
        remote.stop.raise();
        self.context.metrics.forget(name);
        match self.remote_cluster(&remote).connection.identity() {
            ClusterIdentity::Known(uid) => Some(uid),
            ClusterIdentity::Unknown(_) | ClusterIdentity::Changed { .. } => None,
        }
    }

    /// The cluster of a remote, on whichever side it is.
    pub(crate) fn remote_cluster<'a>(&self, remote: &'a RemoteSync) -> &'a ClusterClient {
        match self.own {
            OwnCluster::Target(_) => &remote.source.cluster,
            OwnCluster::Source(_) => &remote.target.cluster,
        }
    }

    /// A kind as the own cluster has it, once it was found there: it says the version for all.
    pub(crate) fn own_kind(&self, kind: usize) -> Option<Arc<ApiResource>> {
        match &self.own {
            OwnCluster::Source(side) => side.stores[kind].kind(),
            OwnCluster::Target(side) => side.stores[kind].kind(),
        }
    }

    /// How many sources of a kind a remote has.
    pub(crate) fn sources(&self, remote: &RemoteSync, kind: usize) -> usize {
        let store = &remote.source.stores[kind];
        match self.own {
            OwnCluster::Target(_) => store.len(),
            OwnCluster::Source(_) => {
                let keys = store.keys();
                let ours = |key: &ObjectKey| {
                    let (namespace, name) = key::split(key);
                    remote.names.canonical_of_source(namespace, name).is_some()
                };
                keys.iter().filter(|key| ours(key)).count()
            }
        }
    }

    /// Opens and closes the queues as connections and stores allow, until `stop` is raised.
    pub(crate) fn supervise_queues(self: &Arc<Self>) {
        let mut resync = self.next_resync();
        loop {
            let seen = self.stop.wakes();
            *lock(&self.beat) = Some(Instant::now());
            for remote in self.remotes().iter() {
                remote.update_gates();
                if remote.source_cluster_is_new() {
                    self.enqueue_all(remote);
                }
                self.start_workers(remote);
            }
            if resync.is_some_and(|at| at <= Instant::now()) {
                self.remotes().iter().for_each(|remote| self.enqueue_all(remote));
                resync = self.next_resync();
            }
            if self.stop.wait_for_change(seen, Instant::now() + LOOK_AGAIN) {
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

    /// Starts workers for what is in the queue.
    pub(crate) fn start_workers(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        while remote.queue.wants_worker() {
            let (controller, of) = (self.clone(), remote.clone());
            let work = move || {
                reconcile::run_worker(&controller.context, &of, &|| controller.start_workers(&of))
            };
            if let Err(error) = runtime::spawn("worker", work) {
                log::warn!("{error}");
                remote.queue.lacks_worker();
                return;
            }
        }
    }

    /// Enqueues all pairs of a remote, whatever changed.
    pub(crate) fn enqueue_all(&self, remote: &RemoteSync) {
        for kind in 0..self.context.settings.resources.len() {
            for key in remote.source.stores[kind].keys() {
                let (namespace, name) = key::split(&key);
                self.enqueue(
                    remote,
                    kind,
                    remote.names.canonical_of_source(namespace, name),
                    false,
                );
            }
            for key in remote.target.stores[kind].keys() {
                self.enqueue_target(remote, kind, &key, false);
            }
        }
    }

    /// A target is looked at where there is a source, or where it may be this remote's orphan: with many
    /// remotes most of them have nothing to do with it. Whether it is.
    pub(crate) fn enqueue_target(
        &self,
        remote: &RemoteSync,
        kind: usize,
        key: &str,
        urgent: bool,
    ) -> bool {
        let (namespace, name) = key::split(key);
        let Some(canonical) = remote.names.canonical_of_target(namespace, name) else {
            return false;
        };
        let (source_namespace, source_name) = remote.names.source(canonical.0, canonical.1);
        let source = key::of(&source_namespace, &source_name);
        let store = &remote.target.stores[kind];
        let gone = !store.has(key);
        let marked =
            store.get(key).and_then(|target| target.value.copy_of).map(|copy| copy.cluster);
        let meant = gone
            || self.context.settings.mode.owns_by_name()
            || marked.is_some() && marked == remote.source.cluster.uid()
            || remote.source.stores[kind].has(&source);
        self.enqueue(remote, kind, Some(canonical).filter(|_| meant), urgent);
        meant
    }

    /// Puts a pair into its queue, if there is one.
    pub(crate) fn enqueue(
        &self,
        remote: &RemoteSync,
        kind: usize,
        canonical: Option<(&str, &str)>,
        urgent: bool,
    ) {
        let followed = &self.context.settings.source_namespaces;
        let followed = |namespace: &str| {
            namespace.is_empty()
                || followed.is_empty()
                || followed.iter().any(|followed| followed == namespace)
        };
        if let Some((namespace, name)) = canonical.filter(|(namespace, _)| followed(namespace)) {
            let key = key::of(namespace, name).into();
            remote.queue.add(Pair { kind, key }, urgent);
        }
    }
}
