//! Secrets on their way to the source's cluster. What is there is read first: it is replaced only if it is ours, or
//! may be taken.

use std::sync::Arc;

use apiclient::{
    client::Patch,
    error::{Error, Result},
    resource::{SECRETS, Target},
};
use log::Level;
use serde_json::Value;

use crate::{
    cache::store::{Answer, ObjectStore},
    model::{
        digest,
        key::{self, ObjectKey},
        object::{Cached, ObjectReader, SourceObject, TargetObject, TargetSecret},
        secret::{self, SecretOwner, SecretStanding},
    },
    sync::{
        decide::SyncAction,
        observed::Attempt,
        pair::{PairContext, log_pair, odd},
        patch,
        status::{PairCondition, PairState},
    },
};

impl PairContext<'_> {
    /// The Secrets to upload, in the order of `-target-secret-name`.
    pub(super) fn observe_secrets(&self) -> Vec<Option<Cached<TargetSecret>>> {
        let (to, names) = (&self.remote.target, &self.context.settings.secrets);
        let stores = to.secrets.iter().zip(names).enumerate();
        self.remote.with_answers(self.id, |answers| {
            let observe = |(index, (store, name)): (_, (&Arc<ObjectStore<_>>, &String))| {
                let answer = answers.secrets.entry(index).or_default();
                let newest = || store.newest(&key::of(&self.target.namespace, name), answer);
                (!to.is_parked(store)).then(newest).flatten()
            };
            stores.map(observe).collect()
        })
    }

    /// Writes a Secret of the target next to the source, unless what is there is what was uploaded.
    pub(super) fn sync_secret(
        &self,
        index: usize,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        uploaded: &TargetSecret,
        attempt: &mut Attempt,
    ) -> Result<()> {
        attempt.secrets_tried.push(index);
        let name = &self.context.settings.secrets[index];
        let (reader, lists) = (&self.context.reader, self.remote.target.secrets[index].lists());
        let note = |secret| {
            let answer = Some(Answer::object(lists, secret));
            self.remote.with_answers(self.id, |answers| answers.secrets.insert(index, answer));
        };
        let from = SECRETS.object(&self.target.namespace, name);
        // With the suffix that the source has.
        let (to, uid) = (self.remote.names.source("", name).1, source.uid.to_string());
        let copy = Upload {
            namespace: &self.source.namespace,
            name: &to,
            owner: SecretOwner {
                resource: &self.kinds.source.resource,
                name: &self.source.name,
                uid: &uid,
            },
        };
        let place = copy.place();
        let there = match self.source.ask(&|client| client.get(&place)) {
            Err(Error::NotFound(_)) => None,
            found => Some(found?),
        };
        if !uploaded.is_due(source.uid)
            && there.as_ref().is_some_and(|there| copy.is_as_uploaded(there, uploaded, reader))
        {
            return Ok(());
        }
        let secret = self.target.ask(&|client| client.get(&from))?;
        let cached = reader.upload(&secret).ok_or_else(|| odd(&from))?;
        note(cached.clone());
        if cached.value.controller != Some(target.uid) {
            return Ok(());
        }
        if let Err(condition) = self.write_secret(&secret, there.as_ref(), &copy)? {
            attempt.secret_condition.get_or_insert(condition);
            return Ok(());
        }
        if self.context.settings.dry_run {
            return Ok(());
        }
        let hash = secret::hash(&secret, &reader.uploads);
        let patch = patch::annotate_uploaded(&cached, reader, &hash, source.uid);
        let patched = self.target.ask(&|client| client.patch(&from, Patch::Merge, &patch))?;
        note(reader.upload(&patched).ok_or_else(|| odd(&from))?);
        log_pair!(Level::Info, self, "Secret uploaded", target = copy.key());
        Ok(())
    }

    /// Writes the copy of a Secret in place of what is `there`; the inner error is the pair's condition if it must not.
    fn write_secret(
        &self,
        secret: &Value,
        there: Option<&Value>,
        copy: &Upload<'_>,
    ) -> Result<std::result::Result<(), PairCondition>> {
        let (rules, place) = (&self.context.reader.uploads, copy.place());
        if !rules.accepts(secret) {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            let reason = format!(
                "Secret {name} is not uploaded: its type must be Opaque, kubernetes.io/tls, basic-auth, ssh-auth or dockerconfigjson"
            );
            return Ok(Err(PairCondition::new(PairState::Held, true, &reason)));
        }
        let hash = secret::hash(secret, rules);
        let standing = there.map(|there| SecretStanding::of(there, &hash, &copy.owner, rules));
        if standing == Some(SecretStanding::Foreign) {
            let reason = format!(
                "Secret {} next to the source is not managed by remote-sync, and neither empty nor equal",
                copy.name
            );
            return Ok(Err(PairCondition::new(PairState::Conflict, true, &reason)));
        }
        let body = secret::body(
            secret,
            (copy.namespace, copy.name),
            &copy.owner,
            there.unwrap_or(&Value::Null),
            rules,
        );
        if !self.may_write(SyncAction::SyncSecret(0)) {
            return Ok(Ok(()));
        }
        match there {
            Some(_) => self.source.ask(&|client| client.replace(&place, &body)),
            // Somebody else's may be there by now.
            None => match self.source.ask(&|client| client.create(&place, &body)) {
                Err(Error::AlreadyExists(sentence)) => Err(Error::Conflict(sentence)),
                created => created,
            },
        }?;
        if standing == Some(SecretStanding::Equal) {
            log_pair!(Level::Info, self, "Secret adopted", target = copy.key());
        }
        Ok(Ok(()))
    }
}

/// The place of an upload, and whose it is.
struct Upload<'a> {
    namespace: &'a str,
    name: &'a str,
    owner: SecretOwner<'a>,
}

impl Upload<'_> {
    /// Returns whether what is `there` is what was uploaded.
    fn is_as_uploaded(
        &self,
        there: &Value,
        uploaded: &TargetSecret,
        reader: &ObjectReader,
    ) -> bool {
        let hash = secret::hash(there, &reader.uploads);
        let standing = SecretStanding::of(there, &hash, &self.owner, &reader.uploads);
        standing == SecretStanding::Ours && uploaded.uploaded == digest::of_text(&hash)
    }

    fn place(&self) -> Target<'_> {
        SECRETS.object(self.namespace, self.name)
    }

    fn key(&self) -> ObjectKey {
        key::of(self.namespace, self.name)
    }
}
