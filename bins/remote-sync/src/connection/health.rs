//! Health of a connection, for diagnostics and metrics.

use std::time::Instant;

use sidecar::metrics::{Family, Metrics};

use super::handle::{Connection, CredentialOffer};
use crate::model::known_clusters::ClusterRecord;

const CONNECTED: Family =
    Family::gauge("remote_sync_cluster_connected", "1 while the cluster is connected.");
const IDENTITY_REFUSED: Family = Family::gauge(
    "remote_sync_cluster_identity_refused",
    "1 while the cluster that answers is not the recorded one, and is not connected.",
);
const VERIFIED: Family = Family::gauge(
    "remote_sync_cluster_identity_verified",
    "1 if the cluster is recorded with the uid of its kube-system.",
);
const HEALTHY: Family =
    Family::gauge("remote_sync_cluster_healthy", "1 if the last probe succeeded.");
const PROBES: Family = Family::counter("remote_sync_cluster_probes_total", "Probes, by result.");

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No credentials were offered yet.
    Waiting,
    /// To the expected cluster.
    Connected,
    /// There is no session: the cluster that answers is not the recorded one.
    IdentityRefused,
    /// There is no session.
    Disconnected,
}

/// A snapshot of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// Its phase.
    pub(crate) phase: Phase,
    /// The time at which it was connected or disconnected.
    pub(crate) since: Instant,
    /// Number of sessions so far.
    pub(crate) connections: u64,
    /// Consecutive failed probes and attempts to connect.
    pub(crate) failures: u32,
    /// The last error; `None` after a success.
    pub(crate) error: Option<String>,
    /// The last response.
    pub(crate) last_success: Option<Instant>,
    /// The last probe.
    pub(crate) last_probe: Option<Instant>,
    /// The last failed attempt to connect.
    pub(crate) last_connect_failure: Option<Instant>,
    /// The record of the cluster of the last session.
    pub(crate) cluster: Option<ClusterRecord>,
    /// The reason why its identity could not be read the last time.
    pub(crate) unread: Option<String>,
}

impl Connection {
    /// A snapshot.
    pub(crate) fn health(&self) -> Health {
        let state = self.state();
        let connected = state.session().is_some();
        let phase = match &state.offer {
            _ if connected => Phase::Connected,
            _ if state.refused.is_some() => Phase::IdentityRefused,
            CredentialOffer::Awaited
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
            cluster: state.cluster.clone(),
            unread: state.unread.clone(),
        }
    }

    /// Adds this connection's metrics.
    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let state = self.state();
        let up = u8::from(state.session().is_some());
        let ((good, bad), healthy) = (state.health.probes, state.health.probe_was_good);
        let refused = u8::from(state.refused.is_some());
        let verified = u8::from(state.cluster.as_ref().is_some_and(|it| it.uid.is_some()));
        drop(state);
        let remote = ("remote", self.name());
        metrics.add(CONNECTED, &[remote], up);
        metrics.add(IDENTITY_REFUSED, &[remote], refused);
        metrics.add(VERIFIED, &[remote], verified);
        if let Some(healthy) = healthy {
            metrics.add(HEALTHY, &[remote], u8::from(healthy));
        }
        for (result, count) in [("success", good), ("error", bad)] {
            metrics.add(PROBES, &[remote, ("result", result)], count);
        }
    }
}
