//! Cleanup (`-cleanup`): removes finalizers and annotations of this instance, so that it can be uninstalled. The
//! objects stay, on both sides.

use std::time::Instant;

use log::Level;
use serde_json::{Value, json};
use shared::{
    client::Patch,
    error::{Error, Result},
};

use crate::{
    cache::retry::{classify, requested_delay},
    model::{
        annotations::AnnotationKeys,
        object::{Cached, Finalizers},
    },
    sync::{
        observed::{Observed, Ownership},
        pair::{PairContext, log_pair},
        patch,
        status::{PairCondition, PairState},
        workqueue::ReconcileResult,
    },
};

/// Cleans one pair: finalizer and annotations of the source, annotations of the target.
pub(crate) fn run(pair: &PairContext<'_>) -> ReconcileResult {
    match clean(pair) {
        Ok(()) => {
            pair.remote.set_condition(pair.id, None);
            ReconcileResult::Done
        }
        Err(Error::TooLarge(_)) if pair.has_no_permit() => ReconcileResult::RequeueAsLarge,
        Err(error) => {
            log_pair!(Level::Warn, pair, "cleanup failed", error = error);
            pair.remote.set_condition(
                pair.id,
                Some(PairCondition::new(PairState::Failing, &error.to_string())),
            );
            ReconcileResult::Failed(classify(&error), requested_delay(&error))
        }
    }
}

fn clean(pair: &PairContext<'_>) -> Result<()> {
    let (observed, reader) = (pair.observe(Instant::now()), &pair.context.reader);
    if let Some(source) = &observed.source {
        let document = pair.source_document(source)?;
        let mut patch = annotations(&document, &of_source(&reader.keys));
        if let Finalizers::Ours(place) = source.value.finalizers {
            patch.extend(patch::without_finalizer(place, &reader.finalizer));
        }
        write(pair, "source", source, patch, |patch| {
            pair.ask_source(|client| client.patch(&pair.at_source(), Patch::Json, patch))
        })?;
    }
    if let Some(target) = observed.target.as_ref().filter(|_| is_ours(pair, &observed)) {
        let document = pair.target_document(target)?;
        let patch = annotations(&document, &of_target(&reader.keys));
        write(pair, "target", target, patch, |patch| {
            pair.ask_target(|client| client.patch(&pair.at_target(), Patch::Json, patch))
        })?;
    }
    Ok(())
}

/// Returns whether this instance annotated the target. One without a source may belong to an instance with another
/// selector.
fn is_ours(pair: &PairContext<'_>, observed: &Observed) -> bool {
    let settings = &pair.context.settings;
    let selected = observed.source.is_some() || settings.selector.is_empty();
    selected && observed.ownership(&pair.rules()) != Ownership::Foreign
}

fn write<R>(
    pair: &PairContext<'_>,
    side: &str,
    cached: &Cached<R>,
    patch: Vec<Value>,
    send: impl FnOnce(&Value) -> Result<Value>,
) -> Result<()> {
    if patch.is_empty() {
        return Ok(());
    }
    let action = format!("clean the {side}");
    if pair.context.settings.dry_run {
        log_pair!(Level::Info, pair, "dry run, nothing written", action = action);
        return Ok(());
    }
    let mut guarded = patch::guarded(cached);
    guarded.extend(patch);
    match send(&guarded.into()) {
        // NotFound: a source that was only waiting for its finalizer.
        Ok(_) | Err(Error::NotFound(_)) => {
            log_pair!(Level::Info, pair, "cleaned", action = action);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// JSON patch operations that remove those of `names` that exist.
fn annotations(object: &Value, names: &[&String]) -> Vec<Value> {
    let here = object["metadata"]["annotations"].as_object();
    let here = names.iter().filter(|name| here.is_some_and(|here| here.contains_key(**name)));
    here.map(|name| {
        let path = patch::pointer(&["metadata", "annotations", name]);
        json!({"op": "remove", "path": path})
    })
    .collect()
}

fn of_source(keys: &AnnotationKeys) -> [&String; 4] {
    [&keys.remote_generation, &keys.local_generation, &keys.local_uid, &keys.content]
}

fn of_target(keys: &AnnotationKeys) -> [&String; 3] {
    [&keys.source, &keys.managed_keys, &keys.orphaned]
}
