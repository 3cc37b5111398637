//! Program that runs the registration agent: csr-bootstrapper, or klusterlet-agent with a duty besides.

use std::sync::Arc;

use apiclient::client::RequestMetrics;
use sidecar::metrics::Metrics;

use crate::identity::AgentNames;

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
