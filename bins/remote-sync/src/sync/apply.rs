//! Actions as requests; the pair keeps each response.

use std::time::{Duration, Instant};

use apiclient::{
    client::Patch,
    error::{Error, Result},
};
use log::Level;
use serde_json::Value;

use crate::{
    model::{
        annotations::Uid,
        object::{Cached, SourceObject, TargetObject},
    },
    settings::AdoptPolicy,
    sync::{
        decide::SyncAction,
        desired::Desired,
        observed::{Attempt, Observed},
        outcome,
        pair::{PairContext, log_pair, stale},
        patch,
        status::{PairStatus, Reason},
    },
};

/// The wait before a status is uploaded again to a kind that turned out to have none: discovery will say so.
const NO_STATUS_WAIT: Duration = Duration::from_secs(30);

impl PairContext<'_> {
    /// Performs an action; returns the pair's status if that ends the attempt.
    pub(crate) fn apply(
        &self,
        action: SyncAction,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        log_pair!(Level::Debug, self, "next action", action = action.as_str());
        if action.writes() && !action.looks_first() && !self.may_write(action) {
            return Ok(Some(PairStatus::Nothing));
        }
        attempt.spec_started |= action.starts_spec();
        match (action, &observed.source, &observed.target) {
            (SyncAction::AddFinalizer, Some(source), _) => self.add_finalizer(source)?,
            (SyncAction::UploadStatus, Some(source), Some(target)) => {
                self.upload_status(source, target, attempt)?
            }
            (SyncAction::SyncSecret(index), Some(source), Some(target)) => {
                return self.sync_secret(index, source, target, attempt);
            }
            (SyncAction::CreateNamespace, Some(source), _) => {
                return self.create_namespace(source, attempt);
            }
            (SyncAction::Create, Some(source), _) => return self.create(source, attempt),
            (SyncAction::Update { content, metadata }, Some(source), Some(target)) => {
                self.update(source, target, (content, metadata), attempt)?;
            }
            (SyncAction::RecordGenerations, Some(source), Some(target)) => {
                self.record_generations(source, target)?;
            }
            (SyncAction::Release, Some(source), _) => self.release(source)?,
            (SyncAction::ConfirmSourceGone, ..) => self.confirm_source_gone(attempt)?,
            (SyncAction::ConfirmTargetGone, ..) => self.confirm_target_gone(attempt)?,
            (SyncAction::CheckLimit, ..) => self.check_limit(observed, attempt)?,
            (SyncAction::DeleteNamespace, ..) => return self.delete_namespace(observed, attempt),
            (SyncAction::DeleteTarget, _, Some(target)) => return self.delete_target(target),
            // Never decided without the object.
            _ => return Ok(Some(PairStatus::Nothing)),
        }
        Ok(None)
    }

    /// Counts a write; in a dry run it is logged instead, and must not be sent.
    pub(super) fn may_write(&self, action: SyncAction) -> bool {
        let dry_run = self.context.settings.dry_run;
        if dry_run {
            log_pair!(Level::Info, self, "dry run, nothing written", action = action.as_str());
        } else {
            self.context.metrics.wrote(&self.remote.name, action.as_str());
        }
        !dry_run
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
        attempt: &mut Attempt,
    ) -> Result<()> {
        let body = self.target.document(target)?;
        let patch = patch::status(source, &body["status"]);
        let place = self.source.at();
        let written = match self.source.ask(&|c| c.patch(&place.status(), Patch::Json, &patch)) {
            Err(Error::NotServed(_)) => {
                attempt.upload_wait = Some(NO_STATUS_WAIT);
                return Ok(());
            }
            written => self.source.keep(&written.map_err(stale)?)?,
        };
        self.context.metrics.status_lag(self.item.since.elapsed());
        log_pair!(Level::Debug, self, "status uploaded");
        self.remote.memory().update(self.id, |memory| {
            let (what, became) = (target.value.state.status, written.value.state.status);
            memory.uploaded.wrote(what, Some(became), Instant::now());
        });
        Ok(())
    }

    fn create_namespace(
        &self,
        source: &Cached<SourceObject>,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        let origin = self.remote.target.follows_namespaces.then(|| self.origin(source));
        let (name, keys) = (&self.target.namespace, &self.context.reader.keys);
        let body = patch::namespace(name, origin.as_ref(), keys);
        match self.target.ask(&|client| client.create(&self.namespace(), &body)) {
            Ok(_) => {
                log_pair!(Level::Info, self, "namespace created", target = self.target.key);
            }
            Err(Error::AlreadyExists(_)) => {}
            Err(Error::Forbidden(_)) => {
                return Ok(Some(self.wait_for_namespace(Reason::NoNamespace)));
            }
            Err(error) => return Err(error),
        }
        attempt.namespace_exists = Some(true);
        Ok(None)
    }

    /// Has all pairs in the namespace wait, as each write would be refused.
    fn wait_for_namespace(&self, reason: Reason) -> PairStatus {
        self.remote.note_namespace(&self.target.namespace, Some((reason, Instant::now())));
        PairStatus::NotInSync(reason)
    }

    fn create(
        &self,
        source: &Cached<SourceObject>,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        let namespace = &*self.target.namespace;
        if let Some(reason) = self.remote.lacks_namespace(namespace, Instant::now()) {
            return Ok(Some(PairStatus::NotInSync(reason)));
        }
        let body = self.source.document(source)?;
        let place = self.target.at();
        let desired = self.desired(&body, source);
        let object = desired.created(&place);
        let created = match self.target.ask(&|client| client.create(&place, &object)) {
            Ok(created) => created,
            Err(Error::NotServed(_))
                if attempt.namespace_exists.is_none() && !namespace.is_empty() =>
            {
                attempt.namespace_exists = Some(false);
                let wanted = self.rules().creates_namespaces;
                return Ok((!wanted).then(|| self.wait_for_namespace(Reason::NoNamespace)));
            }
            Err(Error::NamespaceTerminating(_)) => {
                return Ok(Some(self.wait_for_namespace(Reason::NamespaceTerminating)));
            }
            Err(error) => return Err(error),
        };
        self.remote.note_namespace(namespace, None);
        self.keep_written(source, &desired, &created, attempt)?;
        log_pair!(Level::Info, self, "target created", target = self.target.key);
        Ok(None)
    }

    fn update(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        (content, metadata): (bool, bool),
        attempt: &mut Attempt,
    ) -> Result<()> {
        let source_body = self.source.document(source)?;
        let desired = self.desired(&source_body, source);
        let whole = metadata || content && desired.needs_document(target);
        let target_body = whole.then(|| self.target.document(target)).transpose()?;
        let place = self.target.at();
        let Some(patch) = desired.patch(target, target_body.as_ref(), content) else {
            self.note_written(source, Some(target));
            return Ok(());
        };
        let updated = match self.target.ask(&|c| c.patch(&place, Patch::Json, &patch)) {
            Err(refusal @ Error::Immutable(_)) => {
                // The target keeps what its server refuses to take away, if it has all that it would be given: a
                // PersistentVolumeClaim keeps its volume, and a Service its address.
                let body = target_body.map_or_else(|| self.target.document(target), Ok)?;
                if desired.altered(&body).is_some() {
                    return Err(refusal);
                }
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
        self.report_regression(source, target);
        Ok(())
    }

    fn report_adoption(&self, source: Uid) {
        log_pair!(Level::Info, self, "target adopted", target = self.target.key);
        if self.context.settings.adopt == AdoptPolicy::Always {
            let message = format!("adopted the existing object {}", self.target.key);
            outcome::write_event(self, source, "Adopted", message);
        }
    }

    /// Keeps the answer to a write of the target. What a server adds is settled; if it did not keep all that was
    /// written, the attempt goes on and fails at its end.
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
        if !self.context.settings.track.marks_sources() {
            self.context.metrics.spec_lag(self.item.since.elapsed());
        }
        Ok(())
    }

    /// Notes that this state of the source was written, and what the target is that settles it.
    fn note_written(&self, source: &Cached<SourceObject>, target: Option<&Cached<TargetObject>>) {
        let became = target.map(|target| target.value.state.written());
        let (what, now) = (source.value.state.written(), Instant::now());
        self.remote.memory().update(self.id, |memory| memory.updated.wrote(what, became, now));
    }

    /// Reports a source that is older than its copy: its cluster was restored from a backup.
    fn report_regression(&self, source: &Cached<SourceObject>, target: &Cached<TargetObject>) {
        let copied = target.value.copy_of.as_ref().filter(|copy| copy.uid == source.uid);
        let generation = source.value.state.generation;
        if let Some(copy) = copied.filter(|copy| copy.generation > generation) {
            self.context.metrics.regressed(&self.remote.name);
            let reason = format!("generation {generation}, it was {}", copy.generation);
            log_pair!(Level::Warn, self, "the source's generation went back", reason = reason);
        }
    }

    fn record_generations(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<()> {
        self.report_regression(source, target);
        let patch = patch::record_generations(source, target, &self.context.reader);
        self.source.patch(Patch::Merge, &patch)?;
        self.context.metrics.spec_lag(self.item.since.elapsed());
        Ok(())
    }
}
