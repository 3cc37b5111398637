//! The program that registers the cluster: this one, or klusterlet-agent, which has another duty in the same process.

use std::{sync::Arc, time::Duration};

use apiclient::client::RequestMetrics;
use sidecar::metrics::Metrics;

use crate::{agent::Agent, identity::AgentNames, report::ready};

/// Time between checks whether the credential is usable (ocm `pkg/registration/spoke/spokeagent.go`).
const READY_INTERVAL: Duration = Duration::from_secs(1);

/// A program that registers the cluster.
pub struct Program {
    pub name: &'static str,
    /// The Lease of the leader election. It is upstream's, so that either program takes over from the other.
    pub lock: &'static str,
    pub duty: Option<Arc<dyn Duty>>,
}

/// What a process does with the files of the credential besides registration.
pub trait Duty: Send + Sync {
    /// Works until the end of the process; `requests` counts requests to the hub.
    fn run(self: Arc<Self>, names: &AgentNames, requests: &RequestMetrics);
    // Its part of the endpoint, as in `sidecar::diagnostics::Report`.
    fn healthy(&self) -> Result<(), String>;
    fn ready(&self) -> Result<(), String>;
    fn remarks(&self) -> Vec<String>;
    fn add_to(&self, metrics: &mut Metrics);
}

/// Runs the duty once the files hold a valid credential: those of another hub would mislead it.
pub(crate) fn run(agent: &Agent, duty: Arc<dyn Duty>, names: &AgentNames) {
    while ready(agent).is_err() {
        if agent.stop.wait(READY_INTERVAL) {
            return;
        }
    }
    duty.run(names, &agent.session_requests);
}
