//! Reflector, as in client-go: a thread for each list of a cluster keeps a store up to date and passes every
//! change to a handler.

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

/// The longest wait before a list is tried again, or a kind that a cluster does not serve (yet).
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Roughly the wait before a kind with too many objects is listed again.
const RELIST_INTERVAL: Duration = Duration::from_secs(300);

/// A list to follow: how its objects are read, and who handles their changes.
pub(crate) trait Watched: Send + 'static {
    type Object: Clone + PartialEq + Send;

    /// Finds the kind as a cluster serves it; `NotServed` if it does not (yet).
    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource>;

    /// Returns whether an object of this namespace and name can belong to a pair.
    fn covers(&self, namespace: &str, name: &str) -> bool;

    /// Reads an object; `None` if it is invalid.
    fn read(&self, object: &Value) -> Option<Cached<Self::Object>>;

    /// Returns whether a new object's document is kept for the workers; most of what was `listed` is in sync already.
    fn keeps_document(&self, _object: &Self::Object, _listed: bool) -> bool {
        false
    }

    /// An object is new or changed; `None` if it is gone or needs too much memory. `urgent` for events, and for
    /// objects that a list lacks.
    fn changed(&self, key: &str, object: Option<&Value>, urgent: bool);

    /// A list is in the store. What pairs knew before it may have changed without an event.
    fn listed(&self) {}
}

/// Keeps a store in sync with one list of a cluster.
pub(crate) struct Reflector<W: Watched> {
    pub(crate) cluster: Arc<Connection>,
    pub(crate) store: Arc<ObjectStore<W::Object>>,
    /// The kind in log lines.
    pub(crate) kind: String,
    /// Only objects in this namespace, if the kind is namespaced.
    pub(crate) namespace: Option<String>,
    /// Only the object of this name.
    pub(crate) name: Option<String>,
    /// Woken when the store becomes complete or incomplete, and when it can be filled or not.
    pub(crate) supervisor: Stop,
    pub(crate) watched: W,
}

/// The part of a session that a reflector has seen.
struct Progress {
    /// Each session has a new one: a cluster that was disconnected may be another one, or restored from a backup,
    /// which only a list can show.
    watcher: Watcher,
    backoff: Backoff,
    /// Nothing has failed or been watched yet: the kind and the cluster were looked at just now.
    fresh: bool,
}

impl<W: Watched> Reflector<W> {
    /// Follows the list in a thread until `stop` is raised, across all sessions.
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

    /// Finds the kind. A list of the kind before it changed says nothing about this one.
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
                // The store was cleared: only a list fills it again.
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
            // What comes back may be another definition, with other objects. Until then they stay.
            self.store.set_kind(None);
        }
        self.store.set_error(Some(error));
        self.supervisor.wake();
        wait
    }

    /// Lists and watches until the session ends or the list has to start over.
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

    /// Handles an event; returns whether to go on.
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
            // Perhaps another version is served now.
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
        // An earlier error may still hold until a watch is established.
        self.store.set_complete(session.number);
        self.supervisor.wake();
    }

    /// Returns whether a list or watch that begins is of the same kind and cluster as before. Requests may use another
    /// connection and reach another server, and a server ends the watches of a kind whose definition changes.
    fn is_same(&self, session: &ClusterSession) -> Result<bool> {
        self.cluster.check(session)?;
        match self.watched.find_kind(session) {
            Err(error @ Error::NotServed(_)) => Err(error),
            // What is known stays true until the server says otherwise.
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

    /// Holds the whole kind, as there are more objects than fit: a decision needs them all.
    fn overflow(&self, kind: &ApiResource) -> Error {
        // Objects that are gone by the next list must not take up room until then. Their pairs are
        // reconciled after that list.
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

    /// The key and the cached form of an object that can belong to a pair.
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
