//! What people do so that everything can come to rest: they resolve what waits for people.

use std::{collections::BTreeMap, time::Instant};

use serde_json::json;

use super::{
    model::Pair,
    operations::Operation,
    perform::{hold, make_secret, perform, strip},
    scene::{MOST, Scene, namespace_of},
    start::marked,
};
use suite::sync::{Place, SOURCE, WIDGETS, definitions, install, namespaces};

/// Resolves what waits for people: finalizers, too many deletions or orphans, unproven targets, missing Secrets.
pub fn let_go(scene: &mut Scene) {
    force_many(scene);
    put_back(scene);
    delete_unproven(scene);
    for index in 0..scene.pairs.len() {
        hold(&scene.pairs[index].source, false);
        hold(&scene.pairs[index].target, false);
        make_secret(&scene.pairs[index]);
    }
}

/// Reinstalls the removed kinds; returns whether none is still being deleted.
pub fn bring_kinds_back(scene: &mut Scene) -> bool {
    force_kept(scene);
    let mut all_there = true;
    for index in 0..scene.pairs.len() {
        let cluster = scene.pairs[index].source.cluster.clone();
        let definition = Place::new(&cluster, definitions(), "", &WIDGETS.flag());
        match definition.stored() {
            Some(found) => all_there &= found["metadata"]["deletionTimestamp"].is_null(),
            None => {
                install(&cluster, &WIDGETS);
                scene.refuses = true;
            }
        }
    }
    all_there
}

/// Removes the finalizers of sources that are deleted with their kind or namespace. Then their targets may be deleted.
fn force_kept(scene: &mut Scene) {
    for index in 0..scene.pairs.len() {
        let source = scene.pairs[index].source.clone();
        let is_kept = scene.pairs[index].kept.iter().any(|(_, until)| until.is_none());
        if is_going(&source) && (is_kept || goes_with_more(&source)) {
            strip(scene, index, &source);
            scene.pairs[index].history.push("let go with its kind or namespace".to_owned());
        }
        for (_, until) in &mut scene.pairs[index].kept {
            until.get_or_insert_with(Instant::now);
        }
        // Targets of sources deleted with their namespace stay until it exists again, or their deletion is allowed.
        let namespace = namespace_of(&source).filter(|namespace| namespace.stored().is_none());
        if let Some(namespace) = namespace.filter(|_| scene.pairs[index].target.stored().is_some())
        {
            namespace.create(&json!({}));
        }
    }
}

fn is_going(place: &Place) -> bool {
    place.stored().is_some_and(|it| it["metadata"]["deletionTimestamp"].is_string())
}

/// Returns whether the kind or namespace of a source is also being deleted, whichever began first.
fn goes_with_more(source: &Place) -> bool {
    let definition = Place::new(&source.cluster, definitions(), "", &source.kind.flag());
    let namespace =
        source.namespace.as_ref().map(|name| Place::new(&source.cluster, namespaces(), "", name));
    is_going(&definition) || namespace.is_some_and(|namespace| is_going(&namespace))
}

/// Removes the finalizers where so many sources of a kind are being deleted that all of them wait.
fn force_many(scene: &mut Scene) {
    let mut waiting = BTreeMap::<_, Vec<usize>>::new();
    for (index, pair) in scene.pairs.iter().enumerate() {
        if is_going(&pair.source) && pair.target.stored().is_some() {
            let kind = pair.source.kind.resource.plural.clone();
            waiting.entry((pair.remote, kind)).or_default().push(index);
        }
    }
    for index in waiting.into_values().filter(|all| all.len() > MOST.0).flatten() {
        let source = scene.pairs[index].source.clone();
        strip(scene, index, &source);
        scene.pairs[index].history.push("let go as one of many".to_owned());
    }
}

/// Deletes targets that were marked while the source's cluster was unidentified, and whose source is gone or replaced:
/// nothing proves whose copies they are, so people decide.
fn delete_unproven(scene: &mut Scene) {
    for index in 0..scene.pairs.len() {
        let pair = &scene.pairs[index];
        let target = pair.target.stored().unwrap_or_default();
        let mark = target["metadata"]["annotations"][SOURCE].as_str().unwrap_or_default();
        let [cluster, _, _, uid, ..] = mark.split('/').collect::<Vec<_>>()[..] else { continue };
        let source = pair.source.stored().unwrap_or_default();
        let is_identified = cluster == marked(&scene.stage, pair);
        if !is_identified && source["metadata"]["uid"] != uid {
            perform(scene, index, Operation::DeleteTarget);
            scene.pairs[index].history.push("deleted by people, as of an unknown cluster".into());
        }
    }
}

/// Recreates sources where so many are gone that orphans are no longer deleted.
fn put_back(scene: &mut Scene) {
    for remote in 0..scene.stage.remotes.len() {
        let is_orphan = |pair: &Pair| {
            let target = pair.target.stored().unwrap_or_default();
            let marked = target["metadata"]["annotations"][SOURCE].is_string();
            pair.remote == remote && pair.source.stored().is_none() && marked
        };
        let all = 0..scene.pairs.len();
        let orphans: Vec<_> = all.filter(|index| is_orphan(&scene.pairs[*index])).collect();
        if orphans.len() > MOST.0 {
            for index in orphans {
                perform(scene, index, Operation::Create(1));
                scene.pairs[index].history.push("put back".to_owned());
            }
        }
    }
}
