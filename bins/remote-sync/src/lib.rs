//! Keeps objects of any kind in sync between a cluster and many remotes: spec down, status and chosen Secrets up.

// Flags and their checks.
mod settings;

// Watches, and the pairs that a change affects.
mod controller;

// One pair at a time: observe, decide, apply.
mod sync;

// Cached objects of a cluster, and requests to it.
mod cache;

// Supervised connections.
mod connection;

// Cached objects, names, annotations and kinds. Pure, except for discovery, which sends requests.
pub mod model {
    pub mod annotations;
    pub mod digest;
    pub(crate) mod discovery;
    pub(crate) mod key;
    pub mod known_clusters;
    pub mod object;
    pub mod rules;
    pub mod secret;
}

// Other tasks, and diagnostics.
mod cleanup;
mod once;
mod rbac;
mod report;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{election::ElectionTiming, error::Result, stop::Stop};
use sidecar::{
    diagnostics,
    flags::{Flags, Invocation},
    leadership::{self, Election, Leadership},
    runtime::{self, End},
};

use self::{
    controller::Controller,
    report::Reporter,
    settings::{Operation, Settings},
};

/// controller-runtime's defaults (`pkg/manager/manager.go`).
const ELECTION: ElectionTiming = ElectionTiming {
    lease: Duration::from_secs(15),
    renew: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

pub fn main() -> ExitCode {
    runtime::main("remote-sync", &settings::table(), runtime::arguments(), check, run)
}

fn check(flags: &Flags) -> std::result::Result<Invocation<Settings>, String> {
    let settings = Settings::new(flags)?;
    if flags.switch("print-rbac") {
        return Ok(Invocation::Print(rbac::print(&settings)));
    }
    Ok(Invocation::Run(settings))
}

/// Runs until `stop` is raised, or until a task is done.
///
/// # Errors
/// At startup, an unusable kubeconfig or a port in use; later, lost leadership; for a task, why it is incomplete.
fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let controller = Controller::new(settings.clone(), flags, stop)?;
    let task: &dyn Fn() -> Result<()> = match &settings.operation {
        Operation::Run => return run_until_stopped(&controller, flags),
        Operation::Once(limit) => &|| once::finish(&controller, *limit),
        Operation::Cleanup => &|| cleanup::run(&controller),
        Operation::Explain(wanted) => &|| report::explain(&controller, wanted),
    };
    controller.start(flags)?;
    let result = task();
    stop.raise();
    wait_for_writes(&controller);
    result.map(|()| End::Done)
}

fn run_until_stopped(controller: &Arc<Controller>, flags: &Flags) -> Result<End> {
    let election = controller.context.settings.election.as_ref();
    let election = election.map(|(namespace, name)| Election {
        lease: (namespace, name),
        timing: ELECTION,
        delay: Duration::ZERO,
    });
    leadership::run(election, flags, &controller.stop, |leadership| {
        let result = lead(controller, leadership, flags);
        // Also after an error, writes end with leadership.
        controller.stop.raise();
        wait_for_writes(controller);
        result
    })
}

/// Starts the controller once this replica leads; returns when it no longer does.
fn lead(controller: &Arc<Controller>, leadership: &Arc<Leadership>, flags: &Flags) -> Result<()> {
    let started = SystemTime::now();
    let status =
        Reporter { controller: controller.clone(), leadership: leadership.clone(), started };
    diagnostics::serve(flags, None, status)?;
    if !leadership.wait_until_leading() {
        return Ok(());
    }
    controller.start(flags)?;
    leadership.wait_until_lost()
}

/// Waits for running writes at shutdown.
fn wait_for_writes(controller: &Controller) {
    let (remotes, deadline) = (controller.remotes(), Instant::now() + Stop::GRACE_PERIOD);
    remotes.iter().for_each(|remote| remote.queue.close());
    remotes.iter().for_each(|remote| remote.queue.drain(deadline));
}
