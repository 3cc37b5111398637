//! Random worlds: from each state, the process converges, takes no forbidden action, and continues after a crash as if
//! none had happened.

use std::collections::HashSet;

use fastrand::Rng;

use super::{super::*, ObjectState, world::*};
use crate::model::object::{CopyOf, Finalizers, TargetObject};

/// Fails if the action is forbidden after `before` in the same attempt.
pub(super) fn allowed(world: &World, attempt: &Attempt, action: SyncAction, before: &[SyncAction]) {
    let (observed, rules) = (&world.observed, &world.rules);
    let fail = |why: &str| panic!("{action:?} after {before:?}: {why}\n{world:?}");
    if action.writes() && observed.paused() {
        fail("it is paused");
    }
    let source = observed.source.as_ref().map(|source| &source.value);
    let finalizer_added = source.is_some_and(|source| source.has_finalizer());
    let ending = source.is_some_and(|source| source.state.terminating);
    let relation = observed.ownership();
    let ours = relation == Ownership::Ours;
    match action {
        SyncAction::DeleteTarget if !ours => fail("the target is not ours"),
        SyncAction::DeleteTarget if !ending && attempt.gone != Some(observed.subjects()) => {
            fail("the source was not proven to be gone");
        }
        SyncAction::DeleteTarget => {}
        SyncAction::DeleteNamespace if observed.target.is_some() || !rules.deletes_namespaces => {
            fail("the namespace is not the last target's");
        }
        SyncAction::DeleteNamespace => {}
        SyncAction::Update { .. }
            if !ours && (relation != Ownership::Unmarked || !adoptable(world)) =>
        {
            fail("it is not the source's to take");
        }
        SyncAction::UploadStatus if !ours => fail("the target is not ours"),
        SyncAction::Release if ending => {
            if observed.target.is_some() && ours {
                fail("its target is there");
            }
            if observed.target.is_none() && attempt.gone != Some(observed.subjects()) {
                fail("nobody looked for the target");
            }
        }
        SyncAction::Release if rules.marks_sources => fail("its records are in use"),
        SyncAction::AddFinalizer if ending || before.iter().any(|action| action.writes()) => {
            fail("not the first write to a living source");
        }
        SyncAction::AddFinalizer if !rules.marks_sources => fail("the rules mark no sources"),
        SyncAction::RecordGenerations if !rules.marks_sources => fail("the rules mark no sources"),
        SyncAction::AddFinalizer => {}
        action if action.writes() && !finalizer_added && rules.marks_sources => {
            fail("the source lacks the finalizer");
        }
        action if action.writes() && relation == Ownership::Foreign => fail("a conflict"),
        _ => {}
    }
}

/// Returns whether the rules let the target become the source's copy.
fn adoptable(world: &World) -> bool {
    let (source, target) = (&world.observed.source, &world.observed.target);
    let (source, target) = (source.as_ref().unwrap(), target.as_ref().unwrap());
    let (from, to) = (&source.value.state, &target.value.state);
    from.content == to.content || world.rules.adopts_any && !from.terminating
}

fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())].clone()
}

fn random_state(rng: &mut Rng) -> ObjectState {
    let digest = |rng: &mut Rng| rng.u64(1..3);
    ObjectState {
        generation: rng.u32(0..3),
        terminating: rng.u8(..4) == 0,
        paused: rng.u8(..12) == 0,
        ..state(digest(rng), digest(rng), one(rng, &[1, 2, FRESH]))
    }
}

fn random_source(rng: &mut Rng) -> Cached<SourceObject> {
    let mut source = source(random_state(rng));
    source.uid = one(rng, &[uid(1), uid(1), uid(9)]);
    let value = &mut source.value;
    value.finalizers = one(rng, &[Finalizers::None, Finalizers::Ours(0), Finalizers::Ours(0)]);
    let generation = |rng: &mut Rng| one(rng, &[None, Some(1), Some(2)]);
    (value.generations.remote, value.generations.local) = (generation(rng), generation(rng));
    value.generations.uid = one(rng, &[None, Some(uid(2)), Some(uid(8))]);
    value.copied_from = one(rng, &[None, None, None, Some(hub()), Some(uid(0xa1)), Some(uid(7))]);
    source
}

fn random_target(rng: &mut Rng) -> Cached<TargetObject> {
    let mut target = target(random_state(rng));
    let foreign = CopyOf { cluster: 0xa5, ..copy() };
    let elsewhere = CopyOf { place: 1, uid: uid(6), ..copy() };
    let unidentified = CopyOf { cluster: 0xb0, ..copy() };
    let others = [foreign, elsewhere, unidentified].map(Some);
    let marks = [&[None, Some(copy()), Some(copy())], &others[..]].concat();
    target.value.copy_of = one(rng, &marks);
    target
}

fn maybe<T>(rng: &mut Rng, make: fn(&mut Rng) -> T) -> Option<T> {
    (rng.u8(..4) > 0).then(|| make(rng))
}

fn random_world(rng: &mut Rng) -> World {
    let mut world = World::new();
    world.rules.keeps_orphans = rng.bool();
    world.rules.status = rng.u8(..4) > 0;
    let observed = &mut world.observed;
    observed.source = maybe(rng, random_source);
    observed.target = maybe(rng, random_target);
    let ours = rng.bool();
    let exists = observed.target.is_some() || rng.bool();
    world.namespace = exists.then_some(Namespace { ours, terminating: false });
    let (controllers, secrets) =
        ([None, Some(uid(2)), Some(uid(2)), Some(uid(5))], one(rng, &[0, 3]));
    observed.uploads = (0..secrets).map(|_| one(rng, &controllers)).collect();
    observed.source_cluster = cluster(rng.u8(..3) > 0, rng.u8(..6) == 0);
    if observed.source.is_none() && rng.bool() {
        world.unlisted = Some(random_source(rng));
    }
    if world.observed.target.is_none() && world.namespace.is_some() && rng.u8(..4) == 0 {
        world.unlisted_target = Some(random_target(rng));
    }
    let grace = Err(Reason::GracePeriod(std::time::Duration::from_secs(1)));
    world.verdict = one(rng, &[Ok(()), grace, Err(Reason::TooMany)]);
    world.used = rng.bool();
    world.rules.adopts_any = rng.bool();
    let namespaces = [(true, true), (true, false), (false, false)];
    (world.rules.creates_namespaces, world.rules.deletes_namespaces) = one(rng, &namespaces);
    world.rules.marks_sources = rng.bool();
    (world.alters, world.held) = (rng.u8(..4) == 0, rng.u8(..6) == 0);
    world.refused = (0..3).filter(|_| rng.u8(..6) == 0).collect();
    world
}

/// Only a live read finds a target that is in no list; a server would refuse to create it again.
fn is_hidden(world: &World) -> bool {
    let ends = |source: &Cached<SourceObject>| source.value.state.terminating;
    let source = world.observed.source.as_ref().or(world.unlisted.as_ref());
    world.unlisted_target.is_some() && !source.is_some_and(ends)
}

#[test]
fn from_anywhere_a_pair_comes_to_rest_without_harm() {
    let mut modes = HashSet::new();
    for seed in 0..20_000 {
        let mut world = random_world(&mut Rng::with_seed(seed));
        if is_hidden(&world) {
            continue;
        }
        modes.insert((world.rules, world.observed.uploads.is_empty()));
        world.run();
        let refused = |action: &SyncAction| matches!(action, SyncAction::SyncSecret(index) if world.refused.contains(index));
        let mut rest = world.clone();
        let (steps, _) = rest.attempt(usize::MAX);
        // The limit and a namespace may keep what is looked at; a namespace may be missing.
        let stays = |action: &SyncAction| {
            refused(action)
                || matches!(action, SyncAction::DeleteTarget | SyncAction::DeleteNamespace)
                || *action == SyncAction::Create && rest.lacks_namespace()
        };
        let writes = steps.iter().any(|action| action.writes() && !stays(action));
        assert!(!writes, "seed {seed}: {steps:?} at rest");
    }
    // Of -track, -adopt and -orphan-grace two each, three of namespaces, Secrets or none, and a status or none.
    assert_eq!(modes.len(), 96);
}

#[test]
fn a_crash_after_any_step_changes_nothing_of_the_end() {
    for seed in 0..4_000 {
        let start = random_world(&mut Rng::with_seed(seed));
        if is_hidden(&start) {
            continue;
        }
        let mut whole = start.clone();
        let passes = whole.run();
        for (done, steps) in passes.iter().enumerate() {
            for most in 0..=steps.len() {
                let mut world = start.clone();
                for _ in 0..done {
                    world.attempt(usize::MAX);
                    world.go_on();
                }
                world.attempt(most);
                // A new process only has the clusters' state.
                (world.observed.updated, world.observed.uploaded) = (None, None);
                world.run();
                let crash = format!("seed {seed}, pass {done}, after {most} of {steps:?}");
                assert_eq!(world.end(), whole.end(), "{crash}");
            }
        }
    }
}
