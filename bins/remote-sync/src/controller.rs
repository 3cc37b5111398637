//! Controller: all remotes, with their watches, workqueues and workers.

mod handlers;
mod remotes;

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use apiclient::{
    discovery::ApiResource, error::Result, lock::lock, rate_limiter::RateLimiter, stop::Stop,
};
use sidecar::{flags::Flags, runtime};

use crate::{
    cache::{ClusterSide, store::DocumentCache},
    connection::{ClusterRecords, ClusterSession, Connection, ConnectionConfig, supervisor},
    model::{
        key::KindIndex,
        known_clusters::OWN,
        object::{Role, SourceObject, TargetObject},
    },
    settings::{Operation, Settings},
    sync::{SyncContext, remote::RemoteSync},
};

/// The longest delay until a change without a wake is noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Shared by all threads of the program.
pub(crate) struct Controller {
    pub(crate) context: Arc<SyncContext>,
    /// Woken when a workqueue may have to open or close, and when the local cluster may have resolved a kind.
    pub(crate) stop: Stop,
    pub(crate) local: LocalCluster,
    /// Woken when credentials may have changed, and when the local cluster is connected.
    credentials: Stop,
    pub(crate) documents: Arc<DocumentCache>,
    /// Whether the registry was listed; always true without one.
    pub(crate) all_known: AtomicBool,
    /// Why some remotes of the registry are not followed.
    registry_trouble: Mutex<Option<String>>,
    remotes: Mutex<Arc<Vec<Arc<RemoteSync>>>>,
    /// When the loop that opens and closes workqueues last iterated.
    beat: Mutex<Option<Instant>>,
}

/// The local cluster, as the same side of all pairs.
#[derive(Clone)]
pub(crate) enum LocalCluster {
    Source(Arc<ClusterSide<SourceObject>>),
    Target(Arc<ClusterSide<TargetObject>>),
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
    /// Creates the controller with the local cluster; sends no request yet.
    pub(crate) fn new(settings: Settings, flags: &Flags, stop: &Stop) -> Result<Arc<Self>> {
        // First, because the process exits if the kubeconfig is unusable.
        sidecar::client::own_cluster(flags, settings.timeout)?;
        let (records, credentials) = (ClusterRecords::new(&settings), stop.child());
        let readers = vec![stop.clone(), credentials.clone()];
        let cluster = connect(&settings, &records, &credentials, OWN, readers, stop)?;
        records.local.get_or_init(|| cluster.clone());
        let documents = Arc::<DocumentCache>::default();
        let local = match settings.local_role {
            Role::Target => LocalCluster::Target(ClusterSide::new(cluster, &settings, &documents)),
            Role::Source => LocalCluster::Source(ClusterSide::new(cluster, &settings, &documents)),
        };
        Ok(Arc::new(Self {
            all_known: AtomicBool::new(settings.registry.is_none()),
            context: Arc::new(SyncContext::new(settings, records)),
            stop: stop.clone(),
            local,
            credentials,
            documents,
            registry_trouble: Mutex::default(),
            remotes: Mutex::default(),
            beat: Mutex::default(),
        }))
    }

    pub(crate) fn start(self: &Arc<Self>, flags: &Flags) -> Result<()> {
        self.watch(None, &self.stop)?;
        remotes::start(self, sidecar::client::load_own(flags))?;
        let supervisor = self.clone();
        runtime::spawn("queues", move || supervisor.supervise_queues())
    }

    /// Starts the watches of a remote's cluster, or of the local one.
    fn watch(self: &Arc<Self>, remote: Option<&Arc<RemoteSync>>, stop: &Stop) -> Result<()> {
        // Cleanup makes its own lists.
        if self.context.settings.operation == Operation::Cleanup {
            return Ok(());
        }
        match (&self.local, remote) {
            (LocalCluster::Source(side), None) => handlers::watch(self, side, None, stop),
            (LocalCluster::Target(side), None) => handlers::watch(self, side, None, stop),
            (LocalCluster::Source(_), Some(it)) => handlers::watch(self, &it.target, remote, stop),
            (LocalCluster::Target(_), Some(it)) => handlers::watch(self, &it.source, remote, stop),
        }
    }

    fn add_remote(self: &Arc<Self>, name: &str) -> Result<Arc<RemoteSync>> {
        let (settings, stop) = (&self.context.settings, self.stop.child());
        let readers = vec![stop.clone(), self.stop.clone()];
        let records = &self.context.records;
        let cluster = connect(settings, records, &self.credentials, name, readers, &stop)?;
        let (of, documents) = (cluster.clone(), &self.documents);
        let sides = match &self.local {
            LocalCluster::Target(local) => {
                (ClusterSide::new(of, settings, documents), local.clone())
            }
            LocalCluster::Source(local) => {
                (local.clone(), ClusterSide::new(of, settings, documents))
            }
        };
        let remote = Arc::new(RemoteSync::new(name, settings, cluster, sides, stop.clone()));
        let mut remotes = lock(&self.remotes);
        *remotes = remotes.iter().cloned().chain([remote.clone()]).collect::<Vec<_>>().into();
        drop(remotes);
        self.stop.wake();
        let followed = self.watch(Some(&remote), &stop);
        if followed.is_err() {
            // A remote without its watches would block the next attempt.
            self.remove(name);
        }
        followed.map(|()| remote)
    }

    pub(crate) fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        lock(&self.remotes).clone()
    }

    pub(crate) fn registry_trouble(&self) -> Option<String> {
        lock(&self.registry_trouble).clone()
    }

    pub(crate) fn beat(&self) -> Option<Instant> {
        *lock(&self.beat)
    }

    /// Removes a remote and forgets its pairs; their objects stay unchanged.
    fn remove(&self, name: &str) {
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
    }

    /// A kind as the local cluster serves it, once resolved. All clusters use its version.
    pub(crate) fn local_kind(&self, kind: KindIndex) -> Option<Arc<ApiResource>> {
        match &self.local {
            LocalCluster::Source(side) => side.stores[kind].kind(),
            LocalCluster::Target(side) => side.stores[kind].kind(),
        }
    }

    /// Opens and closes workqueues according to connections and stores, until `stop` is raised.
    pub(crate) fn supervise_queues(self: &Arc<Self>) {
        let mut resync = self.next_resync();
        loop {
            let seen = self.stop.wakes();
            *lock(&self.beat) = Some(Instant::now());
            for remote in self.remotes().iter() {
                remote.open_queue();
                remote.memory().forget_old(Instant::now());
                self.start_workers(remote);
            }
            if resync.is_some_and(|at| at <= Instant::now()) {
                for remote in self.remotes().iter() {
                    remote.memory().forget_uploads();
                    let kinds = 0..self.context.settings.resources.len();
                    kinds.for_each(|kind| self.enqueue_kind(remote, kind));
                }
                resync = self.next_resync();
            }
            if self.stop.wait_for_change(seen, Instant::now() + CHECK_INTERVAL) {
                return;
            }
        }
    }

    /// With jitter, like controller-runtime's SyncPeriod (`pkg/cache/cache.go:150-184`).
    fn next_resync(&self) -> Option<Instant> {
        let resync = self.context.settings.resync?;
        Some(Instant::now() + resync.mul_f64(0.9 + 0.2 * fastrand::f64()))
    }

    /// Waits for a session of the local cluster; `None` once `stop` is raised.
    fn local_session(&self) -> Option<ClusterSession> {
        while !self.stop.raised() {
            let seen = self.stop.wakes();
            match self.local.cluster().session() {
                Ok(session) => return Some(session),
                Err(_) => drop(self.stop.wait_for_change(seen, Instant::now() + Stop::SLICE)),
            }
        }
        None
    }
}

/// Starts a connection that wakes `readers` when a session starts or ends.
fn connect(
    settings: &Settings,
    records: &Arc<ClusterRecords>,
    credentials: &Stop,
    name: &str,
    readers: Vec<Stop>,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let config = ConnectionConfig {
        name: name.to_owned(),
        timing: settings.probes,
        request: settings.timeout,
        limiter: RateLimiter::new(settings.qps, settings.qps + settings.qps / 2),
        records: records.clone(),
        credentials: credentials.clone(),
    };
    supervisor::start(config, readers, stop)
}
