//! Sources that carry our finalizer but are not followed any more: their remote or namespace was taken away. Nobody
//! would notice when they are deleted, so they are told of; and if the Secret of their remote was deleted, they are
//! released as soon as they are being deleted. That deletes nothing else: the copies stay.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Relaxed, Release},
    },
    time::{Duration, Instant},
};

use apiclient::{
    client::Patch,
    error::{Error, Result},
    event::CoreEvent,
    lock::lock,
    resource::{SECRETS, Target},
};
use sidecar::runtime;

use crate::{
    controller::{Controller, LocalCluster},
    model::{
        discovery::ApiResource,
        key::{self, KindIndex, ObjectKey},
        object::{Cached, Finalizers, SourceObject},
    },
    settings::{OWN, SECRET_SUFFIX},
    sync::{patch, remote::RemoteSync},
};

/// The wait before a release that failed is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// Removed remotes that are remembered.
const MOST_REMOVED: usize = 1000;

/// The sources that are not followed.
#[derive(Debug, Default)]
pub(crate) struct Unfollowed {
    sources: BTreeSet<(KindIndex, ObjectKey)>,
    /// Remotes whose Secret left the registry.
    removed: BTreeSet<String>,
    /// Some of them may have to be released now.
    news: bool,
    /// The time of the next attempt at those that could not be.
    retry: Option<Instant>,
    /// The number that was logged.
    told: usize,
}

impl Unfollowed {
    /// The number of them of a kind.
    pub(crate) fn count(&self, kind: KindIndex) -> usize {
        self.sources.iter().filter(|(of, _)| *of == kind).count()
    }

    fn note(&mut self, kind: KindIndex, key: &str, unfollowed: bool) {
        if unfollowed {
            self.sources.insert((kind, key.into()));
            self.news = true;
        } else if !self.sources.is_empty() {
            self.sources.remove(&(kind, key.into()));
        }
    }

    /// The number of them and the first one, if there are more than were logged.
    fn untold(&mut self) -> Option<(usize, KindIndex, ObjectKey)> {
        let before = std::mem::replace(&mut self.told, self.sources.len());
        let (kind, key) = self.sources.first().filter(|_| self.told > before)?;
        Some((self.told, *kind, key.clone()))
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let again = self.retry.is_some_and(|at| at <= now);
        if again {
            self.retry = None;
        }
        std::mem::take(&mut self.news) | again && !self.removed.is_empty()
    }
}

/// A source to release, and its remote.
struct Due<'a> {
    remote: String,
    kind: Arc<ApiResource>,
    namespace: &'a str,
    name: &'a str,
    source: Cached<SourceObject>,
}

impl Controller {
    /// Records whether a source of the local cluster belongs to a remote; `followed` is how it was a moment ago.
    pub(super) fn note_source(&self, kind: KindIndex, key: &str, followed: bool) {
        let LocalCluster::Source(side) = &self.local else { return };
        let mut unfollowed = lock(&self.unfollowed);
        if followed && unfollowed.sources.is_empty() {
            return;
        }
        let followed =
            |remote: &Arc<RemoteSync>| remote.names.canonical_of_source_key(key).is_some();
        // Under the lock, so that a remote that is being added is not missed.
        let lost = !self.remotes().iter().any(followed)
            && side.stores[kind].get(key).is_some_and(|source| is_claimed(&source));
        unfollowed.note(kind, key, lost);
        drop(unfollowed);
        if lost {
            self.stop.wake();
        }
    }

    /// Records whether a target's source is in a namespace that is not followed.
    pub(super) fn note_namespace(&self, kind: KindIndex, source: &str, unfollowed: bool) {
        lock(&self.unfollowed).note(kind, source, unfollowed);
    }

    /// The sources of a new remote are followed from now on.
    pub(super) fn follow_sources(&self, remote: &RemoteSync) {
        let mut unfollowed = lock(&self.unfollowed);
        unfollowed.removed.remove(&remote.name);
        if matches!(self.local, LocalCluster::Source(_)) {
            unfollowed
                .sources
                .retain(|(_, key)| remote.names.canonical_of_source_key(key).is_none());
        }
    }

    /// The sources of a former remote are not followed any more.
    pub(super) fn lose_sources(&self, remote: &RemoteSync) {
        let LocalCluster::Source(side) = &self.local else { return };
        for (kind, store) in side.stores.iter() {
            let of_remote = |key: &str| remote.names.canonical_of_source_key(key).is_some();
            for key in store.keys_where(|key, _| of_remote(key)) {
                self.note_source(kind, &key, false);
            }
        }
    }

    /// Records that the Secret of a remote left the registry.
    pub(super) fn note_removed(&self, remote: &str) {
        let mut unfollowed = lock(&self.unfollowed);
        if unfollowed.removed.len() < MOST_REMOVED {
            unfollowed.removed.insert(remote.to_owned());
            unfollowed.news = true;
        }
        drop(unfollowed);
        self.stop.wake();
    }

    /// Logs that there are more of them, and starts to release those that are due.
    pub(super) fn attend_to_unfollowed(self: &Arc<Self>) {
        if !self.all_known.load(Relaxed) {
            return;
        }
        let mut unfollowed = lock(&self.unfollowed);
        if let Some((count, kind, key)) = unfollowed.untold() {
            let ((namespace, name), kind) =
                (key::split(&key), &self.context.settings.resources[kind]);
            log::warn!(
                kind:%, namespace, name, count;
                "sources carry the finalizer and are not followed, see -cleanup"
            );
        }
        let due = unfollowed.is_due(Instant::now());
        drop(unfollowed);
        if !due || self.releasing.swap(true, AcqRel) {
            return;
        }
        let controller = self.clone();
        let release = move || {
            controller.release_all();
            controller.releasing.store(false, Release);
        };
        if let Err(error) = runtime::spawn("release", release) {
            log::warn!(error:%; "no thread to release sources");
            self.releasing.store(false, Release);
            lock(&self.unfollowed).retry = Some(Instant::now() + TRY_AGAIN);
        }
    }

    fn release_all(&self) {
        let sources = lock(&self.unfollowed).sources.clone();
        for (kind, key) in &sources {
            let Some(due) = self.due(*kind, key) else { continue };
            let Due { remote, namespace, name, .. } = &due;
            let kind = &self.context.settings.resources[*kind];
            if let Err(error) = self.release(&due) {
                log::warn!(
                    remote:%, kind:%, namespace, name, error:%;
                    "the source of a removed remote is not released"
                );
                lock(&self.unfollowed).retry = Some(Instant::now() + TRY_AGAIN);
            }
        }
    }

    /// A source that is being deleted, if its remote was removed.
    fn due<'a>(&self, kind: KindIndex, key: &'a str) -> Option<Due<'a>> {
        let LocalCluster::Source(side) = &self.local else { return None };
        let (namespace, name) = key::split(key);
        let source = side.stores[kind].get(key)?;
        let state = &source.value.state;
        if !state.terminating || state.paused || !is_claimed(&source) {
            return None;
        }
        let mapping = &self.context.settings.mapping;
        let unfollowed = lock(&self.unfollowed);
        let remote = unfollowed
            .removed
            .iter()
            .find(|remote| mapping.names(remote).canonical_of_source_key(key).is_some())?;
        let kind = side.stores[kind].kind()?;
        Some(Due { remote: remote.clone(), kind, namespace, name, source })
    }

    /// Removes the finalizer, once a read confirms that the Secret of the remote is gone: it may only have lost its label.
    fn release(&self, due: &Due<'_>) -> Result<()> {
        let (settings, cluster) = (&self.context.settings, self.local.cluster());
        let Some(registry) = &settings.registry else { return Ok(()) };
        let secret = format!("{}{SECRET_SUFFIX}", due.remote);
        let secret = SECRETS.object(&registry.namespace, &secret);
        match cluster.ask(&self.stop, &|client| client.get(&secret)) {
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                lock(&self.unfollowed).removed.remove(&due.remote);
                return Ok(());
            }
        }
        let remote = &due.remote;
        let target = due.kind.resource.object_in(due.namespace, due.name);
        let Finalizers::Ours(place) = due.source.value.finalizers else { return Ok(()) };
        let patch = patch::remove_finalizer(&due.source, place, &settings.finalizer);
        if settings.dry_run {
            apiclient::log_object!(log::Level::Info, target, remote = remote; "dry run, nothing written");
            return Ok(());
        }
        self.write_event(due, &target);
        match cluster.ask(&self.stop, &|client| client.patch(&target, Patch::Json, &patch)) {
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        apiclient::log_object!(
            log::Level::Info, target, remote = remote;
            "finalizer removed, the remote was taken away"
        );
        Ok(())
    }

    fn write_event(&self, due: &Due<'_>, target: &Target<'_>) {
        let uid = due.source.uid.to_string();
        let event = CoreEvent {
            source: "remote-sync",
            reason: "SyncReleased",
            message: format!("the remote {} was taken away, the copy there stays", due.remote),
            warning: true,
        };
        let write = |client: &_| event.write(client, target, Some(&uid));
        if let Err(error) = self.local.cluster().ask(&self.stop, &write) {
            apiclient::log_object!(log::Level::Debug, target, remote = OWN, error:% = error; "Event not recorded");
        }
    }
}

fn is_claimed(source: &Cached<SourceObject>) -> bool {
    matches!(source.value.finalizers, Finalizers::Ours(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_of_them_are_told_once() {
        let (mut unfollowed, kind) = (Unfollowed::default(), KindIndex::FIRST);
        assert_eq!(unfollowed.untold(), None);
        unfollowed.note(kind, "ns/b", true);
        unfollowed.note(kind, "ns/a", true);
        assert_eq!(unfollowed.untold(), Some((2, kind, "ns/a".into())));
        assert_eq!(unfollowed.untold(), None);
        unfollowed.note(kind, "ns/a", false);
        unfollowed.note(KindIndex::SECOND, "ns/a", true);
        assert_eq!([kind, KindIndex::SECOND].map(|kind| unfollowed.count(kind)), [1, 1]);
        assert_eq!(unfollowed.untold(), None, "as many as before");
        unfollowed.note(kind, "ns/c", true);
        assert_eq!(unfollowed.untold(), Some((3, kind, "ns/b".into())));
    }

    #[test]
    fn sources_are_looked_at_on_news_and_after_a_failure() {
        let (mut unfollowed, now) = (Unfollowed::default(), Instant::now());
        unfollowed.note(KindIndex::FIRST, "ns/a", true);
        assert!(!unfollowed.is_due(now), "no remote was removed");
        unfollowed.removed.insert("east".into());
        unfollowed.note(KindIndex::FIRST, "ns/a", true);
        assert!(unfollowed.is_due(now) && !unfollowed.is_due(now));
        unfollowed.retry = Some(now + TRY_AGAIN);
        assert!(!unfollowed.is_due(now));
        assert!(unfollowed.is_due(now + TRY_AGAIN) && !unfollowed.is_due(now + TRY_AGAIN));
    }
}
