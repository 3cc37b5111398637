//! The steps of a pass as requests.

use std::time::Instant;

use shared::{
    client::Patch,
    error::{Error, Result},
    lock::lock,
    resource::{NAMESPACES, SECRETS},
};

use crate::{
    model::{
        annotations::Uid,
        key,
        mode::Mode,
        object::{Known, Source, Target},
        secret,
    },
    sync::{
        decide::{Standing, Step},
        observed::{Pass, View},
        pair::{Job, odd, stale},
        patch,
    },
};

impl Job<'_> {
    /// Does one step; returns how the pair stands if that ends the pass.
    pub(crate) fn perform(
        &self,
        step: Step,
        view: &View,
        pass: &mut Pass,
    ) -> Result<Option<Standing>> {
        log::debug!("{self}: {step:?}");
        if step.writes() {
            self.context.counts.wrote(&self.route.name, step.words());
        }
        // A Secret that was tried is not tried again until something of it changes.
        pass.wrote |= step.writes() && !matches!(step, Step::UploadSecret(_));
        match (step, &view.source, &view.target) {
            (Step::Claim, Some(source), _) => self.claim(source, pass)?,
            (Step::UploadStatus, Some(source), Some(target)) => {
                self.upload_status(source, target)?
            }
            (Step::UploadSecret(index), Some(source), Some(target)) => {
                pass.tried.push(index);
                self.upload_secret(index, source, target)?;
            }
            (Step::CreateNamespace, Some(source), _) => {
                pass.spec_begun = true;
                self.create_namespace(source.uid)?;
            }
            (Step::Create, Some(source), _) => {
                pass.spec_begun = true;
                self.create(source)?;
            }
            (Step::Update { content, metadata }, Some(source), Some(target)) => {
                pass.spec_begun = true;
                self.update(source, target, (content, metadata))?;
            }
            (Step::Publish, Some(source), Some(target)) => {
                pass.spec_begun = true;
                self.publish(source, target)?;
            }
            (Step::Release, Some(source), _) => self.release(source)?,
            (Step::Release, None, _) => self.let_go(pass)?,
            (Step::ProveSource, ..) => self.prove_source(pass)?,
            (Step::ProveTarget, ..) => self.prove_target(view, pass)?,
            (Step::Judge, ..) => {
                let verdict = lock(&self.route.orphans).judge(self.pair, Instant::now());
                pass.verdict = Some(verdict);
            }
            (Step::MarkOrphan, _, Some(target)) => self.mark_orphan(target)?,
            (Step::DeleteNamespace, ..) => return self.delete_namespace(view, pass),
            (Step::DeleteTarget, _, Some(target)) => return self.delete_target(target, pass),
            // No decision is about an object that is not there.
            _ => return Ok(Some(Standing::Nothing)),
        }
        Ok(None)
    }

    fn claim(&self, source: &Known<Source>, pass: &mut Pass) -> Result<()> {
        pass.claimed = true;
        let patch = patch::claim(source, &self.context.reader.finalizer);
        let place = self.at_source();
        let claimed = self.ask_source(|c| c.patch(&place, Patch::Json, &patch)).map_err(stale)?;
        log::info!("{self}: finalizer added");
        self.know_source(claimed).map(drop)
    }

    fn upload_status(&self, source: &Known<Source>, target: &Known<Target>) -> Result<()> {
        let body = self.target_body(target)?;
        let (kind, patch) = match self.context.settings.mode {
            Mode::Safe => (Patch::Json, patch::status(source, &body["status"])),
            Mode::Compat => {
                let old = self.source_body(source)?;
                (Patch::Merge, patch::status_difference(&old["status"], &body["status"]))
            }
        };
        let place = self.at_source();
        let written = self.ask_source(|c| c.patch(&place.status(), kind, &patch));
        let written = self.know_source(written.map_err(stale)?)?;
        self.context.counts.status_lag(self.since.elapsed());
        log::debug!("{self}: status uploaded");
        let mut settled = self.route.settled(self.pair);
        settled.after_upload(&written.row.state, &target.row.state);
        self.route.settle(self.pair, settled);
        Ok(())
    }

    fn upload_secret(
        &self,
        index: usize,
        source: &Known<Source>,
        target: &Known<Target>,
    ) -> Result<()> {
        let name = &self.context.settings.secrets[index];
        let (reader, shelf) = (&self.context.reader, &self.route.target.secrets[index]);
        let from = SECRETS.object(&self.target.0, name);
        let key = key::of(&self.target.0, name);
        let secret = self.ask_target(|client| client.get(&from))?;
        let known = reader.upload(&secret).ok_or_else(|| odd(&from))?;
        shelf.table.put(&key, known.clone());
        if known.row.controller != Some(target.uid) {
            return Ok(());
        }
        let hash = secret::hash(&secret, &reader.keys);
        let to = self.uploaded_name(index);
        let owner = secret::Owner {
            resource: &self.kinds.source.resource,
            name: &self.source.1,
            uid: &source.uid.to_string(),
        };
        let copy = secret::body(&secret, (&self.source.0, &to), &owner, &hash, &reader.keys);
        self.ask_source(|client| client.replace(&SECRETS.object(&self.source.0, &to), &copy))?;
        let patch = patch::uploaded(&known, reader, &hash, source.uid);
        let marked = self.ask_target(|client| client.patch(&from, Patch::Merge, &patch))?;
        shelf.table.put(&key, reader.upload(&marked).ok_or_else(|| odd(&from))?);
        log::info!("{self}: Secret {} uploaded", from.name.unwrap_or_default());
        Ok(())
    }

    fn create_namespace(&self, source: Uid) -> Result<()> {
        let namespace = &self.target.0;
        let body = patch::namespace(namespace, &self.target.1, source, &self.context.reader);
        let place = NAMESPACES.cluster_object(namespace);
        let created = match self.ask_target(|client| client.create(&place, &body)) {
            Err(Error::AlreadyExists(_)) => self.ask_target(|client| client.get(&place))?,
            created => created?,
        };
        let known = self.context.reader.namespace(&created).ok_or_else(|| odd(&place))?;
        self.route.target.namespaces.table.put(&key::of("", namespace), known);
        log::info!("{self}: namespace {namespace} created");
        Ok(())
    }

    fn create(&self, source: &Known<Source>) -> Result<()> {
        let body = self.source_body(source)?;
        let place = self.at_target();
        let object = self.draft(&body, source).created(&place);
        let created = match self.ask_target(|client| client.create(&place, &object)) {
            Ok(created) => self.know_target(created)?,
            // It is the namespace that is not there: what was known of it is old.
            Err(error @ Error::NotServed(_)) => {
                self.refresh_namespace()?;
                return Err(Error::Conflict(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        log::info!("{self}: created as {}", self.target_key);
        self.settle_contents(source, &created);
        Ok(())
    }

    fn update(
        &self,
        source: &Known<Source>,
        target: &Known<Target>,
        (content, metadata): (bool, bool),
    ) -> Result<()> {
        let source_body = self.source_body(source)?;
        let draft = self.draft(&source_body, source);
        let compat = self.context.settings.mode == Mode::Compat;
        let whole = compat || metadata || draft.is_more_than_spec();
        let target_body = whole.then(|| self.target_body(target)).transpose()?;
        let place = self.at_target();
        let updated = match target_body {
            Some(body) if compat => {
                let object = draft.replaced(body);
                Some(self.ask_target(|client| client.replace(&place, &object)).map_err(stale)?)
            }
            body => match draft.patch(target, body.as_ref(), content) {
                Some(patch) => {
                    let updated = self.ask_target(|c| c.patch(&place, Patch::Json, &patch));
                    Some(updated.map_err(stale)?)
                }
                None => None,
            },
        };
        let Some(updated) = updated else {
            self.settle_contents(source, target);
            return Ok(());
        };
        let updated = self.know_target(updated)?;
        log::info!("{self}: updated");
        self.tell_regression(source, target);
        self.settle_contents(source, &updated);
        Ok(())
    }

    /// A source that is older than what the target has of it: its cluster was restored from a backup.
    fn tell_regression(&self, source: &Known<Source>, target: &Known<Target>) {
        let copied = target.row.copy_of.as_ref().filter(|copy| copy.uid == source.uid);
        let generation = source.row.state.generation;
        if let Some(copy) = copied.filter(|copy| copy.generation > generation) {
            self.context.counts.regressed(&self.route.name);
            let before = copy.generation;
            log::warn!("{self}: the source is of generation {generation}, and was of {before}");
        }
    }

    fn publish(&self, source: &Known<Source>, target: &Known<Target>) -> Result<()> {
        self.tell_regression(source, target);
        let patch = patch::publish(source, target, &self.context.reader);
        let place = self.at_source();
        let published = self.ask_source(|client| client.patch(&place, Patch::Merge, &patch));
        self.know_source(published.map_err(stale)?)?;
        self.context.counts.spec_lag(self.since.elapsed());
        Ok(())
    }
}
