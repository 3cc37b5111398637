//! Actions that end a pair: confirmation that one object is gone, deletion of the other, and removal of the
//! finalizer last.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use apiclient::{
    client::{Patch, Preconditions, Propagation},
    error::{Error, Result},
    lock::lock,
    resource::{CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Target},
};
use log::Level;

use crate::{
    connection::Connection,
    model::object::{Cached, SourceObject, TargetObject},
    sync::{
        decide::SyncAction,
        observed::{Attempt, Observed},
        pair::{PairContext, PairObject, log_pair},
        patch,
        status::{PairStatus, Reason},
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
    pub(crate) fn release(&self, source: &Cached<SourceObject>) -> Result<()> {
        let patch = patch::release(source, &self.context.reader);
        let released = self.source.ask(&|c| c.patch(&self.source.at(), Patch::Json, &patch));
        self.source.refresh(released, Some(source.uid))?;
        log_pair!(Level::Info, self, "source released");
        Ok(())
    }

    /// A list may be stale or incomplete; only this read confirms that the source is gone.
    pub(crate) fn confirm_source_gone(&self, attempt: &mut Attempt) -> Result<()> {
        attempt.source_gone = is_gone(&self.source, &self.remote.source.cluster)?;
        Ok(())
    }

    pub(crate) fn confirm_target_gone(&self, attempt: &mut Attempt) -> Result<()> {
        attempt.target_gone = is_gone(&self.target, &self.remote.target.cluster)?;
        Ok(())
    }

    /// Asks whether the limit and the source's surroundings let a deletion pass.
    pub(crate) fn check_limit(&self, observed: &Observed, attempt: &mut Attempt) -> Result<()> {
        let source = observed.source.as_ref();
        let orphan = source.is_none();
        let restarted = self.context.records.restarted(self.context.settings.orphans.within);
        let limit = || lock(&self.remote.deletions);
        let mut verdict = limit().ask(self.id, orphan, restarted, Instant::now());
        // During the grace, too: what is being deleted then may be back at its end, and the source after it.
        if matches!(verdict, Ok(()) | Err(Reason::GracePeriod(_))) {
            let more = self.deletion_of_more(source)?;
            verdict = limit().hold(self.id, more, verdict, orphan, Instant::now());
        }
        attempt.verdict = Some(verdict);
        Ok(())
    }

    /// The reason if the source, terminating or gone (`None`), is only a part of what is or was being deleted. Both
    /// are marked before their objects are (kubernetes `pkg/controller/namespace/deletion`, apiextensions
    /// `pkg/controller/finalizer`), so a read now cannot be too early. Whoever may not read them has the limits alone.
    fn deletion_of_more(&self, source: Option<&Cached<SourceObject>>) -> Result<Option<Reason>> {
        let namespace = NAMESPACES.cluster_object(&self.source.namespace);
        let is_namespaced = !self.source.namespace.is_empty();
        if is_namespaced && self.life_of_namespace(&namespace)? != Life::NotKnownToEnd {
            return Ok(Some(Reason::NamespaceDeleted));
        }
        let kind = &self.kinds.source.resource;
        if kind.group.is_empty() {
            return Ok(None);
        }
        let name = kind.to_string();
        let life = match self.life_at_source(&CUSTOM_RESOURCE_DEFINITIONS.cluster_object(&name)) {
            // A definition may be large.
            Err(Error::Forbidden(_) | Error::NotServed(_) | Error::TooLarge(_)) => return Ok(None),
            life => life?,
        };
        if life == Life::Absent {
            // Not each kind has a definition. One that had it is no longer served, which is an error here.
            let seen = source.map(|source| source.uid);
            self.source.refresh(self.source.get(), seen)?;
        }
        Ok((life == Life::Terminating).then_some(Reason::KindDeleted))
    }

    /// Whoever has read one may read the next: a refusal then leaves it open whether that is being deleted.
    fn life_of_namespace(&self, namespace: &Target<'_>) -> Result<Life> {
        let has_read = &self.remote.has_read_namespace;
        match self.life_at_source(namespace) {
            Err(Error::Forbidden(_)) if !has_read.load(Relaxed) => Ok(Life::NotKnownToEnd),
            life => {
                has_read.fetch_or(life.is_ok(), Relaxed);
                life
            }
        }
    }

    fn life_at_source(&self, place: &Target<'_>) -> Result<Life> {
        match self.source.ask(&|client| client.get(place)) {
            Ok(object) if object["metadata"]["deletionTimestamp"].is_string() => {
                Ok(Life::Terminating)
            }
            Ok(_) => Ok(Life::NotKnownToEnd),
            Err(Error::NotFound(_)) => Ok(Life::Absent),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn delete_target(
        &self,
        target: &Cached<TargetObject>,
    ) -> Result<Option<PairStatus>> {
        let policy = self.context.settings.propagation;
        match self.target.ask(&|c| c.delete(&self.target.at(), policy, &exactly(target))) {
            Ok(()) => {
                log_pair!(Level::Info, self, "target deleted", target = self.target.key);
                let mut terminating = target.clone();
                terminating.value.state.terminating = true;
                self.target.note(terminating);
                // The event that it is gone continues from here.
                Ok(Some(PairStatus::NotInSync(Reason::TargetTerminating)))
            }
            // It was gone already, perhaps with its event handled.
            Err(Error::NotFound(_)) => {
                self.target.forget(target.uid);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes the target's namespace, unless something is in it. Where that cannot be known, it stays.
    pub(crate) fn delete_namespace(
        &self,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        let Some(namespace) = &observed.namespace else { return Ok(None) };
        let kept = match self.known_in_namespace() {
            // Many lists, for nothing.
            true => Some("another target is in it".to_owned()),
            false => match self.target.ask(&|client| self.first_in_namespace(client)) {
                Err(error @ (Error::Unreachable(_) | Error::Unauthorized(_))) => return Err(error),
                Err(error) => Some(error.to_string()),
                Ok(found) => found,
            },
        };
        if let Some(reason) = kept {
            let name = &self.target.namespace;
            log_pair!(Level::Info, self, "namespace kept", target = name, reason = reason);
        } else if !self.may_write(SyncAction::DeleteNamespace) {
            return Ok(Some(PairStatus::Nothing));
        } else {
            let (place, exactly) = (self.namespace(), exactly(namespace));
            match self.target.ask(&|c| c.delete(&place, Propagation::Unsaid, &exactly)) {
                Err(Error::NotFound(_)) => {}
                deleted => deleted?,
            }
            log_pair!(Level::Info, self, "namespace deleted", target = self.target.key);
        }
        attempt.namespace_done = true;
        Ok(None)
    }
}

/// Reads an object, and returns whether it is gone.
fn is_gone<T: Clone + PartialEq>(
    object: &PairObject<'_, T>,
    cluster: &Arc<Connection>,
) -> Result<bool> {
    match object.get() {
        Err(Error::NotFound(_)) => {
            // What said so may be another cluster by now.
            cluster.check(&cluster.session()?)?;
            Ok(true)
        }
        found => object.keep(&found?).map(|_| false),
    }
}

/// Preconditions for this object in this version.
fn exactly<R>(cached: &Cached<R>) -> Preconditions {
    Preconditions {
        uid: Some(cached.uid.to_string()),
        resource_version: Some(cached.version.to_string()),
    }
}
