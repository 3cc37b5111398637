//! Checks by the servers' requests that the program deleted nothing that it must keep.

use std::{collections::BTreeMap, time::Instant};

use dev_apiserver::Server;

use super::{
    check::Difference,
    model::{Pair, UNDER_WAY},
    scene::{GRACE, MOST, Scene},
};
use suite::sync::{LoggedWrite, Place, Side};

/// Checks the deletions since the last `forget`; returns the number of writes.
pub fn look_at(scene: &mut Scene) -> usize {
    let mut writes = 0;
    let mut broken = Vec::new();
    let mut deletions = Vec::new();
    for (index, side) in scene.sides().into_iter().enumerate() {
        let is_target = scene.is_of_targets(index);
        for write in news(scene, side) {
            writes += 1;
            if write.verb.starts_with("delete") {
                broken.extend(wrong_deletion(scene, &write, is_target));
                deletions.extend((is_target && write.code == 200).then_some(write));
            }
        }
    }
    broken.extend(too_many(scene, &deletions));
    scene.broken.extend(broken);
    writes
}

/// Returns the program's unchecked writes to a cluster.
fn news(scene: &Scene, side: &Side) -> Vec<LoggedWrite> {
    let mut all = side.writes();
    all.retain(|write| !write.is_dry_run && write.at > scene.looked);
    all
}

/// Discards the checked requests.
pub fn forget(scene: &mut Scene) {
    scene.looked = Instant::now();
    let servers = scene.sides().into_iter().filter_map(|side| side.cluster.embedded.as_ref());
    servers.for_each(Server::clear_requests);
}

fn wrong_deletion(scene: &Scene, write: &LoggedWrite, is_target: bool) -> Option<Difference> {
    let LoggedWrite { resource, namespace, name, at, code, .. } = write;
    let what = format!("it deleted {resource} {namespace}/{name} (answer {code})");
    let Some(uid) = write.body["preconditions"]["uid"].as_str() else {
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
    let Some((index, pair)) = pairs.find(|(_, pair)| is_of(write, &pair.target)) else {
        return Some((None, format!("{what}, which is no target")));
    };
    let why = if !pair.may_lose_target(*at) {
        "whose source is there"
    } else if is_in_grace(pair, *at) {
        "whose source is not gone for long"
    } else if pair.copies.get(uid).is_some_and(|copy| pair.is_kept(copy, *at)) {
        "which is no copy"
    } else if pair.was_kept(*at) {
        "whose source goes with its kind or namespace"
    } else {
        return None;
    };
    Some((Some(index), format!("{what}, {why}")))
}

/// Returns whether a write is about this object.
fn is_of(write: &LoggedWrite, place: &Place) -> bool {
    place.kind.resource.plural == write.resource
        && place.name == write.name
        && place.namespace.as_deref().unwrap_or_default() == write.namespace
}

fn wrong_namespace(scene: &Scene, name: &str, uid: &str, at: Instant) -> Option<Difference> {
    if scene.namespaces.get(name).is_some_and(|by_hand| by_hand == uid) {
        return Some((None, "which was made by hand".into()));
    }
    let mut inside = scene.pairs_in(name).peekable();
    if inside.peek().is_none() {
        return Some((None, "which is no target's".into()));
    }
    // A namespace is deleted only while it is empty, so the grace of its deleted target covers it.
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

/// Returns whether the target is an orphan within its grace.
fn is_in_grace(pair: &Pair, at: Instant) -> bool {
    pair.lost_before(at).is_some_and(|lost| at < lost + GRACE)
}

/// Returns remotes of which one process deleted more targets at once than it may.
fn too_many(scene: &Scene, deletions: &[LoggedWrite]) -> Vec<Difference> {
    let (most, within) = MOST;
    let mut gone: BTreeMap<_, Vec<Instant>> = BTreeMap::new();
    for write in deletions {
        let mut pairs = scene.pairs.iter().filter(|pair| is_of(write, &pair.target));
        if let Some(pair) = pairs.next() {
            gone.entry((pair.remote, &write.resource)).or_default().push(write.at);
        }
    }
    // The burst, the limit's refill meanwhile, and the token of a restart.
    let most = 2 * most + 1;
    // A killed process counted its last request, which takes effect a moment later.
    let at_once = |all: &[Instant]| all[most] - all[0] + UNDER_WAY < within;
    let bad = gone.iter().filter(|(_, gone)| gone.windows(most + 1).any(at_once));
    let name = |remote: usize| &scene.stage.remotes[remote].name;
    bad.map(|((remote, ..), _)| {
        (None, format!("it deleted more than {most} targets of {} at once", name(*remote)))
    })
    .collect()
}
