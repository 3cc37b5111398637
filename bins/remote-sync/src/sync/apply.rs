//! Performs actions as requests; the pair keeps each response.

use std::{
    ops::ControlFlow::{Break, Continue},
    time::Instant,
};

use apiclient::{
    client::Patch,
    error::{Error, Result},
    event::EventRecord,
};
use log::Level;
use serde_json::Value;

use crate::{
    model::{
        annotations::Uid,
        object::{Cached, SourceObject, TargetObject},
    },
    sync::{
        decide::SyncAction,
        observed::{Attempt, Observed},
        pair::{PairContext, log_pair, stale},
        patch::{self, Desired},
        status::{Next, Reason},
    },
};

impl PairContext<'_> {
    pub(crate) fn apply(
        &self,
        action: SyncAction,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<Next> {
        log_pair!(Level::Debug, self, "next action", action = action.as_str());
        // These read first, and then decide whether to write.
        let looks_first = matches!(
            action,
            SyncAction::SyncSecret(_) | SyncAction::DeleteTarget | SyncAction::DeleteNamespace
        );
        if action.writes()
            && !looks_first
            && let Break(reason) = self.may_write(action)
        {
            return Ok(Break(reason));
        }
        match (action, &observed.source, &observed.target) {
            (SyncAction::AddFinalizer, Some(source), _) => self.add_finalizer(source)?,
            (SyncAction::UploadStatus, Some(source), Some(target)) => {
                self.upload_status(source, target)?;
            }
            (SyncAction::SyncSecret(index), Some(source), Some(target)) => {
                return self.sync_secret(index, source, target, attempt);
            }
            (SyncAction::Create, Some(source), _) => return self.create(source, attempt),
            (SyncAction::Update { content }, Some(source), Some(target)) => {
                self.update(source, target, content, attempt)?;
            }
            (SyncAction::RecordGenerations, Some(source), Some(target)) => {
                self.record_generations(source, target)?;
            }
            (SyncAction::Release, Some(source), _) => self.release(source)?,
            (SyncAction::ConfirmGone, ..) => self.confirm_gone(observed, attempt)?,
            (SyncAction::DeleteNamespace, ..) => return self.delete_namespace(attempt),
            (SyncAction::DeleteTarget, source, Some(target)) => {
                return self.delete_target(source.as_ref(), target);
            }
            // `next_action` never chooses them without the object.
            _ => {}
        }
        Ok(Continue(()))
    }

    /// Counts a write; in a dry run, ends the attempt instead.
    pub(super) fn may_write(&self, action: SyncAction) -> Next {
        if self.context.settings.dry_run {
            return Break(Reason::DryRun(action.as_str()));
        }
        self.remote.metrics.wrote(action.as_str());
        Continue(())
    }

    fn add_finalizer(&self, source: &Cached<SourceObject>) -> Result<()> {
        let patch = patch::add_finalizer(source, &self.context.reader.finalizer);
        self.source.patch(Patch::Json, &patch)?;
        log_pair!(Level::Info, self, "finalizer added");
        Ok(())
    }

    fn upload_status(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<()> {
        let body = self.target.document(target)?;
        let patch = patch::status(source, &body["status"]);
        let place = self.source.at();
        let written = self.source.ask(&|c| c.patch(&place.status(), Patch::Json, &patch));
        let written = self.source.keep(&written.map_err(stale)?)?;
        log_pair!(Level::Debug, self, "status uploaded");
        self.remote.memory().update(self.id, |memory| {
            let (what, became) = (target.value.state.status, written.value.state.status);
            memory.uploaded.wrote(what, Some(became), Instant::now());
        });
        Ok(())
    }

    fn create(&self, source: &Cached<SourceObject>, attempt: &mut Attempt) -> Result<Next> {
        let namespace = self.target.namespace();
        if let Some(reason) = self.remote.lacks_namespace(namespace, Instant::now()) {
            return Ok(Break(reason));
        }
        let body = self.source.document(source)?;
        let place = self.target.at();
        let desired = self.desired(&body, source);
        let object = desired.created(&place);
        let created = match self.target.ask(&|client| client.create(&place, &object)) {
            Ok(created) => created,
            Err(Error::NotServed(_)) if !attempt.namespace_created && !namespace.is_empty() => {
                return self.create_namespace(source, attempt);
            }
            Err(Error::NamespaceTerminating(_)) => {
                return Ok(self.wait_for_namespace(Reason::NamespaceTerminating));
            }
            Err(error) => return Err(error),
        };
        self.remote.note_present(namespace);
        self.keep_written(source, &desired, &created, attempt)?;
        log_pair!(Level::Info, self, "target created", target = self.target.key);
        Ok(Continue(()))
    }

    fn update(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        content: bool,
        attempt: &mut Attempt,
    ) -> Result<()> {
        let source_body = self.source.document(source)?;
        let target_body = self.target.document(target)?;
        let desired = self.desired(&source_body, source);
        let patch = desired.patch(target, &target_body, content);
        let place = self.target.at();
        let updated = match self.target.ask(&|c| c.patch(&place, Patch::Json, &patch)) {
            // The server refuses to change or remove a field that it set itself, but the target already has all else.
            // Examples are the volume of a PersistentVolumeClaim and the address of a Service.
            Err(Error::Immutable(_)) if desired.altered(&target_body).is_none() => {
                self.note_written(source, Some(target));
                return Ok(());
            }
            updated => updated.map_err(stale)?,
        };
        self.keep_written(source, &desired, &updated, attempt)?;
        if target.value.copy_of.is_some() {
            log_pair!(Level::Info, self, "target updated", target = self.target.key);
        } else {
            self.report_adoption(source.uid);
        }
        Ok(())
    }

    fn report_adoption(&self, source: Uid) {
        log_pair!(Level::Info, self, "target adopted", target = self.target.key);
        if self.context.settings.adopts_any {
            let message = format!("adopted the existing object {}", self.target.key);
            self.write_event(source, "Adopted", message);
        }
    }

    /// Records a warning Event on the source.
    pub(super) fn write_event(&self, source: Uid, reason: &'static str, message: String) {
        let (about, uid) = (self.source.at(), source.to_string());
        let (controller, note) = ("remote-sync", message);
        let event = EventRecord { controller, reason, note, warning: true };
        if let Err(error) = self.source.ask(&|client| event.write(client, &about, Some(&uid))) {
            log_pair!(Level::Debug, self, "Event not recorded", error = error);
        }
    }

    /// Keeps the response to a write of the target. Fields that the server added count as settled. If it did not keep
    /// all that was written, the attempt continues and fails at its end.
    fn keep_written(
        &self,
        source: &Cached<SourceObject>,
        desired: &Desired<'_>,
        answer: &Value,
        attempt: &mut Attempt,
    ) -> Result<()> {
        let written = self.target.keep(answer)?;
        let what = source.value.state.written();
        let differs = what != written.value.state.written();
        let altered = desired.altered(answer).filter(|_| differs);
        self.note_written(source, Some(&written).filter(|_| altered.is_none()));
        attempt.altered = altered.map(|sentence| (what, sentence));
        Ok(())
    }

    /// Records which state of the source was written, and the target that settles it, if any.
    fn note_written(&self, source: &Cached<SourceObject>, target: Option<&Cached<TargetObject>>) {
        let became = target.map(|target| target.value.state.written());
        let (what, now) = (source.value.state.written(), Instant::now());
        self.remote.memory().update(self.id, |memory| memory.updated.wrote(what, became, now));
    }

    fn record_generations(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<()> {
        let patch = patch::record_generations(source, target, &self.context.reader);
        self.source.patch(Patch::Merge, &patch)?;
        Ok(())
    }
}
