//! The check, by the servers' requests, that the program wrote and deleted nothing that it must not.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use dev_apiserver::Request;

use super::{
    check::Difference,
    model::{Pair, UNDER_WAY},
    operations::End,
    scene::{GRACE, MOST, SECRET, Scene},
};
use crate::sync::{Place, Side};

/// What the program sent since the last time; each deletion is looked at.
pub fn look_at(scene: &mut Scene) -> usize {
    let mut writes = 0;
    let mut broken = Vec::new();
    for (index, side) in scene.sides().into_iter().enumerate() {
        let (server, user) = (side.cluster.server(), side.user());
        let is_target = scene.is_of_targets(index);
        for request in server.writes().iter().filter(|request| request.user == user) {
            writes += 1;
            if request.verb.starts_with("delete") {
                broken.extend(wrong_deletion(scene, request, is_target));
            }
            if matches!(request.code, 200..300) {
                broken.extend(paused_write(scene, request, side, is_target));
            }
        }
    }
    broken.extend(too_many(scene));
    scene.broken.extend(broken);
    writes
}

/// Forgets what was looked at.
pub fn forget(scene: &Scene) {
    scene.sides().iter().for_each(|side| side.cluster.server().clear_requests());
}

fn wrong_deletion(scene: &Scene, request: &Request, is_target: bool) -> Option<Difference> {
    let Request { resource, namespace, name, at, code, .. } = request;
    let what = format!("it deleted {resource} {namespace}/{name} (answer {code})");
    let body = request.json();
    let Some(uid) = body["preconditions"]["uid"].as_str() else {
        return Some((None, format!("{what} whatever it is")));
    };
    if !is_target {
        return Some((None, format!("{what} of the source's cluster")));
    }
    if resource == "namespaces" {
        return wrong_namespace(scene, name, uid, *at)
            .map(|(pair, why)| (pair, what + ", " + &why));
    }
    let mut pairs = scene.pairs.iter().enumerate();
    let Some((index, pair)) = pairs.find(|(_, pair)| is_of(request, &pair.target)) else {
        return Some((None, format!("{what}, which is no target")));
    };
    let why = if !pair.may_lose_target(*at) {
        "whose source is there"
    } else if is_in_grace(scene, pair, *at) {
        "whose source is not gone for long"
    } else if pair.copies.get(uid).is_some_and(|copy| pair.is_kept(copy, *at)) {
        "which is no copy"
    } else if pair.was_kept(*at) {
        "whose source goes with its kind or namespace"
    } else if *code == 200 && pair.was_paused(uid, *at) {
        "which is paused"
    } else {
        return None;
    };
    Some((Some(index), format!("{what}, {why}")))
}

/// Whether a request is about this object.
fn is_of(request: &Request, place: &Place) -> bool {
    place.kind.resource.plural == request.resource
        && place.name == name_of(request)
        && place.namespace.as_deref().unwrap_or_default() == request.namespace
}

/// The path of what is created names it not.
fn name_of(request: &Request) -> String {
    match request.verb.as_str() {
        "create" => request.json()["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        _ => request.name.clone(),
    }
}

fn wrong_namespace(scene: &Scene, name: &str, uid: &str, at: Instant) -> Option<Difference> {
    if scene.namespaces.get(name).is_some_and(|by_hand| by_hand == uid) {
        return Some((None, "which was made by hand".into()));
    }
    let mut inside = scene.pairs_in(name).peekable();
    if inside.peek().is_none() {
        return Some((None, "which is no target's".into()));
    }
    if scene.stage.setting.compat {
        // Upstream takes it with its owner, whoever else is in it.
        let any = inside.any(|(_, pair)| pair.may_lose_target(at));
        return (!any).then(|| (None, "whose owner is there".into()));
    }
    // It goes only while nothing is in it: the grace is that of the target, which went before.
    inside.find_map(|(index, pair)| {
        let kept = pair.copies.values().any(|copy| pair.is_kept(copy, at));
        let why = match (pair.may_lose_target(at), kept) {
            (false, _) => "where a source's target is",
            (_, true) => "where somebody's own target is",
            _ => return None,
        };
        Some((Some(index), why.into()))
    })
}

/// Whether the target is an orphan since just now; upstream has no grace.
fn is_in_grace(scene: &Scene, pair: &Pair, at: Instant) -> bool {
    !scene.stage.setting.compat && pair.lost_before(at).is_some_and(|lost| at < lost + GRACE)
}

/// More orphans of one remote went at once than may, by one process.
fn too_many(scene: &Scene) -> Vec<Difference> {
    if scene.stage.setting.compat {
        return Vec::new();
    }
    let (most, within) = MOST;
    let mut gone: BTreeMap<_, Vec<Instant>> = BTreeMap::new();
    for request in scene.sides().iter().enumerate().flat_map(|(index, side)| {
        let mut requests = if scene.is_of_targets(index) { deletions(side) } else { Vec::new() };
        requests.retain(|request| request.code == 200);
        requests
    }) {
        let at = request.at;
        let mut pairs = scene.pairs.iter().filter(|pair| is_of(&request, &pair.target));
        if let Some(pair) = pairs.next() {
            gone.entry((pair.remote, request.resource.clone())).or_default().push(at);
        }
    }
    // A process that is killed has counted what its last request does a moment later.
    let at_once = |all: &[Instant]| all[most] - all[0] + UNDER_WAY < within;
    let bad = gone.iter().filter(|(_, gone)| gone.windows(most + 1).any(at_once));
    let name = |remote: usize| &scene.stage.remotes[remote].name;
    bad.map(|((remote, ..), _)| {
        (None, format!("it deleted more than {most} targets of {} at once", name(*remote)))
    })
    .collect()
}

/// What the program deleted, or tried to.
fn deletions(side: &Side) -> Vec<Request> {
    let (mut requests, user) = (side.cluster.server().writes(), side.user());
    requests.retain(|request| request.verb == "delete" && request.user == user);
    requests
}

/// A write that was done although people had stopped all work on the pair.
fn paused_write(
    scene: &Scene,
    request: &Request,
    side: &Side,
    is_target: bool,
) -> Option<Difference> {
    let safe = !scene.stage.setting.compat;
    scene.pairs.iter().enumerate().find_map(|(index, pair)| {
        let (end, place) = match is_target {
            true => (End::Target, &pair.target),
            false => (End::Source, &pair.source),
        };
        let written = match Arc::ptr_eq(&place.cluster, &side.cluster) {
            true if is_of(request, place) => Some(end),
            true if is_beside(scene, request, pair, is_target) => None,
            _ => return None,
        };
        let Request { verb, resource, subresource, namespace, .. } = request;
        let name = name_of(request);
        pair.was_stopped(written, request.at, safe).then(|| {
            let what = format!("{verb} {resource} {subresource} {namespace}/{name}");
            (Some(index), format!("{what}, which is paused"))
        })
    })
}

/// Whether a request is about the namespace or the Secret of a pair that is alone there.
fn is_beside(scene: &Scene, request: &Request, pair: &Pair, at_target: bool) -> bool {
    let Some(target) = pair.target.namespace.as_deref() else { return false };
    let here = if at_target { Some(target) } else { pair.source.namespace.as_deref() };
    let secret = if at_target { SECRET } else { &pair.secret };
    let namespace = match request.resource.as_str() {
        "namespaces" => name_of(request),
        "secrets" if name_of(request) == secret => request.namespace.clone(),
        _ => return false,
    };
    scene.pairs_in(target).count() == 1 && here == Some(&*namespace)
}
