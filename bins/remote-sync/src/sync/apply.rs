//! Actions as requests; each response goes into the stores at once.

use log::Level;
use shared::{
    client::Patch,
    error::{Error, Result},
    resource::{NAMESPACES, SECRETS},
};

use crate::{
    model::{
        annotations::Uid,
        key,
        mode::Mode,
        object::{Cached, SourceObject, TargetObject},
        secret,
    },
    settings::AdoptPolicy,
    sync::{
        decide::SyncAction,
        observed::{Attempt, Observed},
        outcome,
        pair::{PairContext, log_pair, odd, stale},
        patch,
        status::PairStatus,
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
        log_pair!(Level::Debug, self, "next action", action = action.words());
        if action.writes() {
            self.context.metrics.wrote(&self.remote.name, action.words());
        }
        // A Secret is not tried again until it changes.
        attempt.wrote |= action.writes() && !matches!(action, SyncAction::UploadSecret(_));
        match (action, &observed.source, &observed.target) {
            (SyncAction::AddFinalizer, Some(source), _) => self.add_finalizer(source, attempt)?,
            (SyncAction::UploadStatus, Some(source), Some(target)) => {
                self.upload_status(source, target)?
            }
            (SyncAction::UploadSecret(index), Some(source), Some(target)) => {
                attempt.secrets_tried.push(index);
                self.upload_secret(index, source, target)?;
            }
            (SyncAction::CreateNamespace, Some(source), _) => {
                attempt.spec_started = true;
                self.create_namespace(source.uid)?;
            }
            (SyncAction::Create, Some(source), _) => {
                attempt.spec_started = true;
                self.create(source)?;
            }
            (SyncAction::Update { content, metadata }, Some(source), Some(target)) => {
                attempt.spec_started = true;
                self.update(source, target, (content, metadata))?;
            }
            (SyncAction::RecordGenerations, Some(source), Some(target)) => {
                attempt.spec_started = true;
                self.record_generations(source, target)?;
            }
            (SyncAction::RemoveFinalizer, Some(source), _) => self.remove_finalizer(source)?,
            (SyncAction::RemoveFinalizer, None, _) => {
                self.remove_finalizer_of_unselected(attempt)?
            }
            (SyncAction::ConfirmSourceGone, ..) => self.confirm_source_gone(attempt)?,
            (SyncAction::ConfirmTargetGone, ..) => self.confirm_target_gone(observed, attempt)?,
            (SyncAction::CompareContents, Some(source), Some(target)) => {
                attempt.same_content = Some(self.compare_contents(source, target)?);
            }
            (SyncAction::Adopt, Some(source), Some(target)) => {
                self.adopt(source, target, attempt)?;
            }
            (SyncAction::CheckGate(what, reason), ..) => {
                self.check_gate((what, reason), observed, attempt)?;
            }
            (SyncAction::CheckNamespace, ..) => self.check_namespace(attempt)?,
            (SyncAction::AnnotateOrphan, _, Some(target)) => self.annotate_orphan(target)?,
            (SyncAction::DeleteNamespace, ..) => return self.delete_namespace(observed),
            (SyncAction::DeleteTarget, _, Some(target)) => return self.delete_target(target),
            // Never decided without the object.
            _ => return Ok(Some(PairStatus::Nothing)),
        }
        Ok(None)
    }

    fn add_finalizer(&self, source: &Cached<SourceObject>, attempt: &mut Attempt) -> Result<()> {
        attempt.finalizer_added = true;
        let patch = patch::add_finalizer(source, &self.context.reader.finalizer);
        let place = self.at_source();
        let patched = self.ask_source(|c| c.patch(&place, Patch::Json, &patch)).map_err(stale)?;
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
        let answer = self.ask_target(|c| c.patch_dry_run(&place, Patch::Json, &patch));
        let answer = match answer.map_err(stale) {
            // What cannot be written is not the same.
            Err(Error::Invalid(_) | Error::Forbidden(_)) => return Ok(false),
            answer => self.context.reader.target(&answer?).ok_or_else(|| odd(&place))?,
        };
        Ok(answer.uid == target.uid && answer.value.state.content == target.value.state.content)
    }

    /// Marks a target that was nobody's copy.
    fn adopt(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        attempt: &Attempt,
    ) -> Result<()> {
        let from = self.source_document(source)?;
        let patch = self.desired(&from, source).mark(target);
        let place = self.at_target();
        let marked = self.ask_target(|c| c.patch(&place, Patch::Json, &patch)).map_err(stale)?;
        let marked = self.store_target(marked)?;
        log_pair!(Level::Info, self, "target adopted", target = self.target_key);
        if attempt.same_content == Some(true) {
            self.record_settled(source, &marked);
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
        let (kind, patch) = match self.context.settings.mode {
            Mode::Safe => (Patch::Json, patch::status(source, &body["status"])),
            Mode::Compat => {
                let old = self.source_document(source)?;
                (Patch::Merge, patch::status_difference(&old["status"], &body["status"]))
            }
        };
        let place = self.at_source();
        let written = self.ask_source(|c| c.patch(&place.status(), kind, &patch));
        let written = self.store_source(written.map_err(stale)?)?;
        self.context.metrics.status_lag(self.since.elapsed());
        log_pair!(Level::Debug, self, "status uploaded");
        self.remote.update_settled(self.id, |settled| {
            settled.after_upload(&written.value.state, &target.value.state);
        });
        Ok(())
    }

    fn upload_secret(
        &self,
        index: usize,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
    ) -> Result<()> {
        let name = &self.context.settings.secrets[index];
        let (reader, store) = (&self.context.reader, &self.remote.target.secrets[index]);
        let from = SECRETS.object(&self.target.0, name);
        let key = key::of(&self.target.0, name);
        let secret = self.ask_target(|client| client.get(&from))?;
        let cached = reader.upload(&secret).ok_or_else(|| odd(&from))?;
        store.put(&key, cached.clone());
        if cached.value.controller != Some(target.uid) {
            return Ok(());
        }
        let hash = secret::hash(&secret, &reader.keys);
        let to = self.uploaded_name(index);
        let owner = secret::SecretOwner {
            resource: &self.kinds.source.resource,
            name: &self.source.1,
            uid: &source.uid.to_string(),
        };
        let copy = secret::body(&secret, (&self.source.0, &to), &owner, &hash, &reader.keys);
        self.ask_source(|client| client.replace(&SECRETS.object(&self.source.0, &to), &copy))?;
        let patch = patch::annotate_uploaded(&cached, reader, &hash, source.uid);
        let patched = self.ask_target(|client| client.patch(&from, Patch::Merge, &patch))?;
        store.put(&key, reader.upload(&patched).ok_or_else(|| odd(&from))?);
        log_pair!(Level::Info, self, "Secret uploaded", target = key::of(&self.source.0, &to));
        Ok(())
    }

    fn create_namespace(&self, source: Uid) -> Result<()> {
        let namespace = &self.target.0;
        let instance = self.instance();
        let made_by = (source, &*instance);
        let body = patch::namespace(namespace, &self.target.1, made_by, &self.context.reader);
        let place = NAMESPACES.cluster_object(namespace);
        let created = match self.ask_target(|client| client.create(&place, &body)) {
            Err(Error::AlreadyExists(_)) => self.ask_target(|client| client.get(&place))?,
            created => created?,
        };
        let created = self.context.reader.namespace(&created).ok_or_else(|| odd(&place))?;
        self.remote.target.namespaces.put(&key::of("", namespace), created);
        log_pair!(Level::Info, self, "namespace created", target = self.target_key);
        Ok(())
    }

    fn create(&self, source: &Cached<SourceObject>) -> Result<()> {
        let body = self.source_document(source)?;
        let place = self.at_target();
        let object = self.desired(&body, source).created(&place);
        let created = match self.ask_target(|client| client.create(&place, &object)) {
            Ok(created) => self.store_target(created)?,
            // The namespace does not exist: the cached one is outdated.
            Err(error @ Error::NotServed(_)) => {
                self.refresh_namespace()?;
                return Err(Error::Conflict(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        log_pair!(Level::Info, self, "target created", target = self.target_key);
        self.record_settled(source, &created);
        Ok(())
    }

    fn update(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        (content, metadata): (bool, bool),
    ) -> Result<()> {
        let source_body = self.source_document(source)?;
        let desired = self.desired(&source_body, source);
        let replaces = self.context.settings.mode.replaces();
        let whole = replaces || metadata || desired.is_more_than_spec();
        let target_body = whole.then(|| self.target_document(target)).transpose()?;
        let place = self.at_target();
        let updated = match target_body {
            Some(body) if replaces => {
                let object = desired.replaced(body);
                Some(self.ask_target(|client| client.replace(&place, &object)).map_err(stale)?)
            }
            body => match desired.patch(target, body.as_ref(), content) {
                Some(patch) => {
                    let updated = self.ask_target(|c| c.patch(&place, Patch::Json, &patch));
                    Some(updated.map_err(stale)?)
                }
                None => None,
            },
        };
        let Some(updated) = updated else {
            self.record_settled(source, target);
            return Ok(());
        };
        let updated = self.store_target(updated)?;
        log_pair!(Level::Info, self, "target updated", target = self.target_key);
        self.report_regression(source, target);
        self.record_settled(source, &updated);
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
        let published = self.ask_source(|client| client.patch(&place, Patch::Merge, &patch));
        self.store_source(published.map_err(stale)?)?;
        self.context.metrics.spec_lag(self.since.elapsed());
        Ok(())
    }
}
