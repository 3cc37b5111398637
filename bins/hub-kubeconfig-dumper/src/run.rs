//! Threads of the program: the watch reports changes, the loop reads the Secret and writes the files. As in
//! the registration agent, files always come from a read of their own: a watch may lag behind.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use apiclient::{
    api::PartialObjectMetadata,
    backoff::Backoff,
    error::{Error, Result},
    log_line::seconds,
    log_object,
    reflector::Lookup,
    stop::Stop,
    watch::Selection,
};
use hub_kubeconfig_dumper::{MIN_INTERVAL, RESYNC_INTERVAL};
use log::Level;
use sidecar::{
    diagnostics,
    flags::Flags,
    runtime::{self, End},
};

use crate::{
    dumper::{DumpOutcome, Dumper},
    report::Reporter,
    settings::Settings,
};

/// The longest wait between two attempts to read or write.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The same while a caller waits for the exit.
const MAX_BACKOFF_ONCE: Duration = Duration::from_secs(2);

/// Works until `stop` is raised, or with `-once` until the files are written.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let dumper = Arc::new(Dumper::new(settings, flags, stop)?);
    if settings.once.is_none() {
        diagnostics::serve(flags, None, Reporter(dumper.clone()))?;
    }
    let ended = start(&dumper)?;
    stop.wait_until_raised();
    // A set that is being written may be finished.
    match (ended.recv_timeout(Stop::GRACE_PERIOD), settings.once) {
        (Ok(Err(error)), _) => Err(error),
        (Ok(Ok(())), Some(_)) => Ok(End::Done),
        (_, None) => Ok(End::Stopped),
        (Err(_), Some(_)) => Err(Error::bad_config(format!("{dumper}: stopped before an answer"))),
    }
}

/// Starts the threads; the receiver gets the result of the loop.
fn start(dumper: &Arc<Dumper>) -> Result<Receiver<Result<()>>> {
    // A single check has no time for a watch.
    if dumper.settings.once != Some(Duration::ZERO) {
        runtime::spawn_with("watch", dumper, follow)?;
    }
    let (end, ended) = channel();
    runtime::spawn_with("files", dumper, move |dumper| {
        let result = keep(dumper);
        // After the grace period nobody listens.
        let _ = end.send(result);
        dumper.stop.raise();
    })?;
    Ok(ended)
}

/// Keeps the version of the Secret, and wakes the loop at each change.
fn follow(dumper: &Dumper) {
    let Dumper { client, stop, versions, .. } = dumper;
    let mut version =
        |secret: PartialObjectMetadata| Some(secret.metadata.resource_version.unwrap_or_default());
    let selection = Selection::all(dumper.target());
    versions.run(client, &selection, stop, &mut version, &mut || stop.wake());
}

/// Brings the files up to date again and again.
fn keep(dumper: &Dumper) -> Result<()> {
    let begun = Instant::now();
    let once = dumper.settings.once;
    let cap = if once.is_some() { MAX_BACKOFF_ONCE } else { MAX_BACKOFF };
    let (mut reading, mut writing) = (Backoff::new(cap), Backoff::new(cap));
    loop {
        let (looked, revision) = (Instant::now(), dumper.versions.revision());
        dumper.status().beat = Some(looked);
        let (read, outcome) = dumper.look();
        let wait = log_outcome(dumper, &outcome, &mut reading, &mut writing);
        if let Some(time) = once {
            match once_result(dumper, outcome) {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() >= time => return Err(error),
                Err(_) => {}
            }
        }
        let end = once.map_or(Duration::MAX, |time| time.saturating_sub(begun.elapsed()));
        if rest(dumper, (looked, revision), &read, wait.min(end)) {
            return match once {
                None => Ok(()),
                Some(_) => {
                    Err(Error::bad_config(format!("{dumper}: stopped before it was usable")))
                }
            };
        }
    }
}

/// Logs a change of outcome; returns the longest wait until the next pass.
fn log_outcome(
    dumper: &Dumper,
    outcome: &DumpOutcome,
    reading: &mut Backoff,
    writing: &mut Backoff,
) -> Duration {
    let is_new = dumper.record(outcome);
    let (now, target) = (Instant::now(), dumper.target());
    if !matches!(outcome, DumpOutcome::Unread(_)) {
        reading.succeeded();
    }
    let failed = |backoff: &mut Backoff, what: &str, error: &Error| {
        let retry = backoff.failed(error, now, fastrand::f64());
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        let retry_in = seconds(retry.wait);
        log_object!(level, target, error:% = error, retry_in = retry_in; "{what}");
        retry.wait
    };
    match outcome {
        DumpOutcome::Current => {
            let failures = writing.succeeded();
            if failures > 0 {
                log_object!(
                    Level::Info, target, failures = failures;
                    "the files can be written again"
                );
            }
            log_object!(Level::Debug, target; "the files match the Secret");
            RESYNC_INTERVAL
        }
        DumpOutcome::Unusable(error) => {
            if is_new {
                log_object!(
                    Level::Warn, target, reason:% = error;
                    "the Secret cannot be used: keeping the files"
                );
            }
            RESYNC_INTERVAL
        }
        DumpOutcome::Unread(error) => failed(reading, "the Secret cannot be read", error),
        DumpOutcome::Unwritten(error) => failed(writing, "the files cannot be written", error),
    }
}

/// The result of `-once`; the exit code distinguishes a missing Secret from all other failures.
fn once_result(dumper: &Dumper, outcome: DumpOutcome) -> Result<()> {
    match outcome {
        DumpOutcome::Current => Ok(()),
        DumpOutcome::Unusable(Error::NotFound(reason)) => {
            Err(Error::NotFound(format!("{dumper}: {reason}")))
        }
        DumpOutcome::Unusable(error) => Err(Error::bad_config(format!("{dumper}: {error}"))),
        DumpOutcome::Unread(error) | DumpOutcome::Unwritten(error) => Err(error),
    }
}

/// Waits for the time to pass, or for a change since the last pass, at `revision`, that it has not read; `true` at the end
/// of the process.
fn rest(
    dumper: &Dumper,
    (looked, revision): (Instant, u64),
    read: &Lookup<String>,
    wait: Duration,
) -> bool {
    let begun = Instant::now();
    loop {
        let seen = dumper.stop.wakes();
        let version = dumper.version();
        let is_known = matches!(version, Lookup::Absent | Lookup::Object(_));
        let is_news = dumper.versions.revision() != revision && is_known && version != *read;
        let left = match is_news {
            true => MIN_INTERVAL.saturating_sub(looked.elapsed()),
            false => wait.saturating_sub(begun.elapsed()),
        };
        if left.is_zero() {
            return dumper.stop.raised();
        }
        dumper.status().beat = Some(Instant::now());
        if dumper.stop.wait_for_change(seen, Instant::now() + left.min(Stop::SLICE)) {
            return true;
        }
    }
}
