//! Reflector, as in client-go: one thread per list keeps a store up to date and passes each change to a handler.

use std::{
    mem,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    discovery::ApiResource,
    error::{Error, Result},
    json::Document,
    log_line::seconds,
    resource::Target,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use serde_json::Value;
use sidecar::runtime;

use crate::{
    cache::store::{ObjectStore, Seen},
    connection::{ClusterSession, Connection},
    model::{
        annotations::Uid,
        discovery,
        key::{self, ObjectKey},
        object::Cached,
    },
};

/// The longest wait before a retry of a list, or of a kind that the cluster does not serve (yet).
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Approximate wait before a relist of a kind with too many objects.
const RELIST_INTERVAL: Duration = Duration::from_secs(300);

/// What a reflector follows: resolves the kind, reads its objects, and handles their changes.
pub(crate) trait Watched: Send + 'static {
    type Object: Clone + PartialEq + Send;

    /// Resolves the kind on a cluster; `NotServed` if it is not served (yet).
    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource>;

    /// Returns whether an object of this namespace and name can belong to a pair.
    fn covers(&self, namespace: &str, name: &str) -> bool;

    /// Reads an object; `None` if it is invalid.
    fn read(&self, object: &Value) -> Option<Cached<Self::Object>>;

    /// Returns whether to keep a new object's document for the workers. Most `listed` objects are already in sync.
    fn keeps_document(&self, _object: &Self::Object, _listed: bool) -> bool {
        false
    }

    /// Handles a new or changed object; `None` if it is deleted or needs too much memory. `urgent` for events, and for
    /// objects missing from a list.
    fn changed(&self, key: &str, object: Option<&Value>, urgent: bool);

    /// Handles a complete list: what pairs knew before it may have changed without an event.
    fn listed(&self) {}
}

/// Keeps a store in sync with one list of a cluster.
pub(crate) struct Reflector<W: Watched> {
    pub(crate) cluster: Arc<Connection>,
    pub(crate) store: Arc<ObjectStore<W::Object>>,
    /// The kind, for log lines.
    pub(crate) kind: String,
    /// Restricts a namespaced kind to this namespace.
    pub(crate) namespace: Option<String>,
    /// Restricts the list to the object of this name.
    pub(crate) name: Option<String>,
    /// Woken when the store becomes complete or incomplete, and when listing fails or works again.
    pub(crate) supervisor: Stop,
    pub(crate) watched: W,
}

/// What a reflector has seen of a session.
struct Progress {
    /// New in each session: a cluster that was disconnected may be another one, or restored from a backup. Only a list
    /// shows that.
    watcher: Watcher,
    backoff: Backoff,
    /// Nothing has failed or been watched yet: the kind and the cluster were checked just now.
    fresh: bool,
}

impl<W: Watched> Reflector<W> {
    /// Follows the list in a thread, across all sessions, until `stop` is raised.
    pub(crate) fn start(self, stop: &Stop) -> Result<()> {
        let stop = stop.clone();
        runtime::spawn("watch", move || {
            while !stop.raised() {
                let seen = stop.wakes();
                match self.cluster.session() {
                    Ok(session) => self.follow(&session),
                    Err(_) => drop(stop.wait_for_change(seen, Instant::now() + Stop::SLICE)),
                }
            }
        })
    }

    fn follow(&self, session: &ClusterSession) {
        let (watcher, backoff) = (Watcher::default(), Backoff::new(MAX_WAIT));
        let mut progress = Progress { watcher, backoff, fresh: true };
        while !session.stop.raised() {
            let ran = self
                .kind(session, &mut progress)
                .and_then(|kind| self.run(session, &kind, &mut progress));
            if let Err(error) = ran
                && !session.stop.raised()
            {
                session.stop.wait(self.fail(error, &mut progress));
            }
        }
    }

    /// Resolves the kind. A changed kind is listed anew.
    fn kind(&self, session: &ClusterSession, progress: &mut Progress) -> Result<Arc<ApiResource>> {
        let kind = Arc::new(self.watched.find_kind(session)?);
        let before = self.store.set_kind(Some(kind.clone()));
        if before.as_ref() != Some(&kind) {
            if before.is_some() {
                log::info!(remote = self.cluster.name(), kind = self.kind; "the kind has changed");
            }
            progress.watcher.reset();
            self.supervisor.wake();
        }
        Ok(kind)
    }

    fn fail(&self, error: Error, progress: &mut Progress) -> Duration {
        let retry = progress.backoff.failed(&error, Instant::now(), fastrand::f64());
        let wait = match error {
            Error::TooLarge(_) => {
                // The store was cleared, and only a list fills it again.
                progress.watcher.reset();
                RELIST_INTERVAL.mul_f64(0.5 + fastrand::f64() / 2.0)
            }
            _ => retry.wait,
        };
        if retry.should_log {
            log::warn!(
                remote = self.cluster.name(), kind = self.kind, error:% = error,
                retry_in = seconds(wait);
                "the kind is not available"
            );
        }
        if let Error::NotServed(_) = error {
            // The kind may return with another definition and other objects. Until then, its objects stay.
            self.store.set_kind(None);
        }
        self.store.set_error(Some(error));
        self.supervisor.wake();
        wait
    }

    /// Lists and watches until the session ends or the list must start over.
    fn run(
        &self,
        session: &ClusterSession,
        kind: &ApiResource,
        progress: &mut Progress,
    ) -> Result<()> {
        let all = discovery::within(kind, self.namespace.as_deref());
        let selection = Selection::all(Target { name: self.name.as_deref(), ..all });
        let (mut watcher, mut result) = (mem::take(&mut progress.watcher), Ok(()));
        watcher.run(&session.client, &selection, &session.stop, &mut |event| {
            match self.step(event, session, kind, progress) {
                Ok(true) => return ControlFlow::Continue(()),
                Ok(false) => {}
                Err(error) => result = Err(error),
            }
            ControlFlow::Break(())
        });
        progress.watcher = watcher;
        result
    }

    /// Handles an event; returns whether to continue.
    fn step(
        &self,
        event: Event<'_>,
        session: &ClusterSession,
        kind: &ApiResource,
        progress: &mut Progress,
    ) -> Result<bool> {
        let watches = matches!(event, Event::Watching);
        let begins = watches || matches!(event, Event::Init { .. });
        if begins && !progress.fresh && !self.is_same(session)? {
            return Ok(false);
        }
        progress.fresh &= !watches && !matches!(event, Event::Failed(_));
        match event {
            Event::Init { rewound } => {
                self.store.begin_list(rewound);
                self.supervisor.wake();
            }
            Event::InitApply(document) => self.put(document, true, kind)?,
            Event::Apply(document) => self.put(document, false, kind)?,
            Event::Delete(document) => self.remove(&document),
            Event::InitDone => self.finish_list(session),
            Event::Watching => {
                self.cluster.watches.fetch_add(1, Relaxed);
                self.store.set_error(None);
                progress.backoff.succeeded();
            }
            // Another version may be served now.
            Event::Failed(error @ Error::NotServed(_)) => return Err(error.clone()),
            Event::Failed(error) => {
                self.store.set_error(Some(error.clone()));
                self.supervisor.wake();
            }
        }
        Ok(true)
    }

    fn remove(&self, document: &Document) {
        if let Some((key, seen)) = self.see(document)
            && self.store.removed(&key, seen.id())
        {
            self.watched.changed(&key, None, true);
        }
    }

    fn finish_list(&self, session: &ClusterSession) {
        for key in self.store.finish_list() {
            self.watched.changed(&key, None, true);
        }
        self.watched.listed();
        // Keeps an earlier error until a watch is established.
        self.store.set_complete(session.number);
        self.supervisor.wake();
    }

    /// Returns whether the kind and the cluster are the same as before, when a list or watch begins. A request may
    /// reach another server through a new connection. A server ends the watches of a kind if its definition changes.
    fn is_same(&self, session: &ClusterSession) -> Result<bool> {
        self.cluster.check(session)?;
        match self.watched.find_kind(session) {
            Err(error @ Error::NotServed(_)) => Err(error),
            // The known kind stays valid until the server contradicts it.
            Err(_) => Ok(true),
            Ok(found) => Ok(self.store.kind().is_some_and(|kind| *kind == found)),
        }
    }

    fn put(&self, document: Document, listed: bool, kind: &ApiResource) -> Result<()> {
        let Some((key, seen)) = self.see(&document) else { return Ok(()) };
        let object = match &document {
            Document::Whole(object) => Some(object),
            Document::TooLarge(_) => None,
        };
        let was_too_large = self.store.is_too_large(&key);
        match self.store.put(&key, seen.clone()) {
            Some(false) => return Ok(()),
            Some(true) => {}
            None => return Err(self.overflow(kind)),
        }
        match (&document, &seen) {
            (Document::Whole(object), Seen::Whole(cached)) => {
                if self.watched.keeps_document(&cached.value, listed) {
                    self.store.keep_document(&key, cached, object);
                }
            }
            _ if was_too_large => {}
            _ => {
                let (namespace, name) = key::split(&key);
                log::warn!(
                    remote = self.cluster.name(), kind = self.kind, namespace, name;
                    "ignoring the object: it needs too much memory"
                );
            }
        }
        self.watched.changed(&key, object, !listed && object.is_some());
        Ok(())
    }

    /// Stops the whole kind because its objects do not fit: a decision needs all of them.
    fn overflow(&self, kind: &ApiResource) -> Error {
        // Objects that are deleted before the next list must not take up memory until then. Their pairs are reconciled
        // after it.
        let cleared = self.store.clear();
        self.supervisor.wake();
        for key in cleared {
            self.watched.changed(&key, None, true);
        }
        let (plural, cluster) = (&kind.resource.plural, self.cluster.name());
        let most = self.store.most;
        let what = format!("there are more than {most} {plural} on cluster {cluster}");
        Error::TooLarge(format!("{what}, see -max-objects"))
    }

    /// Returns the key and the cached form of an object that can belong to a pair.
    fn see(&self, document: &Document) -> Option<(ObjectKey, Seen<W::Object>)> {
        let (namespace, name) = key::namespaced_name(document.object());
        if name.is_empty() || !self.watched.covers(namespace, name) {
            return None;
        }
        let seen = match document {
            Document::Whole(object) => Seen::Whole(self.watched.read(object)?),
            Document::TooLarge(head) => {
                let uid = Uid::parse(head["metadata"]["uid"].as_str()?)?;
                Seen::TooLarge(uid, document.version().parse().ok()?)
            }
        };
        Some((key::of(namespace, name), seen))
    }
}

#[cfg(test)]
mod tests;
