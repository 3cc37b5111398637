//! A cluster as one side of all pairs: stores that reflectors keep up to date, and requests within a rate limit, which
//! never wait for a connection.

pub(crate) mod documents;
pub(crate) mod reflector;
pub(crate) mod retry;
pub(crate) mod store;

use std::{sync::Arc, time::Duration};

use apiclient::{
    client::Client,
    discovery::ApiResource,
    error::{Error, Result},
    rate_limiter::Priority,
    stop::Stop,
};

use self::{
    documents::DocumentCache,
    retry::{RetryClass, classify},
    store::ObjectStore,
};
use crate::{
    connection::Connection,
    model::{
        key::KindIndex,
        object::{SourceObject, TargetObject, TargetSecret},
    },
    settings::Settings,
};

/// The longest Retry-After that is honored for a whole cluster: the response may be a gateway's.
const MAX_PAUSE: Duration = Duration::from_secs(60);

pub(crate) struct SourceSide {
    pub(crate) cluster: Arc<Connection>,
    pub(crate) stores: Vec<Arc<ObjectStore<SourceObject>>>,
}

pub(crate) struct TargetSide {
    pub(crate) cluster: Arc<Connection>,
    pub(crate) stores: Vec<Arc<ObjectStore<TargetObject>>>,
    /// In the order of `-target-secret-name`.
    pub(crate) secrets: Vec<Arc<ObjectStore<TargetSecret>>>,
}

impl Connection {
    /// Sends a request of no attempt, once the rate limit lets it.
    pub(crate) fn ask<T>(
        &self,
        stop: &Stop,
        request: &mut dyn FnMut(&Client) -> Result<T>,
    ) -> Result<T> {
        self.wait_for_token(Priority::Urgent, stop)?;
        self.send(request)
    }

    /// Waits for a token of the rate limit.
    pub(crate) fn wait_for_token(&self, priority: Priority, stop: &Stop) -> Result<()> {
        if self.limiter().wait(priority, stop) {
            return Ok(());
        }
        Err(Error::Unreachable("the remote was removed, or the process is shutting down".into()))
    }

    /// Sends a request for which there is a token. A response that says that the cluster is busy or unreachable slows
    /// down all requests. `dyn`, as what is done around each of so many would cost 1 % of the program.
    pub(crate) fn send<T>(&self, request: &mut dyn FnMut(&Client) -> Result<T>) -> Result<T> {
        let result = request(&self.session()?.client);
        if let Err(error) = &result {
            if let Error::Unavailable { retry_after: Some(pause), of_object: false, .. } = error {
                self.limiter().pause((*pause).min(MAX_PAUSE));
            }
            if classify(error) == RetryClass::Down {
                self.doubt();
            }
        }
        result
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
