//! Threads of the program: the watch reports changes, and the loop reads the Secret and writes the files. As in the
//! registration agent, the content always comes from a GET: a watch may lag behind.

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
    controller,
    error::{Error, Result},
    log_object,
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
/// The longest wait with `-once`: a caller waits for the exit.
const MAX_BACKOFF_ONCE: Duration = Duration::from_secs(2);

/// Works until `stop` is raised, or with `-once` until the files are written.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let dumper = Arc::new(Dumper::new(settings, flags, stop)?);
    if settings.once.is_none() {
        diagnostics::serve(flags, None, Reporter(dumper.clone()))?;
    }
    let ended = start(&dumper)?;
    stop.wait_until_raised();
    // Leaves time to finish a set.
    match (ended.recv_timeout(Stop::GRACE_PERIOD), settings.once) {
        (Ok(Err(error)), _) => Err(error),
        (Ok(Ok(())), Some(_)) => Ok(End::Done),
        (_, None) => Ok(End::Stopped),
        (Err(_), Some(_)) => Err(Error::bad_config(format!("{dumper}: stopped before an answer"))),
    }
}

/// Starts the threads; the receiver gets the result of the loop.
fn start(dumper: &Arc<Dumper>) -> Result<Receiver<Result<()>>> {
    // A single check needs no watch.
    if dumper.settings.once != Some(Duration::ZERO) {
        runtime::spawn_with("watch", dumper, follow)?;
    }
    let (end, ended) = channel();
    runtime::spawn_with("files", dumper, move |dumper| {
        let result = keep(dumper);
        // Nobody receives after the grace period.
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

/// Updates the files at each change and when due, until the end of the process or of `-once`.
fn keep(dumper: &Dumper) -> Result<()> {
    let (begun, once) = (Instant::now(), dumper.settings.once);
    let mut backoff = Backoff::new(if once.is_some() { MAX_BACKOFF_ONCE } else { MAX_BACKOFF });
    let (mut due, mut last, mut result) = (begun, None, None);
    controller::run(&dumper.stop, || {
        let now = Instant::now();
        dumper.status().beat = Some(now);
        if let Some((looked, revision, read)) = &last
            && dumper.has_changed(*revision, read)
        {
            due = *looked + MIN_INTERVAL;
        }
        if now < due {
            return Some(due);
        }
        let revision = dumper.versions.revision();
        let (read, outcome) = dumper.look();
        last = Some((now, revision, read));
        due = Instant::now() + log_outcome(dumper, &outcome, &mut backoff);
        if let Some(limit) = once {
            let done = once_result(dumper, outcome);
            if done.is_ok() || begun.elapsed() >= limit {
                result = Some(done);
                return None;
            }
            due = due.min(begun + limit);
        }
        Some(due)
    });
    match (result, once) {
        (Some(result), _) => result,
        (None, None) => Ok(()),
        (None, Some(_)) => {
            Err(Error::bad_config(format!("{dumper}: stopped before it was usable")))
        }
    }
}

/// Logs a change of outcome; returns the longest wait until the next pass.
fn log_outcome(dumper: &Dumper, outcome: &DumpOutcome, backoff: &mut Backoff) -> Duration {
    let (is_new, target) = (dumper.record(outcome), dumper.target());
    let mut failed = |what: &str, error: &Error| {
        let retry = backoff.failed(error, Instant::now(), fastrand::f64());
        retry.log("", &target, error, what);
        retry.wait
    };
    match outcome {
        DumpOutcome::Unread(error) => return failed("the Secret cannot be read", error),
        DumpOutcome::Unwritten(error) => return failed("the files cannot be written", error),
        DumpOutcome::Unusable(error) if is_new => log_object!(
            Level::Warn, target, reason:% = error;
            "the Secret cannot be used: keeping the files"
        ),
        DumpOutcome::Unusable(_) => {}
        DumpOutcome::Current => log_object!(Level::Debug, target; "the files match the Secret"),
    }
    let failures = backoff.succeeded();
    if failures > 0 && *outcome == DumpOutcome::Current {
        log_object!(
            Level::Info, target, failures = failures;
            "the Secret can be read and the files can be written again"
        );
    }
    RESYNC_INTERVAL
}

/// The result of `-once`; a missing Secret has its own exit code.
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
