//! Secrets on their way to the source's cluster. Both sides are read first: what is there is replaced only if it is ours,
//! or may be taken.

use std::sync::Arc;

use apiclient::{
    error::{Error, Result},
    resource::{SECRETS, Target},
};
use log::Level;
use serde_json::Value;

use crate::{
    cache::store::ObjectStore,
    model::{
        annotations::Uid,
        key,
        object::{Cached, SourceObject, TargetObject, TargetSecret},
        secret::{self, SecretOwner, SecretStanding},
    },
    sync::{
        decide::SyncAction,
        memory::PairMemory,
        observed::Attempt,
        pair::{PairContext, log_pair, odd},
        status::{PairCondition, PairState, PairStatus},
    },
};

impl PairContext<'_> {
    /// The controllers of the Secrets that are not known to be uploaded, in the order of `-target-secret-name`.
    pub(super) fn observe_secrets(
        &self,
        source: Option<Uid>,
        memory: &PairMemory,
    ) -> Vec<Option<Uid>> {
        let (stores, names) = (&self.remote.target.secrets, &self.context.settings.secrets);
        let stores = stores.iter().zip(names).enumerate();
        let observe =
            |(index, (store, name)): (usize, (&Arc<ObjectStore<TargetSecret>>, &String))| {
                let secret = store.get(&key::of(&self.target.namespace, name))?;
                let is_uploaded = source
                    .is_none_or(|source| memory.uploads.contains(&(index, source, secret.version)));
                secret.value.controller.filter(|_| !is_uploaded)
            };
        stores.map(observe).collect()
    }

    /// Writes a Secret of the target next to the source, unless what is there is the same.
    pub(super) fn sync_secret(
        &self,
        index: usize,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        attempt: &mut Attempt,
    ) -> Result<Option<PairStatus>> {
        attempt.secrets_tried.push(index);
        let name = &self.context.settings.secrets[index];
        let from = SECRETS.object(&self.target.namespace, name);
        let Some(secret) = found(self.target.ask(&|client| client.get(&from)))? else {
            return Ok(None);
        };
        let known = self.context.reader.secret(&secret).ok_or_else(|| odd(&from))?;
        if known.value.controller != Some(target.uid) {
            return Ok(None);
        }
        let (keys, uid) = (&self.context.settings.keys, source.uid.to_string());
        let owner = SecretOwner {
            resource: &self.kinds.source.resource,
            name: &self.source.name,
            uid: &uid,
        };
        // With the suffix that the source has.
        let to = self.remote.names.source("", name).1;
        let place = SECRETS.object(&self.source.namespace, &to);
        let there = found(self.source.ask(&|client| client.get(&place)))?;
        let standing = there.as_ref().map(|it| SecretStanding::of(it, &secret, &owner, keys));
        if let Some(condition) = refused(secret::is_uploaded(&secret), standing, (name, &to)) {
            attempt.secret_condition.get_or_insert(condition);
            return Ok(None);
        }
        if standing != Some(SecretStanding::Uploaded) {
            if !self.may_write(SyncAction::SyncSecret(index)) {
                return Ok(Some(PairStatus::Nothing));
            }
            let body = secret::body(&secret, &place, &owner, there.as_ref(), keys);
            self.write_secret(&place, &body, there.is_some())?;
            let target = key::of(&self.source.namespace, &to);
            match standing {
                Some(SecretStanding::Equal) => {
                    log_pair!(Level::Info, self, "Secret adopted", target = target);
                }
                _ => log_pair!(Level::Info, self, "Secret uploaded", target = target),
            }
        }
        self.remote.memory().update(self.id, |memory| {
            memory.uploads.retain(|(of, ..)| *of != index);
            memory.uploads.push((index, source.uid, known.version));
        });
        Ok(None)
    }

    fn write_secret(&self, place: &Target<'_>, body: &Value, replaces: bool) -> Result<Value> {
        if replaces {
            return self.source.ask(&|client| client.replace(place, body));
        }
        // Somebody else's may be there by now.
        match self.source.ask(&|client| client.create(place, body)) {
            Err(Error::AlreadyExists(sentence)) => Err(Error::Conflict(sentence)),
            created => created,
        }
    }
}

/// The pair's condition if a Secret must not be uploaded: it has another type, or somebody else's is in its place.
fn refused(
    accepted: bool,
    standing: Option<SecretStanding>,
    (name, to): (&str, &str),
) -> Option<PairCondition> {
    let (state, reason) = match standing {
        _ if !accepted => (
            PairState::Held,
            format!(
                "Secret {name} is not uploaded: its type must be Opaque, kubernetes.io/tls, basic-auth, ssh-auth or dockerconfigjson"
            ),
        ),
        Some(SecretStanding::Foreign) => (
            PairState::Conflict,
            format!(
                "Secret {to} next to the source is not managed by remote-sync, and neither empty nor equal"
            ),
        ),
        _ => return None,
    };
    Some(PairCondition::new(state, true, &reason))
}

/// `None` for an object that does not exist.
fn found(read: Result<Value>) -> Result<Option<Value>> {
    match read {
        Err(Error::NotFound(_)) => Ok(None),
        found => found.map(Some),
    }
}
