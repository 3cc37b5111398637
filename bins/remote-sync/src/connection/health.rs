//! Health of a connection, for diagnostics and metrics.

use std::time::Instant;

use serde_json::{Value, json};
use sidecar::metrics::{Family, Metrics};

use super::{Connection, ConnectionState};

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
const HEALTHY: Family = Family::gauge(
    "remote_sync_cluster_healthy",
    "1 while neither probes nor attempts to connect fail.",
);
const PROBES: Family = Family::counter("remote_sync_cluster_probes_total", "Probes, by result.");

impl Connection {
    /// The last error; `None` after a success.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// The reason why its identity could not be read the last time.
    pub(crate) fn identity_error(&self) -> Option<String> {
        self.state().unread.clone()
    }

    /// For `/debug/state`.
    pub(crate) fn to_json(&self) -> Value {
        let state = self.state();
        let ago = |at: Option<Instant>| at.map(|at| at.elapsed().as_secs());
        json!({
            "state": state.phase(),
            "seconds": state.since.elapsed().as_secs(),
            "connections": state.sessions,
            "failures": state.schedule.failures,
            "secondsSince": {
                "success": ago(state.schedule.last_success),
                "probe": ago(state.schedule.last_probe),
                "connectFailure": ago(state.schedule.last_connect_failure),
            },
            "error": state.error,
            "record": state.cluster.as_ref().map(ToString::to_string),
            "identityError": state.unread,
        })
    }

    /// Adds this connection's metrics.
    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let state = self.state();
        let remote = ("remote", self.name());
        let verified = state.cluster.as_ref().is_some_and(|it| it.uid.is_some());
        metrics.add(CONNECTED, &[remote], u8::from(state.session().is_some()));
        metrics.add(IDENTITY_REFUSED, &[remote], u8::from(state.refused));
        metrics.add(VERIFIED, &[remote], u8::from(verified));
        let [good, bad] = state.probes;
        if good + bad > 0 {
            metrics.add(HEALTHY, &[remote], u8::from(state.schedule.failures == 0));
        }
        for (result, count) in [("success", good), ("error", bad)] {
            metrics.add(PROBES, &[remote, ("result", result)], count);
        }
    }
}

impl ConnectionState {
    pub(super) fn phase(&self) -> &'static str {
        let untried = self.offer.is_none() && self.sessions == 0 && self.error.is_none();
        match self.session() {
            Some(_) => "Connected",
            None if self.refused => "IdentityRefused",
            None if untried => "Waiting",
            None => "Disconnected",
        }
    }
}
