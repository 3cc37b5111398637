//! Operations on pairs by the people and controllers of both clusters, which bypass the program's relays. What a server
//! accepts is recorded in the model.

use std::{sync::Arc, time::Instant};

use apiclient::{
    client::{Patch, Preconditions, Propagation},
    error::Error,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    config::Feature,
    model::{Map, Pair, SECRET, Wanted},
    operations::{End, Note, Operation},
    scene::{Scene, namespace_of, whole},
};
use suite::{
    real,
    sync::{Place, WIDGETS, definitions, secrets},
};

/// Another owner's finalizer.
const HOLD: &str = "example.com/hold";

/// Performs an operation; returns its outcome.
pub fn perform(scene: &mut Scene, index: usize, operation: Operation) -> &'static str {
    let (source, target) = (scene.pairs[index].source.clone(), scene.pairs[index].target.clone());
    let done = match operation {
        Operation::Hold(End::Source, on) => hold(&source, on),
        Operation::Hold(End::Target, on) => hold(&target, on),
        Operation::DeleteNamespace(end) => delete_namespace(scene, index, end),
        Operation::RemoveKind => remove_kind(scene, index),
        Operation::MakeSecret => make_secret(&scene.pairs[index]),
        Operation::LoseSecret if scene.has(Feature::Secrets) => lose_secret(&scene.pairs[index]),
        operation => at_source(scene, index, &source, operation)
            .or_else(|| at_target(scene, index, &target, operation)),
    };
    if done.is_some() { "done" } else { "not possible" }
}

/// Performs an operation by the owners of the specs.
fn at_source(scene: &mut Scene, index: usize, source: &Place, done: Operation) -> Option<Value> {
    match done {
        Operation::Create(number) => create(scene, index, source, number),
        Operation::Edit(number) => wish(scene, index, &source.kind.content(number), |wanted| {
            wanted.number = number;
        }),
        Operation::Label(note) => wish(scene, index, &noted("labels", "key", note), |wanted| {
            put(&mut wanted.labels, "key", note);
        }),
        Operation::Annotate(note) => {
            wish(scene, index, &noted("annotations", "key", note), |wanted| {
                put(&mut wanted.annotations, "key", note);
            })
        }
        Operation::Delete => delete_source(scene, index, source),
        Operation::Force => {
            let deleted = delete_source(scene, index, source);
            strip(scene, index, source).or(deleted)
        }
        Operation::Strip => strip(scene, index, source),
        // On a real server, no object vanishes without a visible deletion.
        Operation::Lose if !real() => lose(&mut scene.pairs[index]),
        Operation::Fill(size) if scene.has(Feature::Large) && takes_anything(source) => {
            let text = size.map(filling);
            wish(scene, index, &json!({"spec": {"filling": text}}), |it| it.filling = size)
        }
        Operation::Extra(extra) if scene.has(Feature::Schemas) && takes_anything(source) => {
            wish(scene, index, &json!({"spec": {"extra": extra}}), |it| it.extra = extra)
        }
        Operation::ForeignStatus(number) if source.kind.status => {
            let (place, patch) = (source.target().status(), source.kind.health(number));
            answer(source.cluster.client.patch(&place, Patch::Merge, &patch))
        }
        _ => None,
    }
}

/// Performs an operation by the owners of the statuses.
fn at_target(scene: &mut Scene, index: usize, target: &Place, done: Operation) -> Option<Value> {
    match done {
        Operation::MakeTarget(number) => make_target(scene, index, target, number),
        Operation::Status(number) if target.kind.status => {
            let (place, patch) = (target.target().status(), target.kind.health(number));
            let written = answer(target.cluster.client.patch(&place, Patch::Merge, &patch));
            written.inspect(|it| scene.pairs[index].copy(it).status = Some(number))
        }
        Operation::OwnLabel(note) => merge(target, &noted("labels", "own", note))
            .inspect(|it| put(&mut scene.pairs[index].copy(it).labels, "own", note)),
        Operation::OwnAnnotation(note) => merge(target, &noted("annotations", "own", note))
            .inspect(|it| put(&mut scene.pairs[index].copy(it).annotations, "own", note)),
        Operation::ForeignContent(number) => merge(target, &target.kind.content(number))
            .inspect(|it| scene.pairs[index].copy(it).number = number),
        Operation::ForeignLabel(number) if has_fixed(index) => merge(target, &fixed(number)),
        Operation::DeleteTarget => delete_target(scene, index, target),
        Operation::Secret { value, anew } => put_secret(scene, target, value, anew),
        _ => None,
    }
}

/// Returns a server's answer; None if it rejected the request.
fn answer(result: Result<Value, Error>) -> Option<Value> {
    match result {
        Ok(object) => Some(object),
        Err(Error::Unreachable(_) | Error::Unauthorized(_) | Error::BadPeer(_)) => {
            panic!("{}", result.expect_err("an error"))
        }
        Err(_) => None,
    }
}

fn merge(place: &Place, patch: &Value) -> Option<Value> {
    answer(place.cluster.client.patch(&place.target(), Patch::Merge, patch))
}

fn delete(place: &Place) -> Option<()> {
    let (client, target) = (&place.cluster.client, place.target());
    client.delete(&target, Propagation::Background, &Preconditions::default()).ok()
}

fn noted(field: &str, prefix: &str, (key, value): Note) -> Value {
    let value = value.map(|value| value.to_string());
    json!({"metadata": {field: {format!("{prefix}-{key}"): value}}})
}

fn put(map: &mut Map, prefix: &str, (key, value): Note) {
    let key = format!("{prefix}-{key}");
    match value {
        Some(value) => drop(map.insert(key, value.to_string())),
        None => drop(map.remove(&key)),
    }
}

/// Returns whether the run controls the kind's schema.
pub fn takes_anything(place: &Place) -> bool {
    place.kind.flag() == WIDGETS.flag()
}

/// Returns a text of this many KiB.
pub fn filling(size: u64) -> String {
    "x".repeat(1024 * size as usize)
}

/// A label of every other source, which its owners never change; other sources may lose all labels.
fn fixed(value: u64) -> Value {
    json!({"metadata": {"labels": {"fixed": value.to_string()}}})
}

fn has_fixed(index: usize) -> bool {
    index.is_multiple_of(2)
}

// --- sources ---

/// Creates the source; also its namespace with the Secret, if that does not exist.
fn create(scene: &mut Scene, index: usize, source: &Place, number: u64) -> Option<Value> {
    if let Some(namespace) = namespace_of(source).filter(|namespace| namespace.stored().is_none()) {
        let at = Instant::now();
        namespace.create(&json!({}));
        // Once the namespace exists again, a missing source looks as if it had been deleted alone.
        let is_in_it = |pair: &&mut Pair| {
            pair.source.namespace == source.namespace
                && Arc::ptr_eq(&pair.source.cluster, &source.cluster)
        };
        for pair in scene.pairs.iter_mut().filter(is_in_it) {
            for (_, until) in &mut pair.kept {
                until.get_or_insert(at);
            }
        }
        make_secret(&scene.pairs[index]);
    }
    let mut object = whole(source, source.kind.content(number));
    let mut labels = Map::new();
    if has_fixed(index) {
        object["metadata"]["labels"] = fixed(0)["metadata"]["labels"].clone();
        labels.insert("fixed".to_owned(), "0".to_owned());
    }
    let created = answer(source.cluster.client.create(&source.target().siblings(), &object))?;
    scene.pairs[index].begin(Wanted { number, labels, ..Wanted::default() });
    Some(created)
}

/// Changes the source, and what its owners want.
fn wish(
    scene: &mut Scene,
    index: usize,
    patch: &Value,
    change: impl FnOnce(&mut Wanted),
) -> Option<Value> {
    let pair = &mut scene.pairs[index];
    let changed = merge(&pair.source, patch)?;
    pair.wanted.as_mut().map(change);
    Some(changed)
}

/// Deletes the kind from the source's cluster, like `kubectl delete crd`.
fn remove_kind(scene: &mut Scene, index: usize) -> Option<Value> {
    let source = scene.pairs[index].source.clone();
    if !scene.has(Feature::Kinds) || !takes_anything(&source) {
        return None;
    }
    let definition = Place::new(&source.cluster, definitions(), "", &source.kind.flag());
    let is_of_it = |pair: &Pair| {
        pair.source.kind.flag() == source.kind.flag()
            && Arc::ptr_eq(&pair.source.cluster, &source.cluster)
    };
    let uids: Vec<_> = scene.pairs.iter().map(source_uid).collect();
    let at = Instant::now();
    definition.stored().filter(|it| it["metadata"]["deletionTimestamp"].is_null())?;
    delete(&definition)?;
    for (pair, uid) in scene.pairs.iter_mut().zip(&uids).filter(|(pair, _)| is_of_it(pair)) {
        pair.end(at, uid);
        pair.kept.push((at, None));
    }
    // The program retries a missing kind after up to half a minute.
    scene.refuses = true;
    Some(Value::Null)
}

fn source_uid(pair: &Pair) -> String {
    text(&pair.source.stored().unwrap_or_default()["metadata"]["uid"])
}

fn delete_source(scene: &mut Scene, index: usize, source: &Place) -> Option<Value> {
    let (at, before) = (Instant::now(), source.stored()?);
    delete(source)?;
    scene.pairs[index].end(at, &text(&before["metadata"]["uid"]));
    Some(before)
}

pub fn strip(scene: &mut Scene, index: usize, source: &Place) -> Option<Value> {
    let stripped = merge(source, &json!({"metadata": {"finalizers": null}}))?;
    if scene.pairs[index].wanted.is_none() {
        scene.pairs[index].force();
    }
    Some(stripped)
}

/// Removes the source without a visible deletion.
fn lose(pair: &mut Pair) -> Option<Value> {
    let (at, before) = (Instant::now(), pair.source.stored()?);
    pair.wanted.as_ref()?;
    pair.source.delete_by_force();
    pair.lose(at);
    Some(before)
}

/// Creates the empty Secret beside the source, for the upload of the target's Secret.
pub fn make_secret(pair: &Pair) -> Option<Value> {
    pair.source.namespace.as_ref()?;
    let place = pair.source.sibling(secrets(), &pair.secret);
    let object = whole(&place, json!({"type": "Opaque"}));
    answer(place.cluster.client.create(&place.target().siblings(), &object))
}

fn lose_secret(pair: &Pair) -> Option<Value> {
    pair.source.namespace.as_ref()?;
    let place = pair.source.sibling(secrets(), &pair.secret);
    let before = place.stored()?;
    delete(&place)?;
    Some(before)
}

// --- targets ---

/// Creates the target by hand, also its namespace if that does not exist.
fn make_target(scene: &mut Scene, index: usize, target: &Place, number: u64) -> Option<Value> {
    if let Some(namespace) = namespace_of(target).filter(|namespace| namespace.stored().is_none()) {
        let object = whole(&namespace, json!({}));
        let all = namespace.target().siblings();
        let made = answer(namespace.cluster.client.create(&all, &object))?;
        scene.namespaces.insert(namespace.name, text(&made["metadata"]["uid"]));
    }
    let at = Instant::now();
    let wanted = scene.pairs[index].wanted.as_ref().map(|wanted| wanted.number);
    let equal = wanted.filter(|_| number.is_multiple_of(2) && scene.has(Feature::Equal));
    let number = equal.unwrap_or(number);
    let object = whole(target, target.kind.content(number));
    let created = answer(target.cluster.client.create(&target.target().siblings(), &object))?;
    let pair = &mut scene.pairs[index];
    let alone = pair.source.stored().is_none() && !pair.was_forced();
    let copy = pair.copy(&created);
    (copy.made, copy.number, copy.by_hand) = (alone.then_some(at), number, true);
    copy.was_equal = equal.is_some();
    Some(created)
}

fn delete_target(scene: &mut Scene, index: usize, target: &Place) -> Option<Value> {
    let before = target.stored()?;
    delete(target)?;
    scene.pairs[index].copy(&before).deleted = true;
    Some(before)
}

/// Writes a Secret that the target controls; with `anew`, it has no record of an upload.
fn put_secret(scene: &mut Scene, target: &Place, value: u64, anew: bool) -> Option<Value> {
    let owner = target.stored().filter(|_| target.kind.status && target.namespace.is_some())?;
    let place = target.sibling(secrets(), SECRET);
    let data = json!({"data": BASE64_STANDARD.encode(value.to_string())});
    let resource = &target.kind.resource;
    let references = json!([{
        "apiVersion": resource.api_version(), "kind": resource.kind, "name": target.name,
        "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    let metadata = json!({"ownerReferences": references});
    let object = whole(&place, json!({"metadata": metadata, "type": "Opaque", "data": data}));
    let client = &place.cluster.client;
    let written = match place.stored() {
        None => client.create(&place.target().siblings(), &object),
        Some(_) if anew => client.replace(&place.target(), &object),
        Some(_) => client.patch(&place.target(), Patch::Merge, &json!({"data": data})),
    };
    let written = answer(written)?;
    scene.secrets.insert(text(&written["metadata"]["uid"]), value);
    Some(written)
}

// --- both ---

/// Adds or removes another owner's finalizer.
pub fn hold(place: &Place, on: bool) -> Option<Value> {
    loop {
        let mut object = place.stored()?;
        let all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut next: Vec<_> = all.iter().filter(|one| **one != HOLD).cloned().collect();
        if on {
            // Before ours, if any.
            next.insert(0, json!(HOLD));
        }
        if next == all {
            return Some(object);
        }
        object["metadata"]["finalizers"] = json!(next);
        match place.cluster.client.replace(&place.target(), &object) {
            Err(Error::Conflict(_)) => {}
            result => return answer(result),
        }
    }
}

fn delete_namespace(scene: &mut Scene, index: usize, end: End) -> Option<Value> {
    let place = match end {
        End::Source => namespace_of(&scene.pairs[index].source)?,
        End::Target => namespace_of(&scene.pairs[index].target)?,
    };
    let at = Instant::now();
    let uids: Vec<_> = scene.pairs.iter().map(source_uid).collect();
    delete(&place)?;
    for (pair, uid) in scene.pairs.iter_mut().zip(&uids) {
        let (source, target) = (&pair.source.namespace, &pair.target.namespace);
        match end {
            End::Source
                if Arc::ptr_eq(&pair.source.cluster, &place.cluster)
                    && source.as_ref() == Some(&place.name) =>
            {
                pair.end(at, uid);
                pair.kept.push((at, None));
            }
            End::Target if target.as_ref() == Some(&place.name) => {
                pair.copies.values_mut().for_each(|copy| copy.deleted = true);
            }
            _ => {}
        }
    }
    Some(Value::Null)
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
