//! Actions as requests; the pair keeps each response.

use std::{sync::Arc, time::Instant};

use apiclient::{
    client::Patch,
    error::{Error, Result},
    resource::NAMESPACES,
};
use log::Level;
use serde_json::Value;

use crate::{
    cache::store::Answer,
    model::{
        annotations::Uid,
        discovery,
        object::{Cached, SourceObject, TargetObject},
    },
    settings::AdoptPolicy,
    sync::{
        decide::{MARK, SyncAction},
        desired::Desired,
        observed::{Attempt, Comparison, Observed},
        outcome,
        pair::{PairContext, log_pair, odd, stale},
        patch,
        status::{PairStatus, Wait},
    },
};

impl PairContext<'_> {
    /// Performs an action; returns the pair's status if that ends the attempt.
    pub(crate) fn apply(
        &self,
        action: SyncAction,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        log_pair!(Level::Debug, self, "next action", action = action.as_str());
        // What a Secret needs is known once both are read.
        if action.writes() && !matches!(action, SyncAction::SyncSecret(_)) {
            self.context.metrics.wrote(&self.remote.name, action.as_str());
        }
        match (action, &observed.source, &observed.target) {
            (SyncAction::AddFinalizer, Some(source), _) => self.add_finalizer(source)?,
            (SyncAction::UploadStatus, Some(source), Some(target)) => {
                self.upload_status(source, target)?
            }
            (SyncAction::SyncSecret(index), Some(source), Some(target)) => {
                if let Some(Some(secret)) = observed.uploads.get(index) {
                    self.sync_secret(index, source, target, &secret.value, attempt)?;
                }
            }
            (SyncAction::CreateNamespace, Some(source), _) => {
                attempt.spec_started = true;
                return self.create_namespace(source.uid, attempt);
            }
            (SyncAction::Create, Some(source), _) => {
                attempt.spec_started = true;
                return self.create(source, attempt);
            }
            (MARK, Some(source), Some(target)) => self.mark(source, target, attempt)?,
            (SyncAction::Update { content, metadata }, Some(source), Some(target)) => {
                attempt.spec_started = true;
                self.update(source, target, (content, metadata))?;
            }
            (SyncAction::RecordGenerations, Some(source), Some(target)) => {
                attempt.spec_started = true;
                self.record_generations(source, target)?;
            }
            (SyncAction::RemoveRecords, Some(source), _) => self.remove_records(source)?,
            (SyncAction::RemoveFinalizer, Some(source), _) => self.remove_finalizer(source)?,
            (SyncAction::ConfirmSourceGone, ..) => self.confirm_source_gone(attempt)?,
            (SyncAction::ConfirmTargetGone, ..) => self.confirm_target_gone(observed, attempt)?,
            (SyncAction::CompareContents, Some(source), Some(target)) => {
                let same = self.compare_contents(source, target)?;
                let (source, target) = (source.version, target.version);
                attempt.compared = Some(Comparison { source, target, same });
            }
            (SyncAction::CheckGate(what, reason), ..) => {
                self.check_gate((what, reason), observed, attempt)?;
            }
            (SyncAction::CheckNamespace, ..) => self.check_namespace(attempt)?,
            (SyncAction::DeleteNamespace, ..) => return self.delete_namespace(observed),
            (SyncAction::DeleteTarget, _, Some(target)) => return self.delete_target(target),
            // Never decided without the object.
            _ => return Ok(Some(PairStatus::Nothing)),
        }
        Ok(None)
    }

    fn add_finalizer(&self, source: &Cached<SourceObject>) -> Result<()> {
        let patch = patch::add_finalizer(source, &self.context.reader.finalizer);
        let place = self.at_source();
        let patched = self.ask_source(&|c| c.patch(&place, Patch::Json, &patch)).map_err(stale)?;
        log_pair!(Level::Info, self, "finalizer added");
        self.store_source(patched).map(drop)
    }

    /// Returns whether the target's server would change nothing if the source's content were written.
    fn compare_contents(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<bool> {
        let (from, to) = (self.source_document(source)?, self.target_document(target)?);
        let desired = self.desired(&from, source);
        let Some(patch) = desired.patch(target, Some(&to), true) else { return Ok(true) };
        let place = self.at_target();
        let answer = self.ask_target(&|c| c.patch_dry_run(&place, Patch::Json, &patch));
        let answer = match answer.map_err(stale) {
            // What cannot be written is not the same, and what was added for good is no difference.
            Err(Error::Immutable(_)) => return Ok(desired.altered(&to).is_none()),
            Err(Error::Invalid(_) | Error::Forbidden(_)) => return Ok(false),
            answer => self.reader().target(&answer?).ok_or_else(|| odd(&place))?,
        };
        Ok(answer.uid == target.uid && answer.value.state.content == target.value.state.content)
    }

    /// Marks a target as the source's copy and changes nothing else.
    fn mark(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        attempt: &Attempt,
    ) -> Result<()> {
        let from = self.source_document(source)?;
        let Some(patch) = self.desired(&from, source).patch(target, None, false) else {
            return Ok(());
        };
        let place = self.at_target();
        let marked = self.ask_target(&|c| c.patch(&place, Patch::Json, &patch)).map_err(stale)?;
        let marked = self.store_target(marked)?;
        if target.value.copy_of.is_some() {
            log_pair!(Level::Info, self, "mark updated", target = self.target_key);
            return Ok(());
        }
        log_pair!(Level::Info, self, "target adopted", target = self.target_key);
        if attempt.same_content(source, target) == Some(true) {
            self.record_settled(source, &marked, None);
        }
        if self.context.settings.adopt == AdoptPolicy::Always {
            let message = format!("{} was nobody's copy and is one from now on", self.target_key);
            outcome::write_event(self, source.uid, "Adopted", message);
        }
        Ok(())
    }

    fn upload_status(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<()> {
        let body = self.target_document(target)?;
        let patch = patch::status(source, &body["status"]);
        let place = self.at_source();
        let written = match self.ask_source(&|c| c.patch(&place.status(), Patch::Json, &patch)) {
            Err(Error::NotServed(sentence)) => return Err(self.without_status(sentence)),
            written => self.store_source(written.map_err(stale)?)?,
        };
        self.context.metrics.status_lag(self.since.elapsed());
        log_pair!(Level::Debug, self, "status uploaded");
        self.remote.remember(self.id, |memory| {
            memory.settled.after_upload(&written.value.state, &target.value.state);
            memory.writes.status.wrote(target.value.state.status, Instant::now());
        });
        Ok(())
    }

    /// The error for a kind whose status is not served. If discovery says so too, the next attempt goes on without
    /// it at once.
    fn without_status(&self, sentence: String) -> Error {
        let store = &self.remote.source.stores[self.id.kind];
        let wanted = self.kind().in_version_of(&self.kinds.source);
        match self.ask_source(&|client| discovery::resolve(client, &wanted)) {
            Ok(found) if !found.status => {
                store.set_kind(Some(Arc::new(found)));
                Error::Conflict(sentence)
            }
            _ => Error::NotServed(sentence),
        }
    }

    fn create_namespace(&self, source: Uid, attempt: &mut Attempt) -> Result<Option<PairStatus>> {
        let namespace = &self.target.0;
        let instance = self.instance();
        let made_by = (source, &*instance);
        let body = patch::namespace(namespace, &self.target.1, made_by, &self.context.reader);
        let place = NAMESPACES.cluster_object(namespace);
        let lists = self.remote.target.namespaces.lists();
        match self.ask_target(&|client| client.create(&place, &body)) {
            Ok(created) if self.remote.target.follows_namespaces => {
                let created = self.context.reader.namespace(&created).ok_or_else(|| odd(&place))?;
                let answer = Answer::object(lists, created);
                self.remote.with_answers(self.id, |answers| answers.namespace = Some(answer));
            }
            Ok(_) => {}
            Err(Error::AlreadyExists(_)) => {
                attempt.namespace_exists = Some(true);
                return Ok(None);
            }
            Err(Error::Forbidden(_)) => {
                return Ok(Some(self.wait_for_namespace(Wait::NoNamespace)));
            }
            Err(error) => return Err(error),
        }
        attempt.namespace_exists = Some(true);
        log_pair!(Level::Info, self, "namespace created", target = self.target_key);
        Ok(None)
    }

    /// Has all pairs in the namespace wait, as each write would be refused.
    fn wait_for_namespace(&self, wait: Wait) -> PairStatus {
        self.remote.note_namespace(&self.target.0, Some((wait, Instant::now())));
        PairStatus::Waiting(wait)
    }

    fn create(
        &self,
        source: &Cached<SourceObject>,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        if let Some(wait) = self.remote.lacks_namespace(&self.target.0, Instant::now()) {
            return Ok(Some(PairStatus::Waiting(wait)));
        }
        let body = self.source_document(source)?;
        let place = self.at_target();
        let desired = self.desired(&body, source);
        let object = desired.created(&place);
        let created = match self.ask_target(&|client| client.create(&place, &object)) {
            Ok(created) => created,
            Err(Error::NotServed(_))
                if attempt.namespace_exists.is_none() && !self.target.0.is_empty() =>
            {
                attempt.namespace_exists = Some(false);
                let wanted = self.rules().creates_namespaces;
                return Ok((!wanted).then(|| self.wait_for_namespace(Wait::NoNamespace)));
            }
            Err(Error::NamespaceTerminating(_)) => {
                return Ok(Some(self.wait_for_namespace(Wait::NamespaceTerminating)));
            }
            Err(error) => return Err(error),
        };
        self.store_written(source, &desired, created)?;
        self.remote.note_namespace(&self.target.0, None);
        log_pair!(Level::Info, self, "target created", target = self.target_key);
        Ok(None)
    }

    fn update(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        (content, metadata): (bool, bool),
    ) -> Result<()> {
        let source_body = self.source_document(source)?;
        let desired = self.desired(&source_body, source);
        let whole = metadata || desired.needs_document(target);
        let target_body = whole.then(|| self.target_document(target)).transpose()?;
        let place = self.at_target();
        let Some(patch) = desired.patch(target, target_body.as_ref(), content) else {
            self.record_settled(source, target, None);
            return Ok(());
        };
        let updated = match self.ask_target(&|c| c.patch(&place, Patch::Json, &patch)) {
            Err(error @ Error::Immutable(_)) => {
                return self.keep_additions(source, target, &desired, target_body, error);
            }
            updated => updated.map_err(stale)?,
        };
        self.store_written(source, &desired, updated)?;
        log_pair!(Level::Info, self, "target updated", target = self.target_key);
        self.report_regression(source, target);
        Ok(())
    }

    /// Settles a difference that the target's server refuses to take away, if the target has all that it would be
    /// given: a PersistentVolumeClaim keeps its volume, and a Service its address.
    fn keep_additions(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        desired: &Desired<'_>,
        body: Option<Value>,
        refusal: Error,
    ) -> Result<()> {
        let body = body.map_or_else(|| self.target_document(target), Ok)?;
        if desired.altered(&body).is_some() {
            return Err(refusal);
        }
        self.record_settled(source, target, None);
        Ok(())
    }

    /// Stores the answer to a write of the target, and what it says of what was written.
    fn store_written(
        &self,
        source: &Cached<SourceObject>,
        desired: &Desired<'_>,
        answer: Value,
    ) -> Result<()> {
        let altered = desired.altered(&answer);
        let written = self.store_target(answer)?;
        self.record_settled(source, &written, altered);
        let (what, now) = (source.value.state.written(), Instant::now());
        self.remote.remember(self.id, |memory| memory.writes.update.wrote(what, now));
        if !self.context.settings.track.marks_sources() {
            self.context.metrics.spec_lag(self.since.elapsed());
        }
        Ok(())
    }

    /// Reports a source that is older than its copy: its cluster was restored from a backup.
    fn report_regression(&self, source: &Cached<SourceObject>, target: &Cached<TargetObject>) {
        let copied = target.value.copy_of.as_ref().filter(|copy| copy.uid == source.uid);
        let generation = source.value.state.generation;
        if let Some(copy) = copied.filter(|copy| copy.generation > generation) {
            self.context.metrics.regressed(&self.remote.name);
            let reason = format!("generation {generation}, it was {}", copy.generation);
            log_pair!(Level::Warn, self, "the source went back", reason = reason);
        }
    }

    fn record_generations(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<()> {
        self.report_regression(source, target);
        let patch = patch::record_generations(source, target, &self.context.reader);
        let place = self.at_source();
        let published = self.ask_source(&|client| client.patch(&place, Patch::Merge, &patch));
        self.store_source(published.map_err(stale)?)?;
        self.context.metrics.spec_lag(self.since.elapsed());
        Ok(())
    }
}
