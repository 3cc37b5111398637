//! `-cleanup`: takes away what this program wrote beside contents, so that it can be removed for good. The
//! objects themselves stay, on both sides.

use serde_json::{Value, json};
use shared::{
    client::Patch,
    error::{Error, Result},
};

use crate::{
    cache::retry::{class, pause},
    model::{
        annotations::Keys,
        object::{Finalizers, Known},
    },
    sync::{
        observed::{Relation, View},
        pair::Job,
        patch,
        remote::Note,
        workqueue::Outcome,
    },
};

/// One pair: our finalizer and annotations go from the source, our marks from the target.
pub(crate) fn pass(job: &Job<'_>) -> Outcome {
    match clean(job) {
        Ok(()) => {
            job.route.note(job.pair, None);
            Outcome::Settled
        }
        Err(Error::TooLarge(_)) if job.is_hurried() => Outcome::Large,
        Err(error) => {
            log::warn!("{job}: {error}");
            job.route.note(job.pair, Some(Note::new("failing", &error.to_string())));
            Outcome::Failed(class(&error), pause(&error))
        }
    }
}

fn clean(job: &Job<'_>) -> Result<()> {
    let (view, reader) = (job.view(), &job.context.reader);
    if let Some(source) = &view.source {
        let document = job.source_body(source)?;
        let mut patch = annotations(&document, &of_source(&reader.keys));
        if let Finalizers::Ours(place) = source.row.finalizers {
            patch.extend(patch::without_finalizer(place, &reader.finalizer));
        }
        write(job, "source", source, patch, |patch| {
            job.ask_source(|client| client.patch(&job.at_source(), Patch::Json, patch))
        })?;
    }
    if let Some(target) = view.target.as_ref().filter(|_| is_ours(job, &view)) {
        let document = job.target_body(target)?;
        let patch = annotations(&document, &of_target(&reader.keys));
        write(job, "target", target, patch, |patch| {
            job.ask_target(|client| client.patch(&job.at_target(), Patch::Json, patch))
        })?;
    }
    Ok(())
}

/// Whether the marks of the target were made here. One without a source may be followed by an instance with
/// another selector.
fn is_ours(job: &Job<'_>, view: &View) -> bool {
    let settings = &job.context.settings;
    let selected = view.source.is_some() || settings.selector.is_empty();
    selected && view.relation(&job.route.rules(job.kinds, settings)) != Relation::Foreign
}

fn write<R>(
    job: &Job<'_>,
    side: &str,
    known: &Known<R>,
    patch: Vec<Value>,
    send: impl FnOnce(&Value) -> Result<Value>,
) -> Result<()> {
    if patch.is_empty() {
        return Ok(());
    }
    if job.context.settings.dry_run {
        log::info!("{job}: would clean the {side}");
        return Ok(());
    }
    let mut guarded = patch::guarded(known);
    guarded.extend(patch);
    match send(&guarded.into()) {
        // A source that was only waiting for our finalizer.
        Ok(_) | Err(Error::NotFound(_)) => {
            log::info!("{job}: the {side} is clean");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Removes those of `names` that are there.
fn annotations(object: &Value, names: &[&String]) -> Vec<Value> {
    let here = object["metadata"]["annotations"].as_object();
    let here = names.iter().filter(|name| here.is_some_and(|here| here.contains_key(**name)));
    here.map(|name| {
        let path = patch::pointer(&["metadata", "annotations", name]);
        json!({"op": "remove", "path": path})
    })
    .collect()
}

fn of_source(keys: &Keys) -> [&String; 3] {
    [&keys.remote_generation, &keys.local_generation, &keys.local_uid]
}

fn of_target(keys: &Keys) -> [&String; 3] {
    [&keys.source, &keys.managed_keys, &keys.orphaned]
}
