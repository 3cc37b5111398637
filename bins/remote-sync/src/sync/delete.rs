//! Actions that end a pair: confirmation that one object is gone, deletion of the other, and removal of the
//! finalizer last.

use std::{
    ops::ControlFlow::{Break, Continue},
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use apiclient::{
    client::{Patch, Preconditions},
    error::{Error, Result, optional},
    lock::lock,
    resource::{CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Target},
};
use log::Level;

use crate::{
    cache::SideObject,
    model::object::{Cached, SourceObject, TargetObject, terminating},
    sync::{
        decide::SyncAction,
        observed::{Attempt, Observed},
        pair::{PairContext, PairObject, log_pair},
        patch,
        status::{Next, Reason},
    },
};

impl PairContext<'_> {
    pub(crate) fn release(&self, source: &Cached<SourceObject>) -> Result<()> {
        let patch = patch::release(source, &self.context.reader);
        let released = self.source.ask(&|c| c.patch(&self.source.at(), Patch::Json, &patch));
        self.source.refresh(released, Some(source.uid))?;
        log_pair!(Level::Info, self, "source released");
        Ok(())
    }

    /// A list may be stale or incomplete; only this read confirms that the object is gone.
    pub(crate) fn confirm_gone(&self, observed: &Observed, attempt: &mut Attempt) -> Result<()> {
        let is_gone = match observed.source {
            None => is_gone(&self.source)?,
            Some(_) => is_gone(&self.target)?,
        };
        attempt.gone = is_gone.then(|| observed.subjects());
        Ok(())
    }

    /// Deletes the target, unless the limit or the source's surroundings have it wait.
    pub(crate) fn delete_target(
        &self,
        source: Option<&Cached<SourceObject>>,
        target: &Cached<TargetObject>,
    ) -> Result<Next> {
        if let Err(reason) = self.check_limit(source)? {
            return Ok(Break(reason));
        }
        let now = self.source.observe();
        let seen = |source: &Cached<SourceObject>| (source.uid, source.value.state.paused);
        if now.as_ref().map(seen) != source.map(seen) {
            // The source is gone, or another one: that needs a proof of its own. Or somebody has paused the pair.
            return Ok(Continue(()));
        }
        if let Break(reason) = self.may_write(SyncAction::DeleteTarget) {
            return Ok(Break(reason));
        }
        let policy = self.context.settings.propagation;
        let exactly = Preconditions {
            uid: Some(target.uid.to_string()),
            resource_version: Some(target.version.to_string()),
        };
        match self.target.ask(&|c| c.delete(&self.target.at(), policy, &exactly)) {
            Ok(()) => {
                log_pair!(Level::Info, self, "target deleted", target = self.target.key);
                let mut terminating = target.clone();
                terminating.value.state.terminating = true;
                self.target.note(terminating);
                // The event that it is gone continues from here.
                Ok(Break(Reason::TargetTerminating))
            }
            // It was gone already, perhaps with its event handled.
            Err(Error::NotFound(_)) => {
                self.target.forget(target.uid);
                Ok(Continue(()))
            }
            Err(error) => Err(error),
        }
    }

    fn check_limit(
        &self,
        source: Option<&Cached<SourceObject>>,
    ) -> Result<std::result::Result<(), Reason>> {
        let drained = self.context.records.drained();
        let limit = || lock(&self.remote.deletions);
        let waits = limit().wait(self.id, drained, Instant::now());
        if waits.is_err() {
            return Ok(waits);
        }
        // During the grace, too: what is being deleted then may be back at its end, and the source after it.
        let swept = self.is_swept(source)?;
        Ok(limit().pass(self.id, swept, source.is_none(), Instant::now()))
    }

    /// Returns whether the source, terminating or gone (`None`), is only a part of what is or was being deleted: its
    /// Namespace or its definition. Both are marked before their objects are (kubernetes
    /// `pkg/controller/namespace/deletion`, apiextensions `pkg/controller/finalizer`), so a read now cannot be too
    /// early. Whoever may not read them has the limits alone.
    fn is_swept(&self, source: Option<&Cached<SourceObject>>) -> Result<bool> {
        if !self.source.namespace().is_empty() && self.is_namespace_swept()? {
            return Ok(true);
        }
        let kind = &self.source.kind.resource;
        if kind.group.is_empty() {
            return Ok(false);
        }
        let name = kind.to_string();
        match self.is_terminating(&CUSTOM_RESOURCE_DEFINITIONS.cluster_object(&name)) {
            Err(Error::Forbidden(_) | Error::NotServed(_)) => Ok(false),
            Ok(None) => {
                // A kind may have no definition. If its definition was deleted, it is not served, and this read fails.
                self.source.refresh(self.source.get(), source.map(|source| source.uid))?;
                Ok(false)
            }
            ends => Ok(ends? == Some(true)),
        }
    }

    /// Whoever has read one may read the next: a refusal then leaves it open whether that is being deleted.
    fn is_namespace_swept(&self) -> Result<bool> {
        let has_read = &self.remote.has_read_namespace;
        match self.is_terminating(&NAMESPACES.cluster_object(self.source.namespace())) {
            Err(Error::Forbidden(_)) if !has_read.load(Relaxed) => Ok(false),
            ends => {
                has_read.fetch_or(ends.is_ok(), Relaxed);
                Ok(ends? != Some(false))
            }
        }
    }

    /// Reads an object on the source's cluster; `None` if it is absent.
    fn is_terminating(&self, place: &Target<'_>) -> Result<Option<bool>> {
        let object = optional(self.source.ask(&|client| client.get(place)))?;
        Ok(object.as_ref().map(terminating))
    }
}

/// Reads an object, and returns whether it is gone.
fn is_gone<T: SideObject>(object: &PairObject<'_, T>) -> Result<bool> {
    match object.get() {
        Err(Error::NotFound(_)) => {
            // What said so may be another cluster by now.
            let cluster = &object.side.cluster;
            cluster.check(&cluster.session()?)?;
            Ok(true)
        }
        found => object.keep(&found?).map(|_| false),
    }
}
