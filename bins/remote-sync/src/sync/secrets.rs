//! Uploads of Secrets to the source's cluster. Both sides are read first: an existing Secret is replaced only if it is
//! ours or may be taken over.

use std::ops::ControlFlow::{Break, Continue};

use apiclient::{
    error::{Error, Result, optional},
    resource::SECRETS,
};
use log::Level;

use crate::{
    model::{
        key,
        object::{Cached, SourceObject, TargetObject},
        secret::{self, SecretOwner, SecretStanding},
    },
    sync::{
        decide::SyncAction,
        observed::Attempt,
        pair::{PairContext, log_pair, odd},
        status::Next,
    },
};

impl PairContext<'_> {
    /// Writes a target's Secret next to the source, unless it is already there.
    pub(super) fn sync_secret(
        &self,
        index: usize,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        attempt: &mut Attempt,
    ) -> Result<Next> {
        attempt.secrets_tried.push(index);
        let name = &self.context.settings.secrets[index];
        let from = SECRETS.object(self.target.namespace(), name);
        let Some(secret) = optional(self.target.ask(&|client| client.get(&from)))? else {
            return Ok(Continue(()));
        };
        let known = self.context.reader.secret(&secret).ok_or_else(|| odd(&from))?;
        if known.value.controller != Some(target.uid) {
            return Ok(Continue(()));
        }
        let (keys, uid) = (&self.context.settings.keys, source.uid.to_string());
        let owner = SecretOwner {
            resource: &self.source.kind.resource,
            name: self.source.name(),
            uid: &uid,
        };
        // With the source's suffix.
        let to = self.remote.names.source_name(name);
        let place = SECRETS.object(self.source.namespace(), &to);
        let there = optional(self.source.ask(&|client| client.get(&place)))?;
        let standing = there.as_ref().map(|it| SecretStanding::of(it, &secret, &owner, keys));
        if !secret::is_uploaded(&secret) {
            return Err(Error::Invalid(format!(
                "Secret {name} is not uploaded: its type must be Opaque, kubernetes.io/tls, basic-auth, ssh-auth or dockerconfigjson"
            )));
        }
        if standing == Some(SecretStanding::Foreign) {
            return Err(Error::Invalid(format!(
                "Secret {to} next to the source is not managed by remote-sync, and neither empty nor equal"
            )));
        }
        if standing != Some(SecretStanding::Uploaded) {
            if let Break(reason) = self.may_write(SyncAction::SyncSecret(index)) {
                return Ok(Break(reason));
            }
            let body = secret::body(&secret, &place, &owner, there.as_ref(), keys);
            self.source.ask(&|client| match there.is_some() {
                true => client.replace(&place, &body),
                false => client.create(&place, &body),
            })?;
            let target = key::of(self.source.namespace(), &to);
            log_pair!(Level::Info, self, "Secret uploaded", target = target);
        }
        self.remote.memory().update(self.id, |memory| {
            memory.uploads.retain(|(of, ..)| *of != index);
            memory.uploads.push((index, source.uid, known.version));
        });
        Ok(Continue(()))
    }
}
