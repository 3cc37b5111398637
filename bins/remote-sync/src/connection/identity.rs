//! Identity of a cluster: the uid of its Namespace kube-system, which shows when a different cluster answers at
//! the same address.

use std::time::Duration;

use apiclient::{
    client::Client,
    error::{Error, Result},
    resource::NAMESPACES,
};

use super::{ClusterSession, Connection};
use crate::model::annotations::Uid;

/// Memory that the Namespace may cost, in bytes. Annotations may have 256 KiB, but nobody puts that much on
/// kube-system, which every watch reads.
const NAMESPACE: usize = 128 << 10;

/// The uid that a cluster shows, or the reason why it shows none.
pub(super) type Shown = std::result::Result<Uid, String>;

/// Reads a cluster's uid, or why it cannot be read. This is a probe: every identity gets a response, if only a 403.
///
/// # Errors
/// The request's, unless a right is missing or the namespace is missing or too large.
pub(super) fn read(client: &Client, timeout: Duration) -> Result<Shown> {
    let place = NAMESPACES.cluster_object("kube-system");
    match client.limited_to(NAMESPACE).within(timeout).get(&place) {
        Ok(namespace) => Ok(Uid::of(&namespace["metadata"]["uid"]).ok_or_else(|| {
            format!("namespaces kube-system on {} has no uid of the usual form", client.name())
        })),
        Err(e @ (Error::Forbidden(_) | Error::NotFound(_) | Error::TooLarge(_))) => {
            Ok(Err(e.to_string()))
        }
        Err(e) => Err(e),
    }
}

/// The reason why a session with the cluster `before` has to be replaced, if another cluster may answer now: each
/// session is with one cluster, and lists everything anew.
pub(super) fn reason_to_reconnect(before: Option<Uid>, now: &Shown) -> Option<String> {
    match (before, now) {
        (Some(before), Ok(now)) if before == *now => None,
        (None, Err(_)) => None,
        (_, Ok(uid)) => Some(format!("the uid of kube-system is {uid}")),
        (Some(_), Err(why)) => Some(format!("its identity can no longer be read: {why}")),
    }
}

impl Connection {
    /// Fails unless the cluster that answers now is that of `session`, which a lost TCP connection may have changed.
    /// Another cluster ends the session.
    ///
    /// # Errors
    /// Also the request's: nothing is known then.
    pub(crate) fn check(&self, session: &ClusterSession) -> Result<()> {
        if session.cluster.uid.is_none() {
            return Ok(());
        }
        let Some(reason) = self.probe(session)? else { return Ok(()) };
        // Also if the next probe reaches the right one: the last lists may be another cluster's.
        session.stop.raise();
        self.stop.wake();
        let name = self.name();
        Err(Error::Unreachable(format!("another cluster may answer as {name}: {reason}")))
    }

    /// Reads which cluster answers; returns why the session has to end, if another one may.
    pub(super) fn probe(&self, session: &ClusterSession) -> Result<Option<String>> {
        let answer = read(&session.client, self.settings.timing.timeout)?;
        Ok(reason_to_reconnect(session.cluster.uid, &answer))
    }
}
