//! One cluster as the source or target side of pairs: stores kept by reflectors, and rate-limited requests that never
//! wait for a connection. Classifies failures and computes their backoff.

pub(crate) mod reflector;
pub(crate) mod store;

use std::{sync::Arc, time::Duration};

use apiclient::{
    client::Client,
    discovery::ApiResource,
    error::{Error, Result},
    stop::Stop,
};

use serde_json::Value;

use self::store::{Answer, DocumentCache, ObjectStore};
use crate::{
    connection::Connection,
    model::{
        key::KindIndex,
        object::{Cached, ObjectReader, Role, SourceObject, TargetObject, TargetSecret},
    },
    settings::Settings,
};

/// The longest Retry-After that is honored: the response may be a gateway's.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What a pair's requests returned, and its stores do not have yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Answers {
    pub(crate) source: Option<Answer<SourceObject>>,
    pub(crate) target: Option<Answer<TargetObject>>,
}

/// The objects on one side of pairs.
pub(crate) trait SideObject: Clone + PartialEq + Send + 'static {
    const ROLE: Role;

    fn read(reader: &ObjectReader, object: &Value) -> Option<Cached<Self>>;

    fn answer(answers: &mut Answers) -> &mut Option<Answer<Self>>;

    /// Returns whether to keep a new object's document for its pair. Most `listed` objects are already in sync.
    fn keeps_document(&self, listed: bool) -> bool;
}

impl SideObject for SourceObject {
    const ROLE: Role = Role::Source;

    fn read(reader: &ObjectReader, object: &Value) -> Option<Cached<Self>> {
        reader.source(object)
    }

    fn answer(answers: &mut Answers) -> &mut Option<Answer<Self>> {
        &mut answers.source
    }

    fn keeps_document(&self, listed: bool) -> bool {
        !listed || !self.seems_synced()
    }
}

impl SideObject for TargetObject {
    const ROLE: Role = Role::Target;

    fn read(reader: &ObjectReader, object: &Value) -> Option<Cached<Self>> {
        reader.target(object)
    }

    fn answer(answers: &mut Answers) -> &mut Option<Answer<Self>> {
        &mut answers.target
    }

    fn keeps_document(&self, listed: bool) -> bool {
        !listed
    }
}

/// A cluster, with its sources or its targets.
pub(crate) struct ClusterSide<T> {
    pub(crate) cluster: Arc<Connection>,
    /// By kind.
    pub(crate) stores: Vec<Arc<ObjectStore<T>>>,
    /// On the targets' side, by name in the order of `-target-secret-name`; empty for sources.
    pub(crate) secrets: Vec<(String, Arc<ObjectStore<TargetSecret>>)>,
}

impl Connection {
    /// Sends a request outside of an attempt, after a wait for the rate limiter.
    pub(crate) fn ask<T>(
        &self,
        stop: &Stop,
        request: &mut dyn FnMut(&Client) -> Result<T>,
    ) -> Result<T> {
        self.wait_for_token(true, stop)?;
        self.send(request)
    }

    /// Waits for a token of the rate limiter; `urgent` for recent changes.
    pub(crate) fn wait_for_token(&self, urgent: bool, stop: &Stop) -> Result<()> {
        if self.limiter().wait(urgent, stop) {
            return Ok(());
        }
        Err(Error::Unreachable("the remote was removed, or the process is shutting down".into()))
    }

    /// Sends a request that has its token. Retry-After pauses all requests, a failed connection brings the next probe
    /// forward, and a 401 reloads the credentials. `dyn`: one copy per caller would make the program 1 % larger.
    pub(crate) fn send<T>(&self, request: &mut dyn FnMut(&Client) -> Result<T>) -> Result<T> {
        let result = request(&self.session()?.client);
        if let Err(error) = &result {
            if let Error::Unavailable { retry_after: Some(pause), of_object: false, .. } = error {
                self.limiter().pause((*pause).min(MAX_PAUSE));
            }
            if classify(error) == RetryClass::Down {
                self.doubt();
            }
            if matches!(error, Error::Unauthorized(_)) {
                self.reload_credentials();
            }
        }
        result
    }
}

impl<T: SideObject> ClusterSide<T> {
    pub(crate) fn new(
        cluster: Arc<Connection>,
        settings: &Settings,
        documents: &Arc<DocumentCache>,
    ) -> Arc<Self> {
        let most = settings.max_objects;
        let stores = settings.resources.iter().map(|_| ObjectStore::new(documents, most)).collect();
        let secrets = settings.secrets.iter().filter(|_| T::ROLE == Role::Target);
        let secrets = secrets.map(|name| (name.clone(), ObjectStore::new(documents, most)));
        Arc::new(Self { cluster, stores, secrets: secrets.collect() })
    }

    /// Returns whether all Secrets were listed in this session. A name without permission to list it does not block the
    /// others.
    pub(crate) fn has_secrets(&self, session: u64) -> bool {
        self.secrets.iter().all(|(_, it)| it.is_complete(session) || it.is_refused())
    }
}

/// A kind as both clusters serve it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ApiResources {
    pub(crate) source: Arc<ApiResource>,
    pub(crate) target: Arc<ApiResource>,
}

impl ApiResources {
    /// Returns the kind once both sides have resolved it.
    pub(crate) fn of(
        source: &ClusterSide<SourceObject>,
        target: &ClusterSide<TargetObject>,
        kind: KindIndex,
    ) -> Option<Self> {
        Some(Self { source: source.stores[kind].kind()?, target: target.stores[kind].kind()? })
    }
}

/// client-go's shortest backoff (`util/workqueue/default_rate_limiters.go:50`), and the longest. client-go's longest, a
/// quarter of an hour, is too long for people who wait.
const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(300);
/// Shortest and longest backoff for failures that a person must fix; the longest is client-go's.
const FIRST_REFUSED: Duration = Duration::from_secs(30);
const LONGEST_REFUSED: Duration = Duration::from_secs(1000);

/// How to retry after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RetryClass {
    /// Another writer was faster: read again, the first time immediately.
    Stale,
    /// A retry may succeed soon.
    Transient,
    /// The same request would be rejected again.
    Refused,
    /// The server did not respond, or its response puts the connection in doubt.
    Down,
}

impl RetryClass {
    /// The value of the metrics' label `reason`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Transient => "transient",
            Self::Refused => "refused",
            Self::Down => "down",
        }
    }
}

pub(crate) fn classify(error: &Error) -> RetryClass {
    match error {
        Error::AlreadyExists(_) | Error::Conflict(_) | Error::Gone(_) | Error::TooNew(_) => {
            RetryClass::Stale
        }
        Error::NotFound(_) | Error::Unavailable { .. } => RetryClass::Transient,
        Error::BadPeer(_) | Error::Unauthorized(_) | Error::Unreachable(_) => RetryClass::Down,
        _ => RetryClass::Refused,
    }
}

/// The wait after a failure that follows `before` earlier ones.
pub(crate) fn backoff(class: RetryClass, before: u32) -> Duration {
    let (first, longest, doublings) = match class {
        RetryClass::Stale if before == 0 => return Duration::ZERO,
        RetryClass::Stale => (FIRST, LONGEST, before - 1),
        RetryClass::Transient | RetryClass::Down => (FIRST, LONGEST, before),
        RetryClass::Refused => (FIRST_REFUSED, LONGEST_REFUSED, before),
    };
    first.saturating_mul(1 << doublings.min(20)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_of_their_class() {
        let ms = |class, before| backoff(class, before).as_millis();
        assert_eq!([0, 1, 2].map(|n| ms(RetryClass::Transient, n)), [5, 10, 20]);
        assert_eq!([0, 1, 2].map(|n| ms(RetryClass::Stale, n)), [0, 5, 10]);
        assert_eq!([0, 1].map(|n| ms(RetryClass::Refused, n)), [30_000, 60_000]);
        let longest = |class| backoff(class, u32::MAX).as_secs();
        assert_eq!(longest(RetryClass::Transient), 300);
        assert_eq!(longest(RetryClass::Refused), 1000);
    }

    #[test]
    fn what_people_must_mend_is_not_tried_in_a_hot_loop() {
        let text = || "why".to_owned();
        assert_eq!(classify(&Error::Invalid(text())), RetryClass::Refused);
        assert_eq!(classify(&Error::Forbidden(text())), RetryClass::Refused);
        assert_eq!(classify(&Error::Conflict(text())), RetryClass::Stale);
        assert_eq!(classify(&Error::Unreachable(text())), RetryClass::Down);
        let busy = Error::Unavailable { message: text(), retry_after: None, of_object: false };
        assert_eq!(classify(&busy), RetryClass::Transient);
    }
}
