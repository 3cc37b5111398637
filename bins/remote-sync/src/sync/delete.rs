//! Actions that end a pair: confirmation that one object is gone, deletion of the other, and removal of the
//! finalizer last.

use std::time::Instant;

use apiclient::{
    client::{Patch, Preconditions, Propagation},
    error::{Error, Result},
    lock::lock,
    resource::{CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Target},
};
use log::Level;

use crate::{
    cache::{cluster::ClusterClient, store::Answer},
    model::object::{Cached, Finalizers, SourceObject, TargetObject},
    sync::{
        gate::{DeletionReason, GateHold, GateVerdict},
        observed::{Attempt, Destroyed, Observed},
        pair::{PairContext, log_pair, stale},
        patch,
        status::{PairStatus, Wait},
    },
};

/// What a read says of the Namespace or the definition that a source belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It is there, or may not be read.
    NotKnownToEnd,
    Terminating,
    Absent,
}

impl PairContext<'_> {
    pub(crate) fn remove_finalizer(&self, source: &Cached<SourceObject>) -> Result<()> {
        let Finalizers::Ours(place) = source.value.finalizers else { return Ok(()) };
        let patch = patch::remove_finalizer(source, place, &self.context.reader.finalizer);
        match self.ask_source(&|c| c.patch(&self.at_source(), Patch::Json, &patch)) {
            Ok(released) => {
                self.store_source(released)?;
            }
            Err(Error::NotFound(_)) => self.forget_source(source.uid),
            Err(error) => return Err(error),
        }
        log_pair!(Level::Info, self, "finalizer removed, the target is gone");
        Ok(())
    }

    /// Removes from a source in use what earlier bookkeeping recorded there.
    pub(crate) fn remove_records(&self, source: &Cached<SourceObject>) -> Result<()> {
        let patch = patch::remove_records(source, &self.context.reader);
        let place = self.at_source();
        let removed = self.ask_source(&|client| client.patch(&place, Patch::Json, &patch));
        self.store_source(removed.map_err(stale)?).map(drop)
    }

    /// A list may be stale or incomplete; only this read confirms that the source is gone.
    pub(crate) fn confirm_source_gone(&self, attempt: &mut Attempt) -> Result<()> {
        let place = self.at_source();
        let object = match self.ask_source(&|client| client.get(&place)) {
            Ok(object) => object,
            Err(Error::NotFound(sentence)) => {
                self.is_of(&self.remote.source.cluster, &sentence)?;
                attempt.source_gone = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.store_source(object).map(drop)
    }

    pub(crate) fn confirm_target_gone(
        &self,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<()> {
        // The response to the namespace's creation may have been lost, and nothing else would show it yet.
        let never_synced =
            observed.source.as_ref().is_some_and(|it| it.value.generations.remote.is_none());
        if never_synced && observed.namespace.is_none() {
            self.refresh_namespace()?;
        }
        match self.ask_target(&|client| client.get(&self.at_target())) {
            Ok(object) => {
                self.store_target(object)?;
            }
            Err(Error::NotFound(sentence)) => {
                self.is_of(&self.remote.target.cluster, &sentence)?;
                attempt.target_gone = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Fails unless the cluster that said so is still the one of the session.
    fn is_of(&self, cluster: &ClusterClient, sentence: &str) -> Result<()> {
        match cluster.connection.is_still_there(&cluster.session()?)? {
            true => Ok(()),
            false => Err(Error::Unreachable(format!("{sentence}, by another cluster"))),
        }
    }

    /// Asks whether the limit and the source's surroundings let a deletion pass.
    pub(crate) fn check_gate(
        &self,
        (what, reason): (Destroyed, DeletionReason),
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<()> {
        let counted = match what {
            Destroyed::Target => Some(self.id.kind),
            Destroyed::Namespace => None,
        };
        let restarted = self.context.records.restarted(self.context.settings.orphans.within);
        let ask = |reason| {
            let mut gate = lock(&self.remote.gate);
            gate.ask((counted, &self.id.key), reason, restarted, Instant::now())
        };
        let before = lock(&self.remote.gate).hold(counted, &self.id.key);
        let mut verdict = ask(reason);
        let source = observed.source.as_ref();
        if verdict == GateVerdict::Open && what == Destroyed::Target {
            verdict = match self.deletion_of_more(source)? {
                Some(reason) => ask(reason),
                // It is back, and its objects may follow: the grace period starts over.
                None if before.is_some_and(GateHold::is_of_more) => {
                    lock(&self.remote.gate).forget(self.id);
                    ask(reason)
                }
                None => verdict,
            };
        }
        attempt.verdict = Some((what, verdict));
        Ok(())
    }

    /// The reason if the source, terminating or gone (`None`), is only a part of what is or was being deleted. Both
    /// are marked before their objects are (kubernetes `pkg/controller/namespace/deletion`, apiextensions
    /// `pkg/controller/finalizer`), so a read now cannot be too early. Whoever may not read them has the limits alone.
    fn deletion_of_more(
        &self,
        source: Option<&Cached<SourceObject>>,
    ) -> Result<Option<DeletionReason>> {
        let namespace = NAMESPACES.cluster_object(&self.source.0);
        let is_namespaced = !self.source.0.is_empty();
        if is_namespaced && self.life_at_source(&namespace)? != Life::NotKnownToEnd {
            return Ok(Some(DeletionReason::NamespaceDeleted));
        }
        let kind = &self.kinds.source.resource;
        if kind.group.is_empty() {
            return Ok(None);
        }
        let name = format!("{}.{}", kind.plural, kind.group);
        let definition = CUSTOM_RESOURCE_DEFINITIONS.cluster_object(&name);
        let life = self.life_at_source(&definition)?;
        // Not each kind has a definition. One that had it is gone with its objects.
        if life == Life::Absent && source.is_some() {
            let place = self.at_source();
            self.ask_source(&|client| client.get(&place)).map_err(stale)?;
        }
        Ok((life == Life::Terminating).then_some(DeletionReason::KindDeleted))
    }

    fn life_at_source(&self, place: &Target<'_>) -> Result<Life> {
        match self.ask_source(&|client| client.get(place)) {
            Ok(object) if object["metadata"]["deletionTimestamp"].is_string() => {
                Ok(Life::Terminating)
            }
            Err(Error::NotFound(_)) => Ok(Life::Absent),
            // A definition may be large.
            Ok(_) | Err(Error::Forbidden(_) | Error::NotServed(_) | Error::TooLarge(_)) => {
                Ok(Life::NotKnownToEnd)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn delete_target(
        &self,
        target: &Cached<TargetObject>,
    ) -> Result<Option<PairStatus>> {
        let place = self.at_target();
        let policy = self.context.settings.propagation;
        let deleted = self.ask_target(&|c| c.delete(&place, policy, &exactly(target)));
        match deleted {
            Ok(()) => {
                log_pair!(Level::Info, self, "target deleted", target = self.target_key);
                let mut terminating = target.clone();
                terminating.value.state.terminating = true;
                self.note_target(terminating);
            }
            // It was gone already, perhaps with its event handled.
            Err(Error::NotFound(_)) => {
                self.forget_target(target.uid);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // The event that it is gone continues from here.
        Ok(Some(PairStatus::Waiting(Wait::TargetTerminating)))
    }

    pub(crate) fn delete_namespace(&self, observed: &Observed) -> Result<Option<PairStatus>> {
        let Some(namespace) = &observed.namespace else { return Ok(None) };
        if !self.remote.is_complete() {
            return Ok(Some(PairStatus::Waiting(Wait::NamespaceContents)));
        }
        let place = NAMESPACES.cluster_object(&self.target.0);
        let lists = self.remote.target.namespaces.lists();
        let note = |answer| {
            self.remote.with_answers(self.id, |answers| answers.namespace = Some(answer));
        };
        match self.ask_target(&|c| c.delete(&place, Propagation::Unsaid, &exactly(namespace))) {
            Ok(()) => {
                log_pair!(Level::Info, self, "namespace deleted", target = self.target_key);
                let mut terminating = namespace.clone();
                terminating.value.terminating = true;
                note(Answer::object(lists, terminating));
            }
            Err(Error::NotFound(_)) => {
                note(Answer::absent(lists, namespace.uid));
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // With the target in it, the event that it is gone continues from here.
        let target = observed.target.is_some();
        Ok(target.then_some(PairStatus::Waiting(Wait::NamespaceTerminating)))
    }
}

/// Preconditions for this object in this version.
fn exactly<R>(cached: &Cached<R>) -> Preconditions {
    Preconditions {
        uid: Some(cached.uid.to_string()),
        resource_version: Some(cached.version.to_string()),
    }
}
