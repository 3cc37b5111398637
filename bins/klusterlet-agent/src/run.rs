//! Threads of the program: election, endpoint, and once this replica leads, the work duty's.

use std::{sync::Arc, time::Instant};

use apiclient::{error::Result, stop::Stop};
use csr_bootstrapper::certificate::csr::self_signed;
use sidecar::{diagnostics, flags::Flags, leadership::Leadership, runtime::End};

use crate::{
    report::Reporter,
    settings::{LOCK, Settings},
    work::duty::WorkDuty,
};

/// Works until `stop` is raised.
///
/// # Errors
/// Refusals at the start (a kubeconfig that cannot be used, a port that cannot be served), and the loss of the lead.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    settings.log_ignored();
    let duty = WorkDuty::new(settings, flags, stop)?;
    let leadership = match settings.election {
        Some(timing) => Leadership::campaign((&settings.namespace, LOCK), timing, flags, stop)?,
        None => Leadership::without_election(stop),
    };
    let result = lead(&duty, &leadership, flags);
    // After an error too: a leader releases its Lease.
    stop.raise();
    leadership.wait_for_release(Instant::now());
    result.map(|()| End::Stopped)
}

/// Works as soon as this replica leads, until the end of the process.
fn lead(duty: &Arc<WorkDuty>, leadership: &Arc<Leadership>, flags: &Flags) -> Result<()> {
    let https = match &duty.settings.https {
        Some(https) => {
            let (certificate, key) = self_signed()?;
            Some(https.listen(certificate, key)?)
        }
        None => None,
    };
    let report = Reporter { duty: duty.clone(), leadership: leadership.clone() };
    diagnostics::serve(flags, https, &duty.stop, report)?;
    if !leadership.wait_until_leading() {
        return Ok(());
    }
    duty.start()?;
    leadership.wait_until_lost()
}
