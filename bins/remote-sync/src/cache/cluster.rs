//! A cluster as one side of all pairs: its stores, and requests to it, which are rate-limited and never wait
//! for a connection.

use std::{cell::Cell, sync::Arc, time::Duration};

use apiclient::{
    client::Client,
    discovery::ApiResource,
    error::{Error, Result},
    rate_limiter::Priority,
    stop::Stop,
};

use crate::{
    cache::{
        documents::DocumentCache,
        retry::{RetryClass, classify},
        store::ObjectStore,
    },
    connection::{ClusterSession, Connection},
    model::{
        key::KindIndex,
        object::{SourceObject, TargetObject, TargetSecret},
    },
    settings::Settings,
};

/// The longest Retry-After that is honored for a whole cluster: the response may be a gateway's.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A cluster that has sources.
pub(crate) struct SourceSide {
    pub(crate) cluster: Arc<Connection>,
    pub(crate) stores: Vec<Arc<ObjectStore<SourceObject>>>,
}

/// A cluster that has targets.
pub(crate) struct TargetSide {
    pub(crate) cluster: Arc<Connection>,
    pub(crate) stores: Vec<Arc<ObjectStore<TargetObject>>>,
    /// In the order of `-target-secret-name`.
    pub(crate) secrets: Vec<Arc<ObjectStore<TargetSecret>>>,
}

impl Connection {
    /// Sends a request of no attempt within the rate limit.
    pub(crate) fn ask<T>(&self, stop: &Stop, request: Request<'_, T>) -> Result<T> {
        Turn::new(self, stop).ask(request)
    }

    /// A response that says that the cluster is busy or unreachable slows down all requests.
    fn learn(&self, error: &Error) {
        if let Error::Unavailable { retry_after: Some(pause), of_object: false, .. } = error {
            self.limiter().pause((*pause).min(MAX_PAUSE));
        }
        if classify(error) == RetryClass::Down {
            self.doubt();
        }
    }
}

/// A request as a function: `dyn`, as what is done around each of so many would cost 1 % of the program.
pub(crate) type Request<'a, T> = &'a dyn Fn(&Client) -> Result<T>;

/// An attempt's turn at a cluster. An attempt waits for it before it decides, and once begun it comes before
/// those that have not.
pub(crate) struct Turn<'a> {
    cluster: &'a Connection,
    stop: &'a Stop,
    /// A token for the first request.
    token: Cell<bool>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(cluster: &'a Connection, stop: &'a Stop) -> Self {
        Self { cluster, stop, token: Cell::new(false) }
    }

    /// Waits for a token; `false` at the end of the remote or of the process.
    pub(crate) fn begin(&self, priority: Priority) -> bool {
        self.token.set(self.cluster.limiter().wait(priority, self.stop));
        self.token.get()
    }

    /// Sends a request within the rate limit.
    pub(crate) fn ask<T>(&self, request: impl FnOnce(&Client) -> Result<T>) -> Result<T> {
        let result = request(&self.ready()?.client);
        result.inspect_err(|error| self.cluster.learn(error))
    }

    /// The session, once there is a token.
    fn ready(&self) -> Result<ClusterSession> {
        if !self.token.take() && !self.begin(Priority::Urgent) {
            return Err(Error::Unreachable(
                "the remote was removed, or the process is shutting down".into(),
            ));
        }
        self.token.set(false);
        self.cluster.session()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.token.get() {
            self.cluster.limiter().put_back();
        }
    }
}

impl SourceSide {
    pub(crate) fn new(
        cluster: Arc<Connection>,
        settings: &Settings,
        documents: &Arc<DocumentCache>,
    ) -> Arc<Self> {
        let most = settings.max_objects;
        let stores = settings.resources.iter().map(|_| ObjectStore::new(documents, most)).collect();
        Arc::new(Self { cluster, stores })
    }
}

impl TargetSide {
    pub(crate) fn new(
        cluster: Arc<Connection>,
        settings: &Settings,
        documents: &Arc<DocumentCache>,
    ) -> Arc<Self> {
        let most = settings.max_objects;
        Arc::new(Self {
            cluster,
            stores: settings.resources.iter().map(|_| ObjectStore::new(documents, most)).collect(),
            secrets: settings.secrets.iter().map(|_| ObjectStore::new(documents, most)).collect(),
        })
    }

    /// Returns whether Secrets were listed completely in this session. A name whose Secrets may not be listed stops nothing
    /// else.
    pub(crate) fn has_secrets(&self, session: u64) -> bool {
        self.secrets.iter().all(|secrets| secrets.is_complete(session) || secrets.is_refused())
    }
}

/// A pair's kind as both clusters serve it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ApiResources {
    pub(crate) source: Arc<ApiResource>,
    pub(crate) target: Arc<ApiResource>,
}

impl ApiResources {
    /// The kind, once it was found on both sides.
    pub(crate) fn of(source: &SourceSide, target: &TargetSide, kind: KindIndex) -> Option<Self> {
        Some(Self { source: source.stores[kind].kind()?, target: target.stores[kind].kind()? })
    }
}
