//! What there is to tell of a connection.

use std::time::Instant;

use shared::{
    error::{Error, Result},
    metrics::{Family, Metrics},
};

use super::{ClusterIdentity, Connection, CredentialOffer};

const CONNECTED: Family =
    Family::gauge("remote_sync_cluster_connected", "Whether there is a connection to the cluster.");
const IDENTITY_CHANGED: Family = Family::gauge(
    "remote_sync_cluster_identity_changed",
    "Whether another cluster answers than before.",
);
const HEALTHY: Family =
    Family::gauge("remote_sync_cluster_healthy", "Whether the last probe succeeded.");
const PROBES: Family =
    Family::counter("remote_sync_cluster_probes_total", "Probes by their result.");

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// For credentials to be offered.
    Waiting,
    /// As it should be.
    Connected,
    /// To another cluster than before: to be read, and not to be written.
    IdentityChanged,
    /// Down.
    Disconnected,
}

/// One look at a connection.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// How it stands.
    pub(crate) phase: Phase,
    /// Since when it is connected, or not.
    pub(crate) since: Instant,
    /// How often it was connected.
    pub(crate) connections: u64,
    /// Failed probes and tries to connect in a row.
    pub(crate) failures: u32,
    /// What went wrong last; `None` once all is well.
    pub(crate) error: Option<String>,
    /// The last sign of life.
    pub(crate) last_success: Option<Instant>,
    /// When the cluster was last asked how it is.
    pub(crate) last_probe: Option<Instant>,
    /// When connecting last failed.
    pub(crate) last_connect_failure: Option<Instant>,
    /// The cluster that was found.
    pub(crate) identity: ClusterIdentity,
}

/// What only reports are interested in.
pub(super) struct HealthRecord {
    since: Instant,
    connections: u64,
    error: Option<String>,
    /// Probes that went well, and that did not.
    probes: (u64, u64),
    probe_was_good: Option<bool>,
}

impl HealthRecord {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, connections: 0, error: None, probes: (0, 0), probe_was_good: None }
    }

    /// Returns the number of the connection.
    pub(super) fn connected(&mut self, now: Instant) -> u64 {
        (self.since, self.error) = (now, None);
        self.connections += 1;
        self.connections
    }

    pub(super) fn disconnected(&mut self, now: Instant, reason: &str) {
        (self.since, self.error) = (now, Some(reason.to_owned()));
    }

    pub(super) fn failed(&mut self, error: &Error) {
        self.error = Some(error.to_string());
    }

    /// It was heard without being asked.
    pub(super) fn recovered(&mut self) {
        (self.error, self.probe_was_good) = (None, Some(true));
    }

    pub(super) fn probed(&mut self, result: &Result<()>) {
        self.error = result.as_ref().err().map(ToString::to_string);
        self.probe_was_good = Some(result.is_ok());
        if result.is_ok() { self.probes.0 += 1 } else { self.probes.1 += 1 }
    }
}

impl Connection {
    /// How the connection stands.
    pub(crate) fn health(&self) -> Health {
        let state = self.state();
        let connected = state.session().is_some();
        let phase = match (&state.identity, &state.offer) {
            (ClusterIdentity::Changed { .. }, _) if connected => Phase::IdentityChanged,
            _ if connected => Phase::Connected,
            (_, CredentialOffer::Awaited)
                if state.health.connections == 0 && state.health.error.is_none() =>
            {
                Phase::Waiting
            }
            _ => Phase::Disconnected,
        };
        Health {
            phase,
            since: state.health.since,
            connections: state.health.connections,
            failures: state.schedule.failures(),
            error: state.health.error.clone(),
            last_success: state.schedule.last_success(),
            last_probe: state.schedule.last_probe(),
            last_connect_failure: state.schedule.last_connect_failure(),
            identity: state.identity.clone(),
        }
    }

    /// Adds what is known of this connection.
    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let state = self.state();
        let up = u8::from(state.session().is_some());
        let ((good, bad), healthy) = (state.health.probes, state.health.probe_was_good);
        let changed = u8::from(matches!(state.identity, ClusterIdentity::Changed { .. }));
        drop(state);
        let remote = ("remote", self.name());
        metrics.add(CONNECTED, &[remote], up);
        metrics.add(IDENTITY_CHANGED, &[remote], changed);
        if let Some(healthy) = healthy {
            metrics.add(HEALTHY, &[remote], u8::from(healthy));
        }
        for (result, count) in [("success", good), ("error", bad)] {
            metrics.add(PROBES, &[remote, ("result", result)], count);
        }
    }
}
