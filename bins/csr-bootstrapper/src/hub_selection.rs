//! Selection of one hub among several: when to select, which are asked in which order, and whose answer will do (ocm
//! `pkg/registration/spoke/bootstrapkubeconfigs.go`). No I/O, no clock; `follow` performs it.

mod candidates;
mod check;
mod follow;

use std::time::{Duration, Instant};

pub(crate) use self::{candidates::HubCandidates, follow::run};

/// Sources of bootstrap kubeconfigs have this long at the start; those that cannot be read by then come later.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(10);
/// A hub that stops accepting the cluster is left after this: somebody may have made a mistake.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A hub that has just signed the certificate has this long to accept the cluster: people approve the request first.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The hub's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubVerdict {
    /// It accepts the cluster, or does not know it yet.
    Valid,
    /// It knows the cluster and does not accept it.
    NotAccepted,
    /// It refuses the identity, or does not grant it what joining needs.
    Refused(String),
    /// It does not answer.
    NoAnswer(String),
}

/// The occasion of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// None is selected.
    Unselected,
    /// The selected one has given no credential for a while.
    Joining,
    /// The selected one does not accept the cluster.
    NotAccepted,
    /// The Lease was not renewed in time.
    Timeout,
}

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct HubObservation {
    /// The servers of the bootstrap kubeconfigs, in order; `None` where there is no valid one.
    pub(crate) servers: Vec<Option<String>>,
    /// Some have not been read yet.
    pub(crate) unread: bool,
    /// The server of the selected one, if there is one.
    pub(crate) selected: Option<String>,
    /// The server that an earlier process asked for a certificate, without an answer yet.
    pub(crate) joined: Option<String>,
    /// The server of the credential, if there is one, and whether it is valid.
    pub(crate) credential: Option<(String, bool)>,
    /// The session is with the selected hub.
    pub(crate) connected: bool,
    /// Its ManagedCluster says that the hub does not accept the cluster.
    pub(crate) denied: bool,
    /// The last renewal of the Lease on any hub.
    pub(crate) renewed: Option<Instant>,
    /// The last attempt failed.
    pub(crate) failing: bool,
    /// The period of the renewal.
    pub(crate) period: Duration,
}

/// The history of the selection so far.
#[derive(Clone, Debug)]
pub(crate) struct HubSelection {
    timeout: Duration,
    started: Instant,
    /// Since the hub was selected, or the session with it began.
    since: Instant,
    connected: bool,
    denied_since: Option<Instant>,
    failing_since: Option<Instant>,
    /// The rest after a selection without a result.
    not_before: Instant,
}

/// One selection: the candidates to ask, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectionRound {
    /// The indices of the bootstrap kubeconfigs.
    pub(crate) order: Vec<usize>,
    /// The one to go on with, which may stay for less than the others need.
    kept: Option<usize>,
    /// The cluster is joining that one, which does not accept it yet.
    joins: bool,
    /// There is a valid credential for that one.
    has_credential: bool,
}

impl HubSelection {
    /// Nothing is selected; hubs are given up after `timeout`.
    pub(crate) fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout,
            started: now,
            since: now,
            connected: false,
            denied_since: None,
            failing_since: None,
            not_before: now,
        }
    }

    /// The occasion for a selection now.
    ///
    /// # Errors
    /// There is none: the time at which there may be one if nothing changes.
    pub(crate) fn next(
        &mut self,
        seen: &HubObservation,
        now: Instant,
    ) -> Result<Occasion, Instant> {
        if self.connected != seen.connected {
            (self.connected, self.since) = (seen.connected, now);
        }
        let renewed = seen.renewed.filter(|at| seen.connected && *at > self.since);
        self.denied_since = seen.denied.then(|| self.denied_since.unwrap_or(now));
        self.failing_since = seen.failing.then(|| self.failing_since.unwrap_or(now));
        let (occasion, at) = match (&seen.selected, self.denied_since) {
            (None, _) if seen.unread => (Occasion::Unselected, self.started + SOURCES_TIMEOUT),
            (None, _) => (Occasion::Unselected, now),
            (Some(_), Some(denied)) => {
                let joins =
                    if renewed.is_none() { self.since + ACCEPTANCE_TIMEOUT } else { denied };
                (Occasion::NotAccepted, joins.max(denied + DENIAL_TIMEOUT))
            }
            (Some(_), None) if !seen.connected => (Occasion::Joining, self.since + self.timeout),
            (Some(_), None) => {
                let last = renewed.unwrap_or(self.since);
                // Only failed renewals count, and more than one: the process may have been suspended.
                let silent = match (self.failing_since, renewed) {
                    (Some(since), _) => since + self.timeout.min(seen.period),
                    (None, None) => last + 2 * seen.period,
                    // Without its ManagedCluster no renewal is attempted, and so none fails.
                    (None, Some(_)) if seen.period.is_zero() => last,
                    (None, Some(_)) => return Err(now + self.timeout),
                };
                (Occasion::Timeout, silent.max(last + self.timeout))
            }
        };
        let at = at.max(self.not_before);
        if now >= at { Ok(occasion) } else { Err(at) }
    }

    /// Begins a selection: first the hub of a pending request, then that of the credential, then those after the selected one
    /// in the order of the flags, which comes last itself
    /// unless the cluster is joining it.
    pub(crate) fn begin(&self, occasion: Occasion, seen: &HubObservation) -> SelectionRound {
        let index = |server: &str| seen.servers.iter().position(|it| it.as_deref() == Some(server));
        let selected = seen.selected.as_deref();
        let joined = match occasion {
            Occasion::Unselected => seen.joined.as_deref(),
            Occasion::Joining => selected,
            Occasion::NotAccepted | Occasion::Timeout => None,
        };
        let joined = joined.and_then(index);
        let used = seen.credential.as_ref().filter(|_| occasion == Occasion::Unselected);
        let (used, valid) = used.map_or((None, false), |(server, valid)| (index(server), *valid));
        let kept = joined.or(used);
        // A request may also be the renewal of that credential.
        let has_credential = valid && used.is_some() && kept == used;
        let start = selected.and_then(index).map_or(0, |selected| selected + 1);
        let all = (0..seen.servers.len()).map(|offset| (start + offset) % seen.servers.len());
        let mut order = Vec::new();
        for index in kept.into_iter().chain(used).chain(all) {
            if !order.contains(&index) && seen.servers[index].is_some() {
                order.push(index);
            }
        }
        let joins = joined.is_some() && !has_credential;
        SelectionRound { order, kept, joins, has_credential }
    }

    /// Records a selection, also of the hub that was selected before.
    pub(crate) fn selected(&mut self, now: Instant) {
        (self.since, self.denied_since, self.connected) = (now, None, false);
    }

    /// Rests until `until`.
    pub(crate) fn rest(&mut self, until: Instant) {
        self.not_before = until;
    }
}

impl SelectionRound {
    /// Asks until an answer will do; returns the index of its hub, and the answers of those before it. The second argument
    /// of `check` says whether there is a valid credential for that hub.
    ///
    /// The hub of a valid credential stays at the start also if it does not answer just then: the timeout decides about
    /// it. One that the cluster is joining stays although it does not accept the cluster yet.
    pub(crate) fn select(
        &self,
        check: &mut dyn FnMut(usize, bool) -> HubVerdict,
    ) -> (Option<usize>, Vec<(usize, HubVerdict)>) {
        let mut others = Vec::new();
        for &index in &self.order {
            let is_kept = self.kept == Some(index);
            let verdict = check(index, is_kept && self.has_credential);
            let will_do = match verdict {
                HubVerdict::Valid => true,
                HubVerdict::NotAccepted => is_kept && self.joins,
                HubVerdict::NoAnswer(_) => is_kept && self.has_credential,
                HubVerdict::Refused(_) => false,
            };
            if will_do {
                return (Some(index), others);
            }
            others.push((index, verdict));
        }
        (None, others)
    }
}

#[cfg(test)]
mod tests;
