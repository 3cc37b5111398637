//! Selection of one hub among several: when another one is due, and in which order they are asked (ocm
//! `pkg/registration/spoke/bootstrapkubeconfigs.go`). No I/O, no clock.

mod check;
mod controller;

use std::time::{Duration, Instant};

pub(crate) use self::controller::run;

/// Sources of bootstrap kubeconfigs have this long at the start; those that cannot be read by then come later.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(10);
/// A hub that stops accepting the cluster is left after this: it may be a mistake.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A hub that has just signed the certificate has this long to accept the cluster and to take its first heartbeat:
/// people approve the request first.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of the selected hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HubState {
    /// There is none; a source of a bootstrap kubeconfig may be `unread`.
    NotSelected {
        unread: bool,
    },
    /// No session uses it.
    Joining,
    /// It has taken no heartbeat of its session yet, and may not accept the cluster.
    Joined {
        denied: bool,
    },
    Works,
    /// It no longer accepts the cluster.
    Denied,
    /// Heartbeats fail, or it no longer has the ManagedCluster.
    Failing,
}

impl HubState {
    /// How long the state may last until another hub is selected; `None` for ever.
    fn limit(self, timeout: Duration) -> Option<Duration> {
        Some(match self {
            Self::NotSelected { unread: true } => SOURCES_TIMEOUT,
            Self::NotSelected { unread: false } => Duration::ZERO,
            Self::Joining | Self::Failing => timeout,
            Self::Joined { denied: true } => ACCEPTANCE_TIMEOUT,
            Self::Joined { denied: false } => timeout.max(ACCEPTANCE_TIMEOUT),
            Self::Denied => DENIAL_TIMEOUT,
            Self::Works => return None,
        })
    }
}

/// The state of the selected hub, and since when it lasts.
struct HubTimer {
    timeout: Duration,
    state: HubState,
    since: Instant,
}

impl HubTimer {
    /// Hubs whose heartbeats fail are left after `timeout`.
    fn new(timeout: Duration, now: Instant) -> Self {
        Self { timeout, state: HubState::NotSelected { unread: true }, since: now }
    }

    /// Records the state; returns when another hub is to be selected, if ever.
    fn due(&mut self, state: HubState, now: Instant) -> Option<Instant> {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
        Some(self.since + state.limit(self.timeout)?)
    }
}

/// The order in which other hubs than the selected one are asked, as indices of `servers`: from the one after it on.
fn others(servers: &[Option<String>], selected: Option<&str>) -> Vec<usize> {
    let is_selected = |server: &Option<String>| server.is_some() && server.as_deref() == selected;
    let start = servers.iter().position(is_selected).map_or(0, |selected| selected + 1);
    let order = (0..servers.len()).map(|offset| (start + offset) % servers.len());
    order.filter(|index| servers[*index].is_some() && !is_selected(&servers[*index])).collect()
}

#[cfg(test)]
mod tests;
