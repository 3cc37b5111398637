//! What the process does from its start to its end.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shared::{
    diagnostics, error::Result, flags::Flags, leadership::Leadership, runtime::End, stop::Stop,
};

use crate::{
    controller::{Engine, clusters, registry},
    once,
    report::Status,
    settings::{Election, Settings, Task},
};

/// What is under way gets this long when the process is asked to end.
const FAREWELL: Duration = Duration::from_millis(800);
/// Between two looks at whether all is done.
const POLL: Duration = Duration::from_millis(20);

/// Does the work until `stop` is raised, or until it is done.
///
/// # Errors
/// What is refused at the start: a kubeconfig that cannot be used, a port that cannot be served. The loss of
/// the lead. Of a task that ends, why it could not be done.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let engine = Arc::new(clusters::own(settings.clone(), flags, stop)?);
    let limit = match settings.task {
        Task::Run => return keep(&engine, flags),
        Task::Once(limit) => limit,
        Task::Cleanup => Duration::ZERO,
    };
    clusters::start(&engine)?;
    registry::start(&engine)?;
    let result = once::finish(&engine, limit);
    stop.raise();
    say_farewell(&engine);
    result.map(|()| End::Done)
}

fn keep(engine: &Arc<Engine>, flags: &Flags) -> Result<End> {
    let leadership = match &engine.context.settings.election {
        Some(Election { namespace, name, timing }) => {
            Leadership::campaign((namespace, name), *timing, flags, &engine.stop)?
        }
        None => Leadership::without_election(&engine.stop),
    };
    let result = lead(engine, &leadership, flags);
    // Also after an error: a leader lets go of its Lease.
    engine.stop.raise();
    let raised = Instant::now();
    say_farewell(engine);
    leadership.wait_for_release(raised);
    result.map(|()| End::Stopped)
}

/// Works as soon as this replica leads, until it is asked to end.
fn lead(engine: &Arc<Engine>, leadership: &Arc<Leadership>, flags: &Flags) -> Result<()> {
    let started = SystemTime::now();
    let status = Status { engine: engine.clone(), leadership: leadership.clone(), started };
    diagnostics::serve(flags, &engine.stop, status)?;
    if !leadership.wait_until_leading() {
        return Ok(());
    }
    clusters::start(engine)?;
    registry::start(engine)?;
    leadership.wait_until_lost()
}

/// Writes that have begun may end.
fn say_farewell(engine: &Engine) {
    let begun = Instant::now();
    let busy = || engine.routes().iter().any(|route| route.queue.depth().running > 0);
    while busy() && begun.elapsed() < FAREWELL {
        std::thread::sleep(POLL);
    }
}
