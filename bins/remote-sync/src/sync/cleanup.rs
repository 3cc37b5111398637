//! `-cleanup`: takes away what this program wrote beside contents, so that it can be removed for good. The
//! objects themselves stay, on both sides.

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
        pair::PairContext,
        patch,
        status::{PairCondition, PairState},
        workqueue::ReconcileResult,
    },
};

/// One pair: our finalizer and annotations go from the source, our marks from the target.
pub(crate) fn run(pair: &PairContext<'_>) -> ReconcileResult {
    match clean(pair) {
        Ok(()) => {
            pair.remote.set_condition(pair.id, None);
            ReconcileResult::Done
        }
        Err(Error::TooLarge(_)) if pair.is_hurried() => ReconcileResult::RequeueAsLarge,
        Err(error) => {
            log::warn!("{pair}: {error}");
            pair.remote.set_condition(
                pair.id,
                Some(PairCondition::new(PairState::Failing, &error.to_string())),
            );
            ReconcileResult::Failed(classify(&error), requested_delay(&error))
        }
    }
}

fn clean(pair: &PairContext<'_>) -> Result<()> {
    let (observed, reader) = (pair.observe(), &pair.context.reader);
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

/// Whether the marks of the target were made here. One without a source may be followed by an instance with
/// another selector.
fn is_ours(pair: &PairContext<'_>, observed: &Observed) -> bool {
    let settings = &pair.context.settings;
    let selected = observed.source.is_some() || settings.selector.is_empty();
    selected && observed.ownership(&pair.remote.rules(pair.kinds, settings)) != Ownership::Foreign
}

fn write<R>(
    pair: &PairContext<'_>,
    side: &str,
    known: &Cached<R>,
    patch: Vec<Value>,
    send: impl FnOnce(&Value) -> Result<Value>,
) -> Result<()> {
    if patch.is_empty() {
        return Ok(());
    }
    if pair.context.settings.dry_run {
        log::info!("{pair}: would clean the {side}");
        return Ok(());
    }
    let mut guarded = patch::guarded(known);
    guarded.extend(patch);
    match send(&guarded.into()) {
        // A source that was only waiting for our finalizer.
        Ok(_) | Err(Error::NotFound(_)) => {
            log::info!("{pair}: the {side} is clean");
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

fn of_source(keys: &AnnotationKeys) -> [&String; 3] {
    [&keys.remote_generation, &keys.local_generation, &keys.local_uid]
}

fn of_target(keys: &AnnotationKeys) -> [&String; 3] {
    [&keys.source, &keys.managed_keys, &keys.orphaned]
}
