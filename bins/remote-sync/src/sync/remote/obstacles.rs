//! Obstacles to the pairs of a kind: why they cannot be reconciled at present, and why their changes may go unnoticed.

use std::sync::Arc;

use crate::{
    cache::cluster::ApiResources, connection::Connection, model::key::KindIndex,
    sync::remote::RemoteSync,
};

impl RemoteSync {
    /// The reason why pairs of this kind cannot be reconciled at present, if there is one.
    pub(crate) fn obstacle(&self, kind: KindIndex) -> Option<String> {
        self.check(kind).err()
    }

    fn check(&self, kind: KindIndex) -> Result<(), String> {
        let [from, to] = self.clusters().map(session);
        let (from, to) = (from?, to?);
        let (source, target) = (&self.source.stores[kind], &self.target.stores[kind]);
        let trouble = || source.trouble().or_else(|| target.trouble());
        let listing = |why: Option<String>| why.unwrap_or_else(|| LISTING.into());
        let kinds =
            ApiResources::of(&self.source, &self.target, kind).ok_or_else(|| listing(trouble()))?;
        let (one, other) = (&kinds.source, &kinds.target);
        let name = &one.resource.kind;
        if one.namespaced != other.namespaced {
            return Err(format!("{name} is namespaced on one side only"));
        }
        let versions = (&one.resource.version, &other.resource.version);
        if versions.0 != versions.1 {
            let (source, target) = versions;
            return Err(format!("the source has version {source} and the target {target}"));
        }
        let complete =
            source.is_complete(from) && target.is_complete(to) && self.target.has_secrets(to);
        if complete {
            return Ok(());
        }
        let mut secrets = self.target.secrets.iter().filter(|secrets| !secrets.is_refused());
        Err(listing(trouble().or_else(|| secrets.find_map(|it| it.trouble()))))
    }

    /// The reason why pairs of this kind cannot be reconciled at present, or why changes may go unnoticed.
    pub(crate) fn hindrance(&self, kind: KindIndex) -> Option<String> {
        self.obstacle(kind).or_else(|| self.trouble(kind))
    }

    /// The reason why changes of this kind may go unnoticed at present, for example a revoked right.
    pub(crate) fn trouble(&self, kind: KindIndex) -> Option<String> {
        let (source, target) = (&self.source.stores[kind], &self.target.stores[kind]);
        source.trouble().or_else(|| target.trouble())
    }

    /// The Secrets of these names, as metrics name them, with the reason why their changes may go unnoticed at present.
    pub(crate) fn secret_troubles(
        &self,
        names: &[String],
    ) -> impl Iterator<Item = (String, Option<String>)> {
        let troubles = self.target.secrets.iter().map(|secrets| secrets.trouble());
        names.iter().map(|name| format!("secrets/{name}")).zip(troubles)
    }
}

/// The number of a cluster's session, or why it has none.
pub(super) fn session(cluster: &Arc<Connection>) -> Result<u64, String> {
    cluster.session().map(|session| session.number).map_err(|error| match cluster.error() {
        Some(detail) => format!("{error}: {detail}"),
        None => error.to_string(),
    })
}

/// The obstacle of pairs that wait for lists alone.
pub(crate) const LISTING: &str = "its objects are being listed";
