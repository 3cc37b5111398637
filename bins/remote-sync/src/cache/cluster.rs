//! One cluster as one side of the pairs: its connection, and what is known of its objects.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
    },
    time::Duration,
};

use shared::{
    client::Client,
    error::{Error, Result},
    stop::Stop,
};

use crate::{
    cache::{
        rate_limiter::RateLimiter,
        retry::{RetryClass, classify},
        store::Store,
    },
    connection::{ClusterIdentity, ClusterSession, Connection},
    model::{
        annotations::Uid,
        object::{SourceObject, TargetNamespace, TargetObject, TargetSecret},
    },
    settings::Settings,
};

/// A cluster is asked again after this, however long it asks to be left alone: it may be a gateway's word.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A cluster that requests go to.
pub(crate) struct ClusterClient {
    pub(crate) connection: Arc<Connection>,
    /// Watches started.
    pub(crate) watches: AtomicU64,
    throttle: RateLimiter,
}

/// A cluster that owns specs.
pub(crate) struct SourceSide {
    pub(crate) cluster: Arc<ClusterClient>,
    /// By the order of -resource.
    pub(crate) stores: Vec<Store<SourceObject>>,
}

/// A cluster that owns statuses.
pub(crate) struct TargetSide {
    pub(crate) cluster: Arc<ClusterClient>,
    /// By the order of -resource.
    pub(crate) stores: Vec<Store<TargetObject>>,
    pub(crate) namespaces: Store<TargetNamespace>,
    /// By the order of -local-secret-name.
    pub(crate) secrets: Vec<Store<TargetSecret>>,
}

impl ClusterClient {
    pub(crate) fn new(connection: Arc<Connection>, settings: &Settings) -> Arc<Self> {
        let throttle = RateLimiter::new(f64::from(settings.qps), settings.burst);
        Arc::new(Self { connection, watches: AtomicU64::new(0), throttle })
    }

    pub(crate) fn name(&self) -> &str {
        self.connection.name()
    }

    /// The connection that there is, if it leads to the cluster that it should.
    ///
    /// # Errors
    /// `Unreachable` at once when there is none.
    pub(crate) fn session(&self) -> Result<ClusterSession> {
        let session = self.connection.session()?;
        match &session.identity {
            ClusterIdentity::Changed { now, .. } => Err(Error::Unreachable(format!(
                "cluster {} was replaced: the uid of its kube-system is {now}, see -accept-identity",
                self.name()
            ))),
            _ => Ok(session),
        }
    }

    /// Which cluster it is, where that is known.
    pub(crate) fn uid(&self) -> Option<Uid> {
        match self.connection.identity() {
            ClusterIdentity::Known(uid) => Uid::parse(&uid),
            _ => None,
        }
    }

    /// Sends a request in its turn. One that says that the cluster is busy or away is heeded by all.
    pub(crate) fn ask<T>(
        &self,
        stop: &Stop,
        request: impl FnOnce(&Client) -> Result<T>,
    ) -> Result<T> {
        if !self.throttle.wait(stop) {
            return Err(Error::Unreachable(
                "the remote was removed, or the process is shutting down".into(),
            ));
        }
        let result = request(&self.session()?.client);
        if let Err(error) = &result {
            if let Error::Unavailable { retry_after: Some(pause), of_object: false, .. } = error {
                self.throttle.pause((*pause).min(LONGEST_PAUSE));
            }
            if classify(error) == RetryClass::Down {
                self.connection.doubt();
            }
        }
        result
    }
}

impl SourceSide {
    pub(crate) fn new(
        cluster: Arc<ClusterClient>,
        settings: &Settings,
        used: &Arc<AtomicUsize>,
    ) -> Arc<Self> {
        // One reflector for each namespace, or one for all.
        let scopes = settings.source_namespaces.len().max(1);
        let stores = settings.resources.iter();
        let stores =
            stores.map(|_| Store::new(used.clone(), scopes, settings.max_objects)).collect();
        Arc::new(Self { cluster, stores })
    }
}

impl TargetSide {
    pub(crate) fn new(
        cluster: Arc<ClusterClient>,
        settings: &Settings,
        used: &Arc<AtomicUsize>,
    ) -> Arc<Self> {
        let most = settings.max_objects;
        Arc::new(Self {
            cluster,
            stores: settings.resources.iter().map(|_| Store::new(used.clone(), 1, most)).collect(),
            namespaces: Store::new(used.clone(), 1, most),
            secrets: settings.secrets.iter().map(|_| Store::new(used.clone(), 1, most)).collect(),
        })
    }

    /// Whether namespaces and Secrets are known as a whole, as of this session.
    pub(crate) fn is_complete(&self, namespaced: bool, session: u64) -> bool {
        (!namespaced || self.namespaces.is_complete(session))
            && self.secrets.iter().all(|secrets| secrets.is_complete(session))
    }
}
