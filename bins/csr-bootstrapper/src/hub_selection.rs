//! Selection of one hub among several: when, in which order, and whose answer will do (ocm
//! `pkg/registration/spoke/bootstrapkubeconfigs.go`). No I/O, no clock.

mod check;
mod controller;

use std::{
    fmt,
    time::{Duration, Instant},
};

pub(crate) use self::controller::run;

/// Sources of bootstrap kubeconfigs have this long at the start; those that cannot be read by then come later.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(10);
/// A hub that stops accepting the cluster is left after this: it may be a mistake.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A hub that has just signed the certificate has this long to accept the cluster and to take its first heartbeat:
/// people approve the request first.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A hub's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HubAnswer {
    /// It accepts the cluster, or does not know it yet.
    Valid,
    /// It knows the cluster and does not accept it.
    NotAccepted,
    /// It refuses the identity, or does not grant it what joining needs.
    Refused(String),
    /// It does not answer.
    Unreachable(String),
}

impl HubAnswer {
    /// Whether to select the hub: one that is `joining` may accept the cluster later, and whether one with a valid
    /// `credential` answers in time is for the timeout to decide.
    fn will_do(&self, joining: bool, credential: bool) -> bool {
        match self {
            Self::Valid => true,
            Self::NotAccepted => joining && !credential,
            Self::Unreachable(_) => credential,
            Self::Refused(_) => false,
        }
    }
}

impl fmt::Display for HubAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Valid => "the hub is valid",
            Self::NotAccepted => "the hub does not accept the cluster",
            Self::Refused(why) | Self::Unreachable(why) => why,
        })
    }
}

/// What is known about the selected hub.
#[derive(Clone, Debug, Default)]
struct HubStatus {
    /// Its server, if one is selected.
    selected: Option<String>,
    /// A source of a bootstrap kubeconfig has not been read yet.
    unread: bool,
    /// The session is with the selected hub.
    connected: bool,
    /// The hub does not accept the cluster.
    denied: bool,
    /// The last heartbeat on any hub.
    renewed: Option<Instant>,
    /// The last attempt at a heartbeat failed, or the hub no longer has the ManagedCluster.
    failing: bool,
    /// The interval of heartbeats.
    period: Duration,
}

/// Since when the selected hub is as it is.
#[derive(Clone, Debug)]
struct HubTimer {
    timeout: Duration,
    started: Instant,
    /// The selection, or the begin or end of the session.
    since: Instant,
    connected: bool,
    denied_since: Option<Instant>,
    failing_since: Option<Instant>,
}

impl HubTimer {
    /// Hubs are left after `timeout` without a heartbeat.
    fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout,
            started: now,
            since: now,
            connected: false,
            denied_since: None,
            failing_since: None,
        }
    }

    /// Records a selection, also of the hub that was selected before.
    fn selected(&mut self, now: Instant) {
        (self.since, self.connected, self.denied_since) = (now, false, None);
    }

    /// The time of the next selection; `None` while the selected hub works.
    fn due(&mut self, hub: &HubStatus, now: Instant) -> Option<Instant> {
        if self.connected != hub.connected {
            (self.connected, self.since) = (hub.connected, now);
        }
        self.denied_since = hub.denied.then(|| self.denied_since.unwrap_or(now));
        self.failing_since = hub.failing.then(|| self.failing_since.unwrap_or(now));
        if hub.selected.is_none() {
            return Some(if hub.unread { self.started + SOURCES_TIMEOUT } else { now });
        }
        if !hub.connected {
            return Some(self.since + self.timeout);
        }
        let renewed = hub.renewed.filter(|at| *at > self.since);
        if let Some(denied) = self.denied_since {
            let first = renewed.is_none().then(|| self.since + ACCEPTANCE_TIMEOUT);
            return Some(first.unwrap_or(denied).max(denied + DENIAL_TIMEOUT));
        }
        let Some(renewed) = renewed else {
            // A heartbeat before the selection does not count: the next one gets its time.
            let next = if hub.failing { Duration::ZERO } else { 2 * hub.period };
            return Some(self.since + self.timeout.max(ACCEPTANCE_TIMEOUT).max(next));
        };
        // Only heartbeats that fail for a while count: the process may have been suspended.
        let failed = self.failing_since? + self.timeout.min(hub.period);
        Some(failed.max(renewed + self.timeout))
    }
}

/// The order in which hubs are asked, as indices of `servers`: first the hub that the cluster joins and that of the
/// credential, then the others, from the one after the selected one on.
fn order(
    servers: &[Option<String>],
    selected: Option<&str>,
    first: [Option<&str>; 2],
) -> Vec<usize> {
    let index = |server: Option<&str>| {
        servers.iter().position(|it| it.is_some() && it.as_deref() == server)
    };
    let start = index(selected).map_or(0, |selected| selected + 1);
    let others = (0..servers.len()).map(|offset| (start + offset) % servers.len());
    let mut order = Vec::new();
    for candidate in first.into_iter().filter_map(index).chain(others) {
        if servers[candidate].is_some() && !order.contains(&candidate) {
            order.push(candidate);
        }
    }
    order
}

#[cfg(test)]
mod tests;
