//! How a pass ends: what is told of it, and when the pair is looked at again.

use std::time::Duration;

use serde_json::json;
use shared::{
    client::USUAL_OBJECT,
    error::{Error, Result},
    event::CoreEvent,
    lock::lock,
};

use crate::{
    cache::retry::{Class, class, pause},
    model::annotations::Uid,
    sync::{
        decide::{self, Standing},
        observed::{Pass, Settled, View},
        orphan::Verdict,
        pair::Job,
        remote::Note,
        workqueue::Outcome,
    },
};

/// What is being deleted for longer is held up by finalizers of others, and people should know.
const HELD_UP: Duration = Duration::from_secs(600);
/// What is held for people is looked at again after this: an event may be missed.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// What waits for an event is looked at again after this, without a request: where pairs share a namespace,
/// another one may have found out what the event would have told.
const WAIT_AGAIN: Duration = Duration::from_secs(5);

const LINGERS: &str = "the target or its namespace has been being deleted for more than 10 minutes, see the finalizers there";

/// The pass is over, with nothing more to do about the pair for now.
pub(crate) fn ended(
    job: &Job<'_>,
    view: &View,
    standing: Standing,
    pass: &Pass,
    troubles: &[Error],
) -> Outcome {
    if standing != Standing::Held(decide::ORPHAN) && standing != Standing::Held(decide::TRIPPED) {
        lock(&job.route.orphans).forget(job.pair);
    }
    job.drop_bodies();
    if view.source.is_some() || pass.source_gone || pass.unselected.is_some() {
        job.route.leaves(job.pair, false);
    }
    if view.source.is_none() && view.target.is_none() {
        job.route.settle(job.pair, Settled::default());
    }
    if let Some(error) = troubles.first() {
        return failed(job, error);
    }
    let waited = job.route.waited(job.pair, matches!(standing, Standing::Waiting(_)));
    let standing = if waited >= HELD_UP { Standing::Held(LINGERS) } else { standing };
    let people = matches!(standing, Standing::Held(_) | Standing::Conflict(_));
    tell(job, view, note(standing), people);
    match (standing, pass.verdict) {
        (Standing::Again, _) => Outcome::Later(Duration::ZERO),
        (Standing::Held(decide::ORPHAN), Some(Verdict::Grace(left))) => Outcome::Later(left),
        (Standing::Held(decide::TRIPPED), _) => Outcome::Later(
            job.context.settings.orphans.grace.clamp(Duration::from_secs(1), LOOK_AGAIN),
        ),
        (Standing::Held(LINGERS), _) => Outcome::Later(WAIT_AGAIN),
        (Standing::Held(_), _) => Outcome::Later(LOOK_AGAIN),
        (Standing::Waiting(_), _) => Outcome::Later(WAIT_AGAIN),
        _ => Outcome::Settled,
    }
}

/// Why a pair that stands so is not in step.
fn note(standing: Standing) -> Option<Note> {
    let (state, reason) = match standing {
        Standing::InSync | Standing::Nothing | Standing::Again => return None,
        Standing::Paused => ("paused", "an annotation stops it"),
        Standing::Waiting(reason) => ("waiting", reason),
        Standing::Held(reason) => ("held", reason),
        Standing::Conflict(reason) => ("conflict", reason),
    };
    Some(Note::new(state, reason))
}

/// A step failed; what it found out meanwhile is looked at before the next try.
pub(crate) fn failed(job: &Job<'_>, error: &Error) -> Outcome {
    let class = class(error);
    let class = match class {
        Class::Stale => match job.refresh() {
            Ok(()) => Class::Stale,
            Err(_) => Class::Transient,
        },
        class => class,
    };
    let state = if class == Class::Refused { "degraded" } else { "failing" };
    match class {
        Class::Stale => log::debug!("{job}: {error}; it is read again"),
        _ => {
            let note = Note::new(state, &error.to_string());
            tell(job, &job.view(), Some(note), class == Class::Refused);
        }
    }
    job.context.counts.failed(&job.route.name, class.name());
    Outcome::Failed(class, pause(error))
}

/// Names that no object can have: nothing but another name mends that.
pub(crate) fn refused(job: &Job<'_>, sentence: String) -> Outcome {
    let_go(job);
    let view = job.view();
    let there = view.source.is_some() || view.target.is_some();
    tell(job, &view, there.then(|| Note::new("degraded", &sentence)), true);
    Outcome::Settled
}

/// An object that costs too much memory: nothing is done about the pair until it changes.
pub(crate) fn too_large(job: &Job<'_>, which: &str) -> Outcome {
    let_go(job);
    let reason = format!("{which} needs more than {} KiB of memory", USUAL_OBJECT >> 10);
    tell(job, &job.view(), Some(Note::new("toolarge", &reason)), true);
    Outcome::Settled
}

/// Nothing of what was found out about the pair counts when it is looked at again.
fn let_go(job: &Job<'_>) {
    lock(&job.route.orphans).forget(job.pair);
    job.drop_bodies();
}

/// Logs what is new, and with `people` writes it on the source as an CoreEvent.
fn tell(job: &Job<'_>, view: &View, note: Option<Note>, people: bool) {
    if !job.route.note(job.pair, note.clone()) {
        return;
    }
    let Some(note) = note else {
        log::info!("{job}: in step again");
        return;
    };
    if !people {
        log::info!("{job}: {}: {}", note.state, note.reason);
        return;
    }
    log::warn!("{job}: {}: {}", note.state, note.reason);
    if !job.context.settings.dry_run
        && let Some(source) = &view.source
    {
        write_event(job, source.uid, note);
    }
}

fn write_event(job: &Job<'_>, source: Uid, note: Note) {
    let resource = &job.kinds.source.resource;
    let about = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "namespace": job.source.0,
        "name": job.source.1,
        "uid": source.to_string(),
    });
    let namespace = if job.source.0.is_empty() { "default" } else { &job.source.0 };
    let event = CoreEvent {
        source: "remote-sync",
        reason: if note.state == "degraded" { "SyncFailed" } else { "SyncHeld" },
        message: note.reason,
        warning: true,
    };
    let written: Result<()> = job.ask_source(|client| event.write(client, namespace, &about));
    if let Err(error) = written {
        log::debug!("{error}");
    }
}
