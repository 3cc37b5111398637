//! Secrets on their way to the source's cluster. What is there is read first: it is replaced only if it is ours, or
//! may be taken.

use apiclient::{
    client::Patch,
    error::{Error, Result},
    resource::SECRETS,
};
use log::Level;
use serde_json::Value;

use crate::{
    model::{
        key,
        object::{Cached, SourceObject, TargetObject},
        secret::{self, SecretOwner, SecretStanding},
    },
    sync::{
        observed::{Attempt, Observed},
        pair::{PairContext, log_pair, odd},
        patch,
        status::{PairCondition, PairState},
    },
};

impl PairContext<'_> {
    pub(super) fn upload_secret(
        &self,
        index: usize,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        attempt: &mut Attempt,
    ) -> Result<()> {
        attempt.secrets_tried.push(index);
        let name = &self.context.settings.secrets[index];
        let (reader, store) = (&self.context.reader, &self.remote.target.secrets[index]);
        let from = SECRETS.object(&self.target.0, name);
        let key = key::of(&self.target.0, name);
        let secret = self.ask_target(&|client| client.get(&from))?;
        let cached = reader.upload(&secret).ok_or_else(|| odd(&from))?;
        store.put(&key, cached.clone());
        if cached.value.controller != Some(target.uid) {
            return Ok(());
        }
        if !reader.uploads.accepts(&secret) {
            attempt.secrets_refused.push(index);
            return Ok(());
        }
        let hash = secret::hash(&secret, &reader.uploads);
        let (to, uid) = (self.uploaded_name(index), source.uid.to_string());
        let owner = self.secret_owner(&uid);
        let copy = secret::body(&secret, (&self.source.0, &to), &owner, &hash, &reader.uploads);
        if !self.write_secret(&to, copy, &hash, source)? {
            attempt.secrets_foreign.push(index);
            return Ok(());
        }
        let patch = patch::annotate_uploaded(&cached, reader, &hash, source.uid);
        let patched = self.ask_target(&|client| client.patch(&from, Patch::Merge, &patch))?;
        store.put(&key, reader.upload(&patched).ok_or_else(|| odd(&from))?);
        log_pair!(Level::Info, self, "Secret uploaded", target = key::of(&self.source.0, &to));
        Ok(())
    }

    /// Writes a Secret next to the source; `false` if somebody else's is in its place.
    fn write_secret(
        &self,
        name: &str,
        copy: Value,
        hash: &str,
        source: &Cached<SourceObject>,
    ) -> Result<bool> {
        let place = SECRETS.object(&self.source.0, name);
        let Some(there) = self.uploaded_secret(name)? else {
            // Somebody else's may be there by now.
            return match self.ask_source(&|client| client.create(&place, &copy)) {
                Err(Error::AlreadyExists(sentence)) => Err(Error::Conflict(sentence)),
                created => created.map(|_| true),
            };
        };
        let uid = source.uid.to_string();
        let owner = self.secret_owner(&uid);
        let standing = SecretStanding::of(&there, hash, &owner, &self.context.reader.uploads);
        if !standing.may_be_replaced() {
            return Ok(false);
        }
        let copy = secret::replacing(copy, &there, &self.context.reader.uploads);
        self.ask_source(&|client| client.replace(&place, &copy))?;
        if standing == SecretStanding::Equal {
            log_pair!(Level::Info, self, "Secret adopted", target = key::of(&self.source.0, name));
        }
        Ok(true)
    }

    /// Compares what the source's cluster has of a Secret with what was uploaded.
    pub(super) fn check_secret(
        &self,
        index: usize,
        source: &Cached<SourceObject>,
        observed: &Observed,
        attempt: &mut Attempt,
    ) -> Result<()> {
        attempt.secrets_checked.push(index);
        let uploaded = observed.uploads.get(index).and_then(Option::as_ref);
        let uploaded = uploaded.map(|upload| upload.value.uploaded);
        let reader = &self.context.reader;
        let there = self.uploaded_secret(&self.uploaded_name(index))?.unwrap_or_default();
        let (hash, uid) = (secret::hash(&there, &reader.uploads), source.uid.to_string());
        // An upload decides what is to be done about one that is not ours.
        let standing = SecretStanding::of(&there, &hash, &self.secret_owner(&uid), &reader.uploads);
        if standing != SecretStanding::Ours || uploaded != Some(reader.digester.of_text(&hash)) {
            attempt.secrets_lost.push(index);
        }
        Ok(())
    }

    /// What is in an upload's place; `None` if nothing is.
    fn uploaded_secret(&self, name: &str) -> Result<Option<Value>> {
        let place = SECRETS.object(&self.source.0, name);
        match self.ask_source(&|client| client.get(&place)) {
            Err(Error::NotFound(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    fn secret_owner<'b>(&'b self, uid: &'b str) -> SecretOwner<'b> {
        SecretOwner { resource: &self.kinds.source.resource, name: &self.source.1, uid }
    }

    /// The condition of a pair with Secrets that are not uploaded, or in whose places somebody else's are.
    pub(super) fn secret_conflict(&self, attempt: &Attempt) -> Option<PairCondition> {
        if let Some(index) = attempt.secrets_refused.first() {
            let name = &self.context.settings.secrets[*index];
            let reason = format!(
                "Secret {name} is not uploaded: its type must be Opaque, kubernetes.io/tls, basic-auth, ssh-auth or dockerconfigjson"
            );
            return Some(PairCondition::new(PairState::Held, &reason));
        }
        let name = self.uploaded_name(*attempt.secrets_foreign.first()?);
        let reason = format!(
            "Secret {name} next to the source is somebody else's, and neither empty nor equal"
        );
        Some(PairCondition::new(PairState::Conflict, &reason))
    }
}
