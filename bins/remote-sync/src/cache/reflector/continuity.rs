//! Continuity of a reflector: whether the next list or watch is of the same cluster and the same kind as those before.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    stop::Stop,
    watch::Watcher,
};

use super::{DISCOVERY_INTERVAL, Reflector};
use crate::{
    cache::watched::{Change, Watched},
    connection::ClusterSession,
    model::discovery::ApiResource,
};

/// The time for which what discovery says about a kind is believed at the start of a list or watch. A server ends
/// the watches of a kind whose definition changes, so that a change is seen with the next one.
const BELIEVED: Duration = Duration::from_secs(5);

impl<W: Watched> Reflector<'_, W> {
    /// Follows a kind that may have changed: a list of another version or scope says nothing about this one.
    pub(super) fn turn_to(
        &self,
        kind: &Arc<ApiResource>,
        followed: &mut Option<Arc<ApiResource>>,
        watcher: &mut Watcher,
    ) {
        let before = followed.replace(kind.clone());
        if before.as_ref().is_none_or(|before| !before.same_objects(kind)) {
            self.store.invalidate_list();
            watcher.reset();
        }
        if before.is_some_and(|before| before != *kind) {
            log_changed(self.cluster.name(), &self.watched.kind_name());
            self.watched.handle(&Change::Kind);
        }
    }

    /// Waits before a list or watch is tried again whose cluster could not be identified.
    pub(super) fn doubt(&self, error: &Error, doubts: &mut Backoff, stop: &Stop) {
        let retry = doubts.failed(error, Instant::now(), fastrand::f64());
        self.store.set_trouble(Some(error.to_string()));
        self.watched.handle(&Change::State);
        stop.wait(retry.wait);
    }

    /// Returns whether a list or watch that begins is of the same kind and cluster as those before. A session
    /// starts by reading the cluster's identity; later requests may use another connection and reach another
    /// server.
    pub(super) fn is_as_before(
        &self,
        session: &ClusterSession,
        kind: &ApiResource,
        begun: u64,
    ) -> Result<bool> {
        if !self.watched.accepts_kind(kind) {
            return Ok(false);
        }
        if begun > 2 && !self.cluster.connection.is_still_there(session)? {
            // The session is about to end.
            session.stop.wait(DISCOVERY_INTERVAL);
            return Ok(false);
        }
        Ok(self.is_same_kind(session, kind))
    }

    /// Finds the kind again unless it was found lately, and returns whether it is still as it was.
    fn is_same_kind(&self, session: &ClusterSession, kind: &ApiResource) -> bool {
        if self.store.kind_age().is_some_and(|age| age >= BELIEVED) {
            match self.watched.find_kind_again(session, kind) {
                Some(Ok(found)) => self.store.set_kind(Some(Arc::new(found))),
                Some(Err(error @ Error::NotServed(_))) => {
                    self.store.set_trouble(Some(error.to_string()));
                    self.store.set_kind(None);
                    self.watched.handle(&Change::State);
                }
                // What is known stays true until the server says otherwise.
                Some(Err(_)) | None => {}
            }
        }
        self.store.kind().is_some_and(|now| *now == *kind)
    }
}

fn log_changed(remote: &str, kind: &str) {
    log::info!(remote, kind; "the kind has changed");
}
