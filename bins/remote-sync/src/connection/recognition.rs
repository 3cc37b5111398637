//! Recognition of a connection's cluster: whether it is still the one that it was, and what people say of it.

use std::mem;

use shared::error::Result;

use super::{
    handle::{ClusterSession, Connection},
    identity::{ClusterIdentity, compare, read, reason_to_reconnect},
};

impl Connection {
    /// Returns whether the cluster that answers now is that of `session`, which a lost TCP connection may have
    /// changed. If not, the session ends.
    ///
    /// # Errors
    /// The request's: nothing is known then.
    pub(crate) fn is_still_there(&self, session: &ClusterSession) -> Result<bool> {
        let ClusterIdentity::Known(uid) = &session.identity else { return Ok(true) };
        let answer = read(&session.client, self.settings.request);
        self.note_read(&answer);
        let now = compare(answer?, &mut Some(uid.clone()), &[]);
        let Some(reason) = reason_to_reconnect(&session.identity, &now) else {
            return Ok(true);
        };
        self.state().mistaken = Some(reason);
        self.stop.wake();
        Ok(false)
    }

    /// Records whether the identity could be read; a failure is logged once.
    pub(super) fn note_read(&self, answer: &Result<std::result::Result<String, String>>) {
        let failure = answer.as_ref().err().map(ToString::to_string);
        let before = mem::replace(&mut self.state().unread, failure.clone());
        let remote = self.name();
        match (before, failure) {
            (None, Some(error)) => {
                log::warn!(remote, error = error.as_str(); "the cluster's identity cannot be read");
            }
            (Some(_), None) => log::info!(remote; "the cluster's identity can be read again"),
            _ => {}
        }
    }

    /// Accepts a uid of kube-system for this cluster, or none, while the program runs. It is for a person to say,
    /// next to the kubeconfig: what the cluster itself says is no reason to trust it.
    pub(crate) fn accept(&self, uid: Option<String>) {
        let mut state = self.state();
        if state.accepted == uid {
            return;
        }
        if let (ClusterIdentity::Changed { now, .. }, Some(uid)) = (&state.identity, &uid)
            && now == uid
        {
            state.mistaken = Some(format!("a person accepted the uid {uid} of kube-system"));
        }
        state.accepted = uid;
        drop(state);
        self.stop.wake();
    }

    /// Returns whether a person accepted this uid for the cluster.
    pub(crate) fn is_accepted(&self, uid: &str) -> bool {
        self.settings.accepted.iter().any(|accepted| accepted == uid)
            || self.state().accepted.as_deref() == Some(uid)
    }

    /// Returns whether a person said that this very cluster, and no other one, has this uid.
    pub(crate) fn is_genuine(&self, uid: &str) -> bool {
        self.settings.genuine.iter().any(|genuine| genuine == uid)
            || self.state().accepted.as_deref() == Some(uid)
    }

    /// Holds the cluster for this reason, or no longer: it stays connected. Returns whether that is news.
    pub(crate) fn hold(&self, reason: Option<String>) -> bool {
        mem::replace(&mut self.state().held, reason.clone()) != reason
    }

    /// The reason why the cluster is held.
    pub(crate) fn held(&self) -> Option<String> {
        self.state().held.clone()
    }
}
