//! The frame of a program: command line, signals, log, and the one table of exit codes.

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    thread,
};

use crate::{
    error::{Error, Result},
    flags::{self, Flag, Flags, Request},
    logging,
    stop::Stop,
};

/// Stopped as asked, or nothing but text was asked for.
const STOPPED: u8 = 0;
/// Anything but the flags that is refused at the start.
const REFUSED: u8 = 1;
/// Flags that cannot be used, as in Go.
const USAGE: u8 = 2;
/// `-once` looked for an object that does not exist.
const ABSENT: u8 = 3;

/// Runs the program `name`: `check` makes flags into settings or says in a sentence why it cannot;
/// `run` does the work until it is stopped.
pub fn main<Settings>(
    name: &'static str,
    table: &[Flag],
    check: impl FnOnce(&Flags) -> std::result::Result<Settings, String>,
    run: impl FnOnce(&Settings, &Flags, &Stop) -> Result<()>,
) -> ExitCode {
    // Before anything else: as process 1 a signal without a handler is ignored.
    let stop = Stop::on_signals();
    let flags = match flags::parse(name, table, env::args_os().skip(1)) {
        Ok(Request::Print(text)) => {
            let _ = io::stdout().write_all(text.as_bytes());
            return ExitCode::from(STOPPED);
        }
        Ok(Request::Run(flags)) => flags,
        Err(sentence) => return usage(name, table, &sentence),
    };
    let settings = match check(&flags) {
        Ok(settings) => settings,
        Err(sentence) => return usage(name, table, &sentence),
    };
    let log = match logging::start(name, &flags) {
        Ok(log) => log,
        Err(sentence) => return usage(name, table, &sentence),
    };
    let result = stop.and_then(|stop| run(&settings, &flags, &stop));
    match &result {
        Ok(()) => log::info!("stopped as asked"),
        Err(error) => log::error!("{error}"),
    }
    log.finish();
    ExitCode::from(match result {
        Ok(()) => STOPPED,
        Err(Error::NotFound(_)) => ABSENT,
        Err(_) => REFUSED,
    })
}

/// Starts a thread that nobody waits for: it ends with the process.
///
/// # Errors
/// `BadConfig` when the system gives none.
pub fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.into()).spawn(work);
    thread.map(drop).map_err(|e| Error::BadConfig(format!("no thread for {name}: {e}")))
}

fn usage(name: &str, table: &[Flag], sentence: &str) -> ExitCode {
    let text = format!("{sentence}\n{}", flags::help(name, table));
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::from(USAGE)
}
