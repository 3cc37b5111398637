//! The actions that end a pair: proof that one object is not there, the end of the other, and our finalizer
//! last.

use std::time::{Instant, SystemTime};

use shared::{
    client::{Patch, Preconditions, Propagation},
    error::{Error, Result},
    lock::lock,
    resource::NAMESPACES,
    time::seconds_time,
};

use crate::{
    model::{
        key,
        object::{Cached, Finalizers, SourceObject, TargetObject},
    },
    sync::{
        observed::{Attempt, Observed},
        orphan::OrphanVerdict,
        pair::{PairContext, odd, stale},
        patch,
        status::{PairStatus, Wait},
    },
};

impl PairContext<'_> {
    pub(crate) fn remove_finalizer(&self, source: &Cached<SourceObject>) -> Result<()> {
        let Finalizers::Ours(place) = source.value.finalizers else { return Ok(()) };
        let patch = patch::remove_finalizer(source, place, &self.context.reader.finalizer);
        match self.ask_source(|c| c.patch(&self.at_source(), Patch::Json, &patch)) {
            // The end of one that is not followed comes as no event.
            Ok(_) if self.context.settings.is_selective() => self.forget_source(source.uid),
            Ok(released) => {
                self.store_source(released)?;
            }
            Err(Error::NotFound(_)) => self.forget_source(source.uid),
            Err(error) => return Err(error),
        }
        log::info!("{self}: finalizer removed, the target is gone");
        Ok(())
    }

    /// The same for a source that is not followed any more; it stays out of the stores.
    pub(crate) fn remove_finalizer_of_unselected(&self, attempt: &mut Attempt) -> Result<()> {
        let Some(source) = attempt.unselected.take() else { return Ok(()) };
        let Finalizers::Ours(index) = source.value.finalizers else { return Ok(()) };
        let patch = patch::remove_finalizer(&source, index, &self.context.reader.finalizer);
        let place = self.at_source();
        let released = self.ask_source(|client| client.patch(&place, Patch::Json, &patch));
        let released = released.map_err(stale)?;
        attempt.unselected = self.context.reader.source(&released);
        log::info!("{self}: finalizer removed, the source is no longer selected");
        Ok(())
    }

    pub(crate) fn mark_orphan(&self, target: &Cached<TargetObject>) -> Result<()> {
        let patch =
            patch::mark_orphan(target, &self.context.reader, &seconds_time(SystemTime::now()));
        let place = self.at_target();
        let marked = self.ask_target(|client| client.patch(&place, Patch::Merge, &patch));
        self.store_target(marked.map_err(stale)?).map(drop)
    }

    /// A list may lag or lack; only this read says that the source is gone.
    pub(crate) fn confirm_source_gone(&self, attempt: &mut Attempt) -> Result<()> {
        let place = self.at_source();
        let object = match self.ask_source(|client| client.get(&place)) {
            Ok(object) => object,
            Err(Error::NotFound(sentence)) => {
                let cluster = &self.remote.source.cluster;
                if !cluster.connection.is_still_there(&cluster.session()?)? {
                    return Err(Error::Unreachable(format!("{sentence}, by another cluster")));
                }
                attempt.source_gone = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let known = self.context.reader.source(&object).ok_or_else(|| odd(&place))?;
        // What we claimed is deleted as ever; the others are of other instances.
        let claimed = matches!(known.value.finalizers, Finalizers::Ours(_));
        if !self.context.settings.is_selective() || claimed && known.value.state.terminating {
            return self.store_source(object).map(drop);
        }
        attempt.unselected = Some(known);
        Ok(())
    }

    pub(crate) fn confirm_target_gone(
        &self,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<()> {
        // The answer to its creation may have been lost, and with it the only sign of it so far.
        let unmade =
            observed.source.as_ref().is_some_and(|it| it.value.generations.remote.is_none());
        if unmade && observed.namespace.is_none() && !self.target.0.is_empty() {
            self.refresh_namespace()?;
        }
        match self.ask_target(|client| client.get(&self.at_target())) {
            Ok(object) => {
                self.store_target(object)?;
            }
            Err(Error::NotFound(_)) => attempt.target_gone = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn delete_target(
        &self,
        target: &Cached<TargetObject>,
        attempt: &Attempt,
    ) -> Result<Option<PairStatus>> {
        let place = self.at_target();
        let policy = self.context.settings.propagation;
        let deleted = self.ask_target(|c| c.delete(&place, policy, &exactly(target)));
        match deleted {
            Ok(()) => {
                log::info!("{self}: deleted {}", self.target_key);
                let mut ends = target.clone();
                ends.value.state.terminating = true;
                let store = &self.remote.target.stores[self.id.kind];
                store.update(&self.target_key, ends);
            }
            // It went before; the event of that may have come before, too.
            Err(Error::NotFound(_)) => {
                self.forget_target(target.uid);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        self.count_orphan(attempt);
        // The event of its end goes on from here.
        Ok(Some(PairStatus::Waiting(Wait::TargetTerminating)))
    }

    pub(crate) fn delete_namespace(
        &self,
        observed: &Observed,
        attempt: &Attempt,
    ) -> Result<Option<PairStatus>> {
        let Some(namespace) = &observed.namespace else { return Ok(None) };
        if self.context.settings.mode.proves() && !self.remote.is_all_known() {
            return Ok(Some(PairStatus::Waiting(Wait::NamespaceContents)));
        }
        let place = NAMESPACES.cluster_object(&self.target.0);
        match self.ask_target(|c| c.delete(&place, Propagation::Unsaid, &exactly(namespace))) {
            Ok(()) => {
                log::info!("{self}: namespace {} deleted", self.target.0);
                let mut ends = namespace.clone();
                ends.value.terminating = true;
                let key = key::of("", &self.target.0);
                self.remote.target.namespaces.update(&key, ends);
            }
            Err(Error::NotFound(_)) => {
                let key = key::of("", &self.target.0);
                self.remote.target.namespaces.remove(&key, namespace.uid);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        self.count_orphan(attempt);
        Ok(Some(PairStatus::Waiting(Wait::NamespaceTerminating)))
    }

    fn count_orphan(&self, attempt: &Attempt) {
        if attempt.verdict == Some(OrphanVerdict::Delete) {
            lock(&self.remote.orphans).deleted(self.id, Instant::now());
        }
    }
}

fn exactly<R>(known: &Cached<R>) -> Preconditions {
    Preconditions {
        uid: Some(known.uid.to_string()),
        resource_version: Some(known.version.to_string()),
    }
}
