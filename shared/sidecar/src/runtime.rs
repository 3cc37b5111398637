//! The main function of a program: command line, signals, log, and exit codes.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use apiclient::{
    error::{Error, Result},
    stop::{Stop, start_thread},
};

use crate::{
    flags::{self, Flag, Flags, Invocation},
    logging::{self, Log},
};

/// When the last lines are dropped, counted from the signal: the process ends within a second, and other work within
/// [`Stop::GRACE_PERIOD`].
const FLUSH_TIMEOUT: Duration = Duration::from_millis(950);

const STOPPED: u8 = 0;
const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const ABSENT: u8 = 3;

/// Exit codes and their meanings, as in docs/operations.md.
pub const EXIT_CODES: [(u8, &str); 4] = [
    (STOPPED, "stopped by SIGTERM or SIGINT, or done, or `-help` or the like was printed"),
    (
        REFUSED,
        "an error at the start, such as an unusable kubeconfig or a port in use; leadership was lost; or what was to be done once is not done",
    ),
    (USAGE, "invalid flags, as in Go"),
    (ABSENT, "with `-once` or `-explain`: the object does not exist"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Stopped,
    Done,
}

/// The command line of a program without subcommands.
pub fn arguments() -> std::result::Result<Vec<OsString>, String> {
    Ok(env::args_os().skip(1).collect())
}

/// Runs the program `name` with these arguments, or prints the error about them. `check` turns flags into settings, a
/// text to print, or an error; `run` works until it is stopped.
pub fn main<Settings>(
    name: &'static str,
    table: &[Flag],
    arguments: std::result::Result<Vec<OsString>, String>,
    check: impl FnOnce(&Flags) -> std::result::Result<Invocation<Settings>, String>,
    run: impl FnOnce(&Settings, &Flags, &Stop) -> Result<End>,
) -> ExitCode {
    // First: process 1 ignores signals without a handler.
    let stop = stop_on_signals();
    keep_memory_private();
    let (flags, settings, log) = match prepare(name, table, arguments, check) {
        Ok(Invocation::Run(prepared)) => prepared,
        Ok(Invocation::Print(text)) => {
            // The reader may have closed the pipe.
            let _ = io::stdout().write_all(text.as_bytes());
            return ExitCode::from(STOPPED);
        }
        // Without the usage text: most people see only the last lines of a log.
        Err(sentence) => {
            let text = format!("{sentence}\nRun '{name} -help' for usage.\n");
            let _ = io::stderr().write_all(text.as_bytes());
            return ExitCode::from(USAGE);
        }
    };
    let result = match &stop {
        Ok(stop) => run(&settings, &flags, stop),
        Err(error) => Err(error.clone()),
    };
    match &result {
        Ok(End::Stopped) => log::info!("stopped by a signal"),
        Ok(End::Done) => log::info!("done"),
        Err(error) => log::error!(error:% = error; "exiting with an error"),
    }
    let raised_for = stop.map_or(Duration::ZERO, |stop| stop.raised_for());
    log.finish(FLUSH_TIMEOUT.saturating_sub(raised_for));
    ExitCode::from(match result {
        Ok(_) => STOPPED,
        Err(Error::NotFound(_)) => ABSENT,
        Err(_) => REFUSED,
    })
}

fn prepare<Settings>(
    name: &str,
    table: &[Flag],
    arguments: std::result::Result<Vec<OsString>, String>,
    check: impl FnOnce(&Flags) -> std::result::Result<Invocation<Settings>, String>,
) -> std::result::Result<Invocation<(Flags, Settings, Log)>, String> {
    let flags = match flags::parse(name, table, arguments?)? {
        Invocation::Print(text) => return Ok(Invocation::Print(text)),
        Invocation::Run(flags) => flags,
    };
    Ok(match check(&flags)? {
        Invocation::Print(text) => Invocation::Print(text),
        Invocation::Run(settings) => {
            let log = logging::start(name, &flags)?;
            for (name, reason) in flags.ignored() {
                log::info!("-{name} is ignored: {reason}");
            }
            Invocation::Run((flags, settings, log))
        }
    })
}

fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::default();
    let refused = |e| Error::bad_config(format!("signals cannot be handled: {e}"));
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(refused)?;
    let raise = stop.clone();
    let wait = move || {
        if signals.forever().next().is_some() {
            raise.raise();
        }
    };
    start_thread("signals", wait).map_err(refused)?;
    Ok(stop)
}

pub fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let refused = |e| Error::bad_config(format!("no thread for {name}: {e}"));
    start_thread(name, work).map_err(refused)
}

/// Like [`spawn`], with a value that threads share.
pub fn spawn_with<T: Send + Sync + 'static>(
    name: &'static str,
    shared: &Arc<T>,
    work: impl FnOnce(&T) + Send + 'static,
) -> Result<()> {
    let shared = shared.clone();
    spawn(name, move || work(&shared))
}

/// Protects private keys in memory: a crash must not write them to disk, and no other process of this user may read
/// them, such as in other containers of a pod with a shared process namespace.
fn keep_memory_private() {
    // Best effort.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
