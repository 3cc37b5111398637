//! The threads that follow a cluster, one for each list: they fill the tables and tell which object is new.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use serde_json::Value;
use shared::{
    error::{Error, Result},
    pace::Backoff,
    stop::Stop,
    watch::{Selection, Step, Stream},
};

use crate::{
    connection::{Identity, Session},
    kind::Kind,
    record::Known,
    site::{Cluster, Shelf},
    table::{self, Scope},
};

/// client-go's page (`tools/pager/pager.go`, defaultPageSize).
pub(crate) const PAGE: u32 = 500;
/// A kind that a cluster does not serve (yet) is asked for again after at most this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// One that is in the discovery documents and all the same not served.
const FIND_AGAIN: Duration = Duration::from_secs(1);
/// The longest sleep in one piece.
const SLICE: Duration = Duration::from_secs(60);

/// What one thread follows.
pub(crate) struct Followed<'a, R> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) shelf: &'a Shelf<R>,
    pub(crate) scope: Scope<'a>,
    /// Of one name only.
    pub(crate) name: Option<&'a str>,
    /// As it goes into a query.
    pub(crate) labels: &'a str,
    pub(crate) metadata_only: bool,
    /// Keeps documents of what is new, for the workers; of what was listed only where this says so, as most
    /// of that is in step already.
    pub(crate) bodies: Option<&'a dyn Fn(&R) -> bool>,
    /// Finds the kind on this cluster.
    pub(crate) find: &'a dyn Fn(&Session) -> Result<Kind>,
    /// Whether what was found is still the kind to follow: of one object there may be several versions.
    pub(crate) agrees: &'a dyn Fn(&Kind) -> bool,
    /// Makes a row of an object; `None` for one that no pair can be about, and for what is no object.
    pub(crate) read: &'a dyn Fn(&Value) -> Option<Known<R>>,
    /// Told of each object that is new, changed or gone.
    pub(crate) tell: &'a dyn Fn(News<'_>),
}

/// What happened.
pub(crate) enum News<'a> {
    /// To this object, here with its document; `listed` by a list and not by a watch.
    Put { key: &'a str, object: &'a Value, listed: bool },
    /// The object with this key is gone.
    Gone { key: &'a str },
    /// The table is complete, or not any more, or it cannot be read.
    State,
}

impl News<'_> {
    /// The key of the object that it is about, if it is about one, and whether it comes before what was
    /// only listed.
    pub(crate) fn object(&self) -> Option<(&str, bool)> {
        match self {
            Self::Put { key, listed, .. } => Some((key, !listed)),
            Self::Gone { key } => Some((key, true)),
            Self::State => None,
        }
    }
}

impl<R: Clone + PartialEq> Followed<'_, R> {
    /// Follows until `stop` is raised, through all connections.
    pub(crate) fn follow(&self, stop: &Stop) {
        let mut stream = Stream::default();
        let mut backoff = Backoff::new(LONGEST_WAIT);
        let (mut identity, mut sessions, mut begun) = (None, 0, 0);
        let mut followed: Option<Arc<Kind>> = None;
        while !stop.raised() {
            let seen = stop.wakes();
            let Ok(session) = self.cluster.session() else {
                stop.wait_for_change(seen, Instant::now() + SLICE);
                continue;
            };
            // Another cluster is another world; and one that was away may come back from a backup, which
            // only a list can tell.
            if self.is_another(&mut identity, &session) {
                stream.reset();
                self.shelf.set_kind(None);
            } else if sessions != session.number {
                stream.relist();
            }
            if std::mem::replace(&mut sessions, session.number) != session.number {
                begun = 0;
            }
            match self.kind(&session) {
                Ok(kind) => {
                    backoff.succeeded();
                    // What is known of another version says nothing of this one.
                    if followed.replace(kind.clone()).is_some_and(|before| before != kind) {
                        self.shelf.table.void(self.scope);
                        stream.reset();
                    }
                    self.run(&mut stream, &session, &kind, &mut begun);
                    if self.shelf.kind().is_none() {
                        session.stop.wait(FIND_AGAIN);
                    }
                }
                Err(error) => self.fail(&error, &mut backoff, &session.stop),
            }
        }
    }

    /// Whether it is not the cluster of the session before, as far as that is known.
    fn is_another(&self, before: &mut Option<String>, session: &Session) -> bool {
        let Identity::Known(now) = &session.identity else { return false };
        before.replace(now.clone()).is_some_and(|before| before != *now)
    }

    fn kind(&self, session: &Session) -> Result<Arc<Kind>> {
        if let Some(kind) = self.shelf.kind().filter(|kind| (self.agrees)(kind)) {
            return Ok(kind);
        }
        let kind = Arc::new((self.find)(session)?);
        self.shelf.set_kind(Some(kind.clone()));
        Ok(kind)
    }

    fn fail(&self, error: &Error, backoff: &mut Backoff, stop: &Stop) {
        let retry = backoff.failed(error, Instant::now(), fastrand::f64());
        if retry.tell {
            log::warn!("{error}; it is waited for");
        }
        self.shelf.set_trouble(Some(error.to_string()));
        (self.tell)(News::State);
        stop.wait(retry.wait);
    }

    /// `begun` counts the lists and watches of the session.
    fn run(&self, stream: &mut Stream, session: &Session, kind: &Kind, begun: &mut u64) {
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
        // The session begins with asking who it is with; each list and watch of it that follows may be
        // on another connection, and come from another server.
        stream.run(&session.client, &selection, &session.stop, &mut |step| {
            if matches!(step, Step::Began { .. } | Step::Watching) {
                *begun += 1;
                if !(self.agrees)(kind) {
                    return ControlFlow::Break(());
                }
                if *begun > 2
                    && !matches!(self.cluster.connection.is_still_there(session), Ok(true))
                {
                    session.stop.wait(FIND_AGAIN);
                    return ControlFlow::Break(());
                }
            }
            self.take(step, session.number)
        });
    }

    fn take(&self, step: Step<'_>, session: u64) -> ControlFlow<()> {
        let table = &self.shelf.table;
        match step {
            Step::Began { rewound } => {
                table.begin(self.scope, rewound);
                (self.tell)(News::State);
            }
            Step::Item(object) => self.put(object, true),
            Step::Put(object) => self.put(object, false),
            Step::Removed(object) => self.removed(&object),
            Step::Complete => {
                for key in table.complete(self.scope, session) {
                    (self.tell)(News::Gone { key: &key });
                }
                self.shelf.set_trouble(None);
                (self.tell)(News::State);
            }
            Step::Watching => {
                self.cluster.watches.fetch_add(1, Relaxed);
                self.shelf.set_trouble(None);
            }
            Step::Failed(error) => {
                self.shelf.set_trouble(Some(error.to_string()));
                (self.tell)(News::State);
                // Perhaps it is served in another version now. What is known stays.
                if let Error::NotServed(_) = error {
                    self.shelf.set_kind(None);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn put(&self, mut object: Value, listed: bool) {
        let (Some(key), Some(known)) = (key(&object), (self.read)(&object)) else {
            return;
        };
        let version = known.version;
        let keep = self.bodies.is_some_and(|worth| !listed || worth(&known.row));
        if !self.shelf.table.put(&key, known) {
            return;
        }
        if keep {
            self.shelf.table.keep_body(&key, version, &mut object);
        }
        (self.tell)(News::Put { key: &key, object: &object, listed });
    }

    fn removed(&self, object: &Value) {
        let (Some(key), Some(known)) = (key(object), (self.read)(object)) else {
            return;
        };
        if self.shelf.table.removed(&key, &known) {
            (self.tell)(News::Gone { key: &key });
        }
    }
}

/// The key of an object in its table; what has no name is no object.
fn key(object: &Value) -> Option<table::Key> {
    let (namespace, name) = place(object);
    (!name.is_empty()).then(|| table::key(namespace, name))
}

/// Namespace and name of an object, empty where there is none.
pub(crate) fn place(object: &Value) -> (&str, &str) {
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (part("namespace"), part("name"))
}
