//! Actions that end a pair: confirm that one object is gone, delete the other one, and remove the finalizer last.

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

    /// Reads the missing object: a list may be stale or incomplete.
    pub(crate) fn confirm_gone(&self, observed: &Observed, attempt: &mut Attempt) -> Result<()> {
        let is_gone = match observed.source {
            None => is_gone(&self.source)?,
            Some(_) => is_gone(&self.target)?,
        };
        attempt.gone = is_gone.then(|| observed.subjects());
        Ok(())
    }

    /// Deletes the target, unless the limit, or a deletion of the source's namespace or kind, delays it.
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
            // A missing or other source needs its own proof. A person may also have paused the pair.
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
                // The target's deletion event continues from here.
                Ok(Break(Reason::TargetTerminating))
            }
            // It was already gone, and its event may have been handled.
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
        // Also during the grace period: what is being deleted may be back at its end, and the source only later.
        let swept = self.is_swept(source)?;
        Ok(limit().pass(self.id, swept, source.is_none(), Instant::now()))
    }

    /// Returns whether the source, terminating or gone (`None`), is deleted as part of its Namespace or definition.
    /// Both are marked before their objects (kubernetes `pkg/controller/namespace/deletion`, apiextensions
    /// `pkg/controller/finalizer`): a read now is not too early. Without permission to read them, only the limits
    /// apply.
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
                // A kind may have no definition. If it was deleted, the kind is not served, and this read fails.
                self.source.refresh(self.source.get(), source.map(|source| source.uid))?;
                Ok(false)
            }
            ends => Ok(ends? == Some(true)),
        }
    }

    /// Returns whether the source's Namespace is terminating or gone. After any successful read, a refusal is an error.
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

    /// Returns whether an object on the source's cluster is terminating; `None` if it is absent.
    fn is_terminating(&self, place: &Target<'_>) -> Result<Option<bool>> {
        let object = optional(self.source.ask(&|client| client.get(place)))?;
        Ok(object.as_ref().map(terminating))
    }
}

/// Reads an object, and returns whether it is gone.
fn is_gone<T: SideObject>(object: &PairObject<'_, T>) -> Result<bool> {
    match object.get() {
        Err(Error::NotFound(_)) => {
            // Another cluster may have answered.
            let cluster = &object.side.cluster;
            cluster.check(&cluster.session()?)?;
            Ok(true)
        }
        found => object.keep(&found?).map(|_| false),
    }
}
