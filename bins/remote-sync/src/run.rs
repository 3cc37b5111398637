//! What the process does from its start to its end.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shared::{endpoint, error::Result, flags::Flags, stop::Stop};

use crate::{
    engine::Engine,
    leader::Leader,
    once, rbac, registry, remotes,
    report::Status,
    settings::{Settings, Task},
};

/// What is under way gets this long when the process is asked to end.
const FAREWELL: Duration = Duration::from_millis(800);
/// Between two looks at whether all is done.
const POLL: Duration = Duration::from_millis(20);

/// Does the work until `stop` is raised, or until it is done.
///
/// # Errors
/// What is refused at the start: a kubeconfig that cannot be used, a port that cannot be served; of a task
/// that ends, why it could not be done.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<()> {
    let limit = match settings.task {
        Task::PrintRbac => {
            // Whoever reads it may have closed the pipe.
            let _ = io::stdout().write_all(rbac::print(settings).as_bytes());
            return Ok(());
        }
        Task::Run => return keep(settings, flags, stop),
        Task::Once(limit) => limit,
        Task::Cleanup => Duration::ZERO,
    };
    let engine = Arc::new(remotes::own(settings.clone(), flags, stop)?);
    remotes::start(&engine)?;
    registry::start(&engine)?;
    let result = once::finish(&engine, limit);
    stop.raise();
    say_farewell(&engine);
    result
}

fn keep(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<()> {
    let engine = Arc::new(remotes::own(settings.clone(), flags, stop)?);
    let leader = match settings.election {
        Some(_) => Arc::<Leader>::default(),
        None => Leader::alone(),
    };
    let started = SystemTime::now();
    endpoint::serve(
        flags,
        stop,
        Status { engine: engine.clone(), leader: leader.clone(), started },
    )?;
    let election = settings.election.as_ref();
    let elected = election.map(|election| leader.stand(election, flags, stop)).transpose()?;
    if leader.wait(stop) {
        remotes::start(&engine)?;
        registry::start(&engine)?;
        stop.wait_for_ever();
        say_farewell(&engine);
    }
    if let Some(elected) = elected {
        // Closed when the election's thread has ended.
        let _ = elected.recv_timeout(FAREWELL);
    }
    Ok(())
}

/// Writes that have begun may end.
fn say_farewell(engine: &Engine) {
    let begun = Instant::now();
    let busy = || engine.routes().iter().any(|route| route.queue.depth().running > 0);
    while busy() && begun.elapsed() < FAREWELL {
        std::thread::sleep(POLL);
    }
}
