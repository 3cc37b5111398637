//! Reflector, as in client-go: a thread for each list of a cluster keeps a store up to date and passes every
//! change to a handler.

mod continuity;

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    json::{Document, Head},
    log_line::seconds,
    resource::Target,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use serde_json::Value;

use crate::{
    cache::{
        cluster::ClusterClient,
        store::{ObjectStore, PutResult},
        watched::{Change, Watched},
    },
    connection::ClusterSession,
    model::{
        annotations::Uid,
        discovery::ApiResource,
        key::{self, ObjectKey},
        object::Cached,
    },
};

/// client-go's page size (`tools/pager/pager.go`, defaultPageSize).
pub(crate) const PAGE: u32 = 500;
/// The longest wait before a kind that a cluster does not serve (yet) is looked up again.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The wait before a kind is looked up again that discovery lists but the server does not serve.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);
/// Roughly the wait before a kind with too many objects is listed again.
const RELIST_INTERVAL: Duration = Duration::from_secs(300);
/// The longest sleep in one piece.
const SLICE: Duration = Duration::from_secs(60);

/// Keeps a store in sync with one list of a cluster.
pub(crate) struct Reflector<'a, W: Watched> {
    pub(crate) cluster: &'a ClusterClient,
    pub(crate) store: &'a ObjectStore<W::Object>,
    /// Only objects in this namespace, if the kind is namespaced.
    pub(crate) namespace: Option<&'a str>,
    /// Only the object of this name.
    pub(crate) name: Option<&'a str>,
    pub(crate) metadata_only: bool,
    pub(crate) watched: W,
}

impl<W: Watched> Reflector<'_, W> {
    /// Follows the list until `stop` is raised, across all sessions.
    pub(crate) fn follow(&self, stop: &Stop) {
        let mut watcher = Watcher::default();
        let [mut backoff, mut doubts] = [Backoff::new(MAX_WAIT), Backoff::new(MAX_WAIT)];
        let (mut identity, mut sessions, mut begun) = (None, 0, 0);
        let mut followed: Option<Arc<ApiResource>> = None;
        while !stop.raised() {
            let seen = stop.wakes();
            let Ok(session) = self.cluster.session() else {
                stop.wait_for_change(seen, Instant::now() + SLICE);
                continue;
            };
            // Nothing is carried over to another cluster; and one that was disconnected may have been
            // restored from a backup, which only a list can show.
            if is_another(&mut identity, &session) {
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
                    self.turn_to(&kind, &mut followed, &mut watcher);
                    match self.run(&mut watcher, &session, &kind, &mut begun, &mut doubts) {
                        Run::Overflowed => {
                            watcher.reset();
                            session.stop.wait(RELIST_INTERVAL.mul_f64(0.5 + fastrand::f64() / 2.0));
                        }
                        Run::Doubted(error) => self.doubt(&error, &mut doubts, &session.stop),
                        Run::Ended => {}
                    }
                    if self.store.kind().is_none() {
                        // What comes back may be another definition, with other objects.
                        followed = None;
                        session.stop.wait(DISCOVERY_INTERVAL);
                    }
                }
                Err(error) => self.fail(&error, &mut backoff, &session.stop),
            }
        }
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
            log_unavailable(self.cluster.name(), &self.watched.kind_name(), error, retry.wait);
        }
        self.store.set_error(error);
        self.watched.handle(&Change::State);
        stop.wait(retry.wait);
    }

    /// Lists and watches until the session ends or the list has to start over; `begun` counts the lists and
    /// watches of the session.
    fn run(
        &self,
        watcher: &mut Watcher,
        session: &ClusterSession,
        kind: &ApiResource,
        begun: &mut u64,
        doubts: &mut Backoff,
    ) -> Run {
        let selection = Selection {
            target: target(kind, self.namespace, self.name),
            labels: "",
            metadata_only: self.metadata_only,
            page: PAGE,
            list_after_loss: false,
        };
        let mut ended = Run::Ended;
        watcher.run(&session.client, &selection, &session.stop, &mut |event| {
            if matches!(event, Event::Init { .. } | Event::Watching) {
                *begun += 1;
                match self.is_as_before(session, kind, *begun) {
                    Ok(true) => doubts.succeeded(),
                    Ok(false) => return ControlFlow::Break(()),
                    Err(error) => {
                        ended = Run::Doubted(error);
                        return ControlFlow::Break(());
                    }
                };
            }
            let handled = self.handle_event(event, session.number);
            if let Err(Overflow) = handled {
                self.overflow(kind);
                ended = Run::Overflowed;
            }
            handled.unwrap_or(ControlFlow::Break(()))
        });
        ended
    }

    /// Holds the whole kind, as there are more objects than fit: half of them are no basis for a decision.
    fn overflow(&self, kind: &ApiResource) {
        let cluster = self.cluster.name();
        let trouble = too_many(kind, cluster, self.store.most());
        if self.store.trouble().as_ref() != Some(&trouble) {
            log_too_many(cluster, &self.watched.kind_name(), &trouble);
        }
        self.store.set_trouble(Some(trouble));
        // Objects that are gone by the next list must not take up room until then. Their pairs are
        // reconciled after that list.
        let cleared = self.store.clear();
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
                store.begin_list(rewound);
                self.watched.handle(&Change::State);
            }
            Event::InitApply(document) => self.put(document, true)?,
            Event::Apply(document) => self.put(document, false)?,
            Event::Delete(document) => self.deleted(document),
            Event::InitDone => {
                for key in store.finish_list(session) {
                    self.watched.handle(&Change::Gone { key: &key });
                }
                // An earlier error may still hold until a watch is established.
                self.watched.handle(&Change::State);
            }
            Event::Watching => {
                self.cluster.watches.fetch_add(1, Relaxed);
                self.store.set_trouble(None);
            }
            Event::Failed(error) => {
                self.store.set_error(error);
                self.watched.handle(&Change::State);
                // Perhaps another version is served now. The objects stay.
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
        let Some((key, cached)) = self.value(&object) else { return Ok(()) };
        let store = &self.store;
        let keep = self.watched.keeps_document(&cached.value, listed);
        match store.put(&key, cached.clone()) {
            PutResult::Unchanged => return Ok(()),
            PutResult::Full => return Err(Overflow),
            PutResult::Changed => {}
        }
        if keep {
            store.keep_document(&key, &cached, &object);
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
                // The reconciler reports those of pairs.
                if !W::IN_PAIRS {
                    log_too_large(self.cluster.name(), &self.watched.kind_name(), head);
                }
                self.watched.handle(&Change::TooLarge { key: &key });
                Ok(())
            }
        }
    }

    fn deleted(&self, document: Document) {
        let last = match &document {
            Document::Whole(object) => {
                self.value(object).map(|(key, cached)| (key, cached.uid, cached.version))
            }
            Document::TooLarge(head) => self.head(head),
        };
        if let Some((key, uid, version)) = last
            && self.store.removed(&key, uid, version)
        {
            self.watched.handle(&Change::Gone { key: &key });
        }
    }

    /// The key and the cached form of an object that can belong to a pair.
    fn value(&self, object: &Value) -> Option<(ObjectKey, Cached<W::Object>)> {
        let key = self.key(key::namespaced_name(object))?;
        Some((key, self.watched.read(object)?))
    }

    /// Key, uid and version of one that is too large.
    fn head(&self, head: &Head) -> Option<(ObjectKey, Uid, u64)> {
        let key = self.key((&head.namespace, &head.name))?;
        Some((key, Uid::parse(&head.uid)?, head.version.parse().ok()?))
    }

    /// The key, if the object has a name and can belong to a pair.
    fn key(&self, (namespace, name): (&str, &str)) -> Option<ObjectKey> {
        let covered = !name.is_empty() && self.watched.covers(namespace, name);
        covered.then(|| key::of(namespace, name))
    }
}

/// The way a run of the watcher ended.
enum Run {
    Ended,
    Overflowed,
    /// Which cluster answers could not be read.
    Doubted(Error),
}

/// The store has no room for another object.
#[derive(Clone, Copy)]
struct Overflow;

// Functions rather than methods: a reflector is compiled once for each kind of store.

/// Returns whether it is not the previous session's cluster, as far as both are known.
fn is_another(before: &mut Option<Uid>, session: &ClusterSession) -> bool {
    let Some(now) = session.cluster.uid else { return false };
    before.replace(now).is_some_and(|before| before != now)
}

/// The objects to list.
fn target<'a>(
    kind: &'a ApiResource,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
) -> Target<'a> {
    match (namespace, name) {
        (Some(namespace), Some(name)) if kind.namespaced => kind.resource.object(namespace, name),
        (_, Some(name)) => kind.resource.named_everywhere(name),
        (Some(namespace), None) if kind.namespaced => kind.resource.collection(namespace),
        _ => kind.resource.everywhere(),
    }
}

fn too_many(kind: &ApiResource, cluster: &str, most: usize) -> String {
    let plural = &kind.resource.plural;
    format!("there are more than {most} {plural} on cluster {cluster}, see -max-objects")
}

fn log_unavailable(remote: &str, kind: &str, error: &Error, wait: Duration) {
    log::warn!(
        remote, kind, error:% = error, retry_in = seconds(wait);
        "the kind is not available"
    );
}

fn log_too_many(remote: &str, kind: &str, error: &str) {
    log::warn!(remote, kind, error; "too many objects, the kind is held");
}

fn log_too_large(remote: &str, kind: &str, head: &Head) {
    let (namespace, name) = (&*head.namespace, &*head.name);
    log::warn!(
        remote, kind, namespace, name;
        "ignoring the object: it needs too much memory"
    );
}
