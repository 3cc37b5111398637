//! Health of a connection, for people and metrics.

use std::time::Instant;

use shared::metrics::{Family, Metrics};

use super::{
    handle::{Connection, CredentialOffer},
    identity::ClusterIdentity,
};

const CONNECTED: Family =
    Family::gauge("remote_sync_cluster_connected", "1 while the cluster is connected.");
const IDENTITY_CHANGED: Family = Family::gauge(
    "remote_sync_cluster_identity_changed",
    "1 while a different cluster answers than before.",
);
const HEALTHY: Family =
    Family::gauge("remote_sync_cluster_healthy", "1 if the last probe succeeded.");
const PROBES: Family = Family::counter("remote_sync_cluster_probes_total", "Probes, by result.");

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
