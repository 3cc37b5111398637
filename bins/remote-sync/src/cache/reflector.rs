//! Reflectors, as in client-go: a thread for each list of a cluster keeps a store up to date and has what is
//! new, changed or gone handled.

use std::{
    cell::Cell,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use serde_json::Value;
use shared::{
    backoff::Backoff,
    error::{Error, Result},
    json::{Document, Head},
    stop::Stop,
    watch::{Event, Selection, Watcher},
};

use crate::{
    cache::{
        cluster::ClusterClient,
        store::{ListScope, PutResult, Store},
        watched::{Change, Watched},
    },
    connection::{ClusterIdentity, ClusterSession},
    model::{
        annotations::Uid,
        discovery::ApiResource,
        key::{self, ObjectKey},
        object::Cached,
    },
};

/// client-go's page (`tools/pager/pager.go`, defaultPageSize).
pub(crate) const PAGE: u32 = 500;
/// A kind that a cluster does not serve (yet) is asked for again after at most this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// One that is in the discovery documents and all the same not served.
const FIND_AGAIN: Duration = Duration::from_secs(1);
/// A list that did not fit is read again after about this long.
const FITS_AGAIN: Duration = Duration::from_secs(300);
/// The longest sleep in one piece.
const SLICE: Duration = Duration::from_secs(60);

/// Follows one list of a cluster into its store.
pub(crate) struct Reflector<'a, W: Watched> {
    pub(crate) cluster: &'a ClusterClient,
    pub(crate) store: &'a Store<W::Object>,
    pub(crate) scope: ListScope<'a>,
    /// Of one name only.
    pub(crate) name: Option<&'a str>,
    /// As it goes into a query.
    pub(crate) labels: &'a str,
    pub(crate) metadata_only: bool,
    pub(crate) watched: W,
}

impl<W: Watched> Reflector<'_, W> {
    /// Follows until `stop` is raised, through all connections.
    pub(crate) fn follow(&self, stop: &Stop) {
        let mut watcher = Watcher::default();
        let mut backoff = Backoff::new(LONGEST_WAIT);
        let (mut identity, mut sessions, mut begun) = (None, 0, 0);
        let mut followed: Option<Arc<ApiResource>> = None;
        while !stop.raised() {
            let seen = stop.wakes();
            let Ok(session) = self.cluster.session() else {
                stop.wait_for_change(seen, Instant::now() + SLICE);
                continue;
            };
            // Another cluster is another world; and one that was away may come back from a backup, which
            // only a list can tell.
            if self.is_another(&mut identity, &session) {
                watcher.reset();
                self.store.set_kind(None);
            } else if sessions != session.number {
                watcher.relist();
            }
            if std::mem::replace(&mut sessions, session.number) != session.number {
                begun = 0;
            }
            match self.kind(&session) {
                Ok(kind) => {
                    backoff.succeeded();
                    // What is known of another version says nothing of this one.
                    if followed.replace(kind.clone()).is_some_and(|before| before != kind) {
                        self.store.invalidate_list(self.scope);
                        watcher.reset();
                    }
                    if self.run(&mut watcher, &session, &kind, &mut begun) == Run::Overflowed {
                        watcher.reset();
                        session.stop.wait(FITS_AGAIN.mul_f64(0.5 + fastrand::f64() / 2.0));
                    } else if self.store.kind().is_none() {
                        session.stop.wait(FIND_AGAIN);
                    }
                }
                Err(error) => self.fail(&error, &mut backoff, &session.stop),
            }
        }
    }

    /// Whether it is not the cluster of the session before, as far as that is known.
    fn is_another(&self, before: &mut Option<String>, session: &ClusterSession) -> bool {
        let ClusterIdentity::Known(now) = &session.identity else { return false };
        before.replace(now.clone()).is_some_and(|before| before != *now)
    }

    fn kind(&self, session: &ClusterSession) -> Result<Arc<ApiResource>> {
        if let Some(kind) = self.store.kind().filter(|kind| self.watched.accepts_kind(kind)) {
            return Ok(kind);
        }
        let kind = Arc::new(self.watched.find_kind(session)?);
        self.store.set_kind(Some(kind.clone()));
        Ok(kind)
    }

    fn fail(&self, error: &Error, backoff: &mut Backoff, stop: &Stop) {
        let retry = backoff.failed(error, Instant::now(), fastrand::f64());
        if retry.should_log {
            log::warn!("{error}; waiting for it");
        }
        self.store.set_trouble(Some(error.to_string()));
        self.watched.handle(&Change::State);
        stop.wait(retry.wait);
    }

    /// `begun` counts the lists and watches of the session.
    fn run(
        &self,
        watcher: &mut Watcher,
        session: &ClusterSession,
        kind: &ApiResource,
        begun: &mut u64,
    ) -> Run {
        let resource = &kind.resource;
        let target = match (self.scope.namespace, self.name) {
            (_, Some(name)) => resource.named_everywhere(name),
            (Some(namespace), None) if kind.namespaced => resource.collection(namespace),
            _ => resource.everywhere(),
        };
        let selection = Selection {
            target,
            labels: self.labels,
            metadata_only: self.metadata_only,
            page: PAGE,
        };
        let ended = Cell::new(Run::Ended);
        // The session begins with asking who it is with; each list and watch of it that follows may be
        // on another connection, and come from another server.
        watcher.run(&session.client, &selection, &session.stop, &mut |event| {
            if matches!(event, Event::Init { .. } | Event::Watching) {
                *begun += 1;
                if !self.watched.accepts_kind(kind) {
                    return ControlFlow::Break(());
                }
                if *begun > 2
                    && !matches!(self.cluster.connection.is_still_there(session), Ok(true))
                {
                    session.stop.wait(FIND_AGAIN);
                    return ControlFlow::Break(());
                }
            }
            let taken = self.handle_event(event, session.number);
            if let Err(Overflow) = taken {
                self.overflow(kind);
                ended.set(Run::Overflowed);
            }
            taken.unwrap_or(ControlFlow::Break(()))
        });
        ended.get()
    }

    /// There are more objects than there is room for. Nothing is decided by half of them: the whole kind is
    /// held until they fit.
    fn overflow(&self, kind: &ApiResource) {
        let (plural, cluster) = (&kind.resource.plural, self.cluster.name());
        let most = self.store.most();
        let trouble =
            format!("there are more than {most} {plural} on cluster {cluster}, see -max-objects");
        if self.store.trouble().as_ref() != Some(&trouble) {
            log::warn!("{trouble}; the kind is held");
        }
        self.store.set_trouble(Some(trouble));
        // Those that are gone by the next list must not take the room of others. Whoever they are pairs of
        // looks then.
        let cleared = self.store.clear(self.scope);
        self.watched.handle(&Change::State);
        for key in cleared {
            self.watched.handle(&Change::Gone { key: &key });
        }
    }

    fn handle_event(
        &self,
        event: Event<'_>,
        session: u64,
    ) -> std::result::Result<ControlFlow<()>, Overflow> {
        let store = &self.store;
        match event {
            Event::Init { rewound } => {
                store.begin_list(self.scope, rewound);
                self.watched.handle(&Change::State);
            }
            Event::InitApply(document) => self.put(document, true)?,
            Event::Apply(document) => self.put(document, false)?,
            Event::Delete(document) => self.deleted(document),
            Event::InitDone => {
                for key in store.finish_list(self.scope, session) {
                    self.watched.handle(&Change::Gone { key: &key });
                }
                // Until a watch stands, what was told before may still hold.
                self.watched.handle(&Change::State);
            }
            Event::Watching => {
                self.cluster.watches.fetch_add(1, Relaxed);
                self.store.set_trouble(None);
            }
            Event::Failed(error) => {
                self.store.set_trouble(Some(error.to_string()));
                self.watched.handle(&Change::State);
                // Perhaps it is served in another version now. What is known stays.
                if let Error::NotServed(_) = error {
                    self.store.set_kind(None);
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn put(&self, document: Document, listed: bool) -> std::result::Result<(), Overflow> {
        let object = match document {
            Document::Whole(object) => object,
            Document::TooLarge(head) => return self.put_too_large(&head),
        };
        let Some((key, known)) = self.value(&object) else { return Ok(()) };
        let store = &self.store;
        let keep = self.watched.keeps_document(&known.value, listed);
        match store.put(&key, known.clone()) {
            PutResult::Unchanged => return Ok(()),
            PutResult::Full => return Err(Overflow),
            PutResult::Changed => {}
        }
        if keep {
            store.keep_document(&key, &known, &object);
        }
        self.watched.handle(&Change::Put { key: &key, object: &object, listed });
        Ok(())
    }

    fn put_too_large(&self, head: &Head) -> std::result::Result<(), Overflow> {
        let Some((key, uid, version)) = self.head(head) else { return Ok(()) };
        match self.store.put_too_large(&key, uid, version) {
            PutResult::Unchanged => Ok(()),
            PutResult::Full => Err(Overflow),
            PutResult::Changed => {
                // Of a pair it is told by whoever works on it.
                if !W::IN_PAIRS {
                    let cluster = self.cluster.name();
                    log::warn!(
                        "{key} on cluster {cluster} needs too much memory, leaving it alone"
                    );
                }
                self.watched.handle(&Change::TooLarge { key: &key });
                Ok(())
            }
        }
    }

    fn deleted(&self, document: Document) {
        let last = match &document {
            Document::Whole(object) => {
                self.value(object).map(|(key, known)| (key, known.uid, known.version))
            }
            Document::TooLarge(head) => self.head(head),
        };
        if let Some((key, uid, version)) = last
            && self.store.removed(&key, uid, version)
        {
            self.watched.handle(&Change::Gone { key: &key });
        }
    }

    /// The key and the value of an object that a pair can be about.
    fn value(&self, object: &Value) -> Option<(ObjectKey, Cached<W::Object>)> {
        let key = self.key(key::namespaced_name(object))?;
        Some((key, self.watched.read(object)?))
    }

    /// The same for one of which no more is known.
    fn head(&self, head: &Head) -> Option<(ObjectKey, Uid, u64)> {
        let key = self.key((&head.namespace, &head.name))?;
        Some((key, Uid::parse(&head.uid)?, head.version.parse().ok()?))
    }

    /// What has no name is no object.
    fn key(&self, (namespace, name): (&str, &str)) -> Option<ObjectKey> {
        let covered = !name.is_empty() && self.watched.covers(namespace, name);
        covered.then(|| key::of(namespace, name))
    }
}

/// How a run of a watcher ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Ended,
    Overflowed,
}

/// There is no room for one more object.
#[derive(Clone, Copy)]
struct Overflow;
