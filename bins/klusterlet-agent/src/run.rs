//! Threads of the program: registration and the work duty in one process, or the work duty alone with its own election
//! and endpoint.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use apiclient::{client::RequestMetrics, error::Result, stop::Stop};
use csr_bootstrapper::Program;
use sidecar::{
    diagnostics::{self, HttpsSettings},
    flags::Flags,
    leadership::{self, Election, Leadership},
    runtime::{self, End},
};

use crate::{
    report::Reporter,
    settings::{AloneSettings, Settings},
    work::{self, duty::WorkDuty},
};

/// The Lease of a process with both duties (ocm `pkg/singleton/spoke`).
const LOCK: &str = "klusterlet-agent-lock";
/// The Lease of the work duty alone (ocm `pkg/work/spoke/options.go`).
const WORK_LOCK: &str = "work-agent-lock";

/// Runs until `stop` is raised.
///
/// # Errors
/// Failures at the start (an invalid kubeconfig, an unusable port), and the loss of the lead.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    match settings {
        Settings::Both { registration, work } => {
            let duty = WorkDuty::new(work, flags, stop)?;
            let program =
                Program { name: env!("CARGO_PKG_NAME"), lock: LOCK, duty: Some(Arc::new(duty)) };
            csr_bootstrapper::run(registration, flags, stop, program)
        }
        Settings::Work(settings) => run_alone(settings, flags, stop),
    }
}

fn run_alone(settings: &AloneSettings, flags: &Flags, stop: &Stop) -> Result<End> {
    let duty = Arc::new(WorkDuty::new(&settings.work, flags, stop)?);
    let election = settings.election.map(|timing| Election {
        lease: (&settings.namespace, WORK_LOCK),
        timing,
        delay: Duration::ZERO,
    });
    leadership::run(election, flags, stop, |leadership| lead(settings, &duty, leadership, flags))
}

/// Serves the endpoint, and runs the work duty once this replica leads.
fn lead(
    settings: &AloneSettings,
    duty: &Arc<WorkDuty>,
    leadership: &Arc<Leadership>,
    flags: &Flags,
) -> Result<()> {
    let https = settings.https.as_ref().map(HttpsSettings::listen).transpose()?;
    let requests = RequestMetrics::default();
    let report = Reporter {
        duty: duty.clone(),
        leadership: leadership.clone(),
        requests: requests.clone(),
        started: SystemTime::now(),
    };
    diagnostics::serve(flags, https, report)?;
    if !leadership.wait_until_leading() {
        return Ok(());
    }
    let (duty, cluster) = (duty.clone(), settings.cluster.clone());
    let agent_id = settings.agent_id.clone();
    runtime::spawn("work", move || work::run(duty, &cluster, agent_id.as_deref(), &requests))?;
    leadership.wait_until_lost()
}
