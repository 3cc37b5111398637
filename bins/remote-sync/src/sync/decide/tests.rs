//! Decisions, action by action.

mod difference;
mod origin;
mod random;
mod world;

use super::*;
use crate::{
    model::object::{ObjectState, TargetObject},
    settings::{AdoptPolicy, Track},
};
use world::*;

const MARK: SyncAction = SyncAction::Update { content: false, metadata: false };
const ALL: SyncAction = SyncAction::Update { content: true, metadata: true };
const CONTENT: SyncAction = SyncAction::Update { content: true, metadata: false };

/// The first action of an attempt.
fn first(world: &World) -> SyncAction {
    next_action(&world.observed, &Attempt::default(), &world.rules)
}

fn finalizer_added(mut source: Cached<SourceObject>) -> Cached<SourceObject> {
    source.value.finalizers = Finalizers::Ours(0);
    source
}

fn terminating(mut source: Cached<SourceObject>) -> Cached<SourceObject> {
    source.value.state.terminating = true;
    source
}

/// A source whose first generation was copied.
fn published(source: Cached<SourceObject>) -> Cached<SourceObject> {
    let mut source = finalizer_added(source);
    (source.value.generations.remote, source.value.generations.local) = (Some(1), Some(1));
    source
}

fn marked(mut target: Cached<TargetObject>) -> Cached<TargetObject> {
    target.value.copy_of = Some(copy());
    target
}

/// Both sides in sync.
fn in_step() -> World {
    let mut world = left_by_upstream();
    world.observed.target = world.observed.target.map(marked);
    world
}

/// Both sides in sync, as sync-controller leaves them.
fn left_by_upstream() -> World {
    let mut world = World::new();
    world.observed.source = Some(published(source(state(1, 1, 1))));
    world.observed.target = Some(target(state(1, 1, 1)));
    world
}

/// The source is gone, its annotated target exists.
fn orphan() -> World {
    let mut world = World::new();
    world.observed.target = Some(marked(target(state(1, 1, 1))));
    world
}

/// They are a label of `remote_sync_writes_total`, which dashboards group by.
#[test]
fn the_words_of_writes_stay_as_they_are() {
    let words = [
        (SyncAction::AddFinalizer, "add_finalizer"),
        (SyncAction::UploadStatus, "update_status"),
        (SyncAction::SyncSecret(0), "upload_secret"),
        (SyncAction::Create, "create_target"),
        (ALL, "update_target"),
        (SyncAction::RecordGenerations, "record_generations"),
        (SyncAction::DeleteNamespace, "delete_namespace"),
        (SyncAction::DeleteTarget, "delete_target"),
        (SyncAction::Release, "remove_finalizer"),
    ];
    assert!(words.iter().all(|(action, words)| action.writes() && action.as_str() == *words));
}

// --- sync-controller's own cases (`controller/controller_test.go:87-424`) ---

fn unequal() -> World {
    let mut world = World::new();
    world.observed.source = Some(source(state(2, 2, 1)));
    world.observed.target = Some(target(state(1, 1, 2)));
    world.observed.uploads = vec![Some(uid(2)); 2];
    world
}

/// T1.
#[test]
fn metadata_spec_status_and_secrets_are_copied() {
    let mut world = unequal();
    let conflict = SyncAction::Done(Some(Reason::NotOurs));
    assert_eq!(first(&world), conflict, "it is nobody's copy");
    world.rules.adopt = AdoptPolicy::Always;
    let whole = [
        SyncAction::AddFinalizer,
        ALL,
        SyncAction::UploadStatus,
        SyncAction::SyncSecret(0),
        SyncAction::SyncSecret(1),
        SyncAction::RecordGenerations,
    ];
    assert_eq!(world.run(), [whole]);
}

/// T2, T3.
#[test]
fn a_pause_on_either_side_stops_everything() {
    for on_source in [true, false] {
        let mut world = unequal();
        match on_source {
            true => world.observed.source.as_mut().unwrap().value.state.paused = true,
            false => world.observed.target.as_mut().unwrap().value.state.paused = true,
        }
        assert_eq!(first(&world), SyncAction::Done(Some(Reason::Paused)));
    }
}

/// T4, T5.
#[test]
fn what_is_missing_is_created() {
    for (missing, made) in [(false, vec![]), (true, vec![SyncAction::Create])] {
        let mut world = World::new();
        world.observed.source = Some(source(state(2, 2, 1)));
        world.namespace = (!missing).then_some(Namespace::default());
        let rest = [SyncAction::Create, SyncAction::UploadStatus, SyncAction::RecordGenerations];
        let claim = vec![SyncAction::AddFinalizer];
        assert_eq!(world.run(), [[claim, made, rest.to_vec()].concat()]);
        let status = world.observed.source.unwrap().value.state.status;
        assert_eq!(status, FRESH, "the source's own is overwritten");
    }
}

#[test]
fn track_target_leaves_a_source_bare() {
    let mut world = World::new();
    world.rules.track = Track::Target;
    world.rules.status = false;
    world.observed.source = Some(source(state(2, 2, 1)));
    assert_eq!(world.run(), [[SyncAction::Create]]);
    world.observed = in_step().observed;
    assert_eq!(world.run(), [[SyncAction::Release]]);
    // An edit first: it must not wait for a right that may be missing.
    world.observed = in_step().observed;
    world.observed.source.as_mut().unwrap().value.state.content = 7;
    assert_eq!(world.run(), [[CONTENT, SyncAction::Release]]);
}

/// T6, T7.
#[test]
fn nobodys_copy_stays_without_a_source() {
    let mut world = World::new();
    world.observed.target = Some(target(state(1, 1, 2)));
    assert_eq!(first(&world), SyncAction::Done(None));
}

/// T8.
#[test]
fn a_deleted_source_takes_its_target_along() {
    let mut world = in_step();
    world.observed.source = world.observed.source.map(terminating);
    let release = [SyncAction::ConfirmGone, SyncAction::DeleteNamespace, SyncAction::Release];
    assert_eq!(world.run(), [vec![SyncAction::DeleteTarget], release.to_vec()]);
}

// --- matrices ---

#[test]
fn only_pauses_of_what_is_there_count() {
    // Paused target, paused source, state of the source, decision.
    let held = SyncAction::Done(Some(Reason::PausedDeletion));
    let paused = SyncAction::Done(Some(Reason::Paused));
    for (on_target, on_source, source, expected) in [
        (true, false, Some(false), paused),
        (true, false, Some(true), held),
        (true, false, None, paused),
        (false, true, Some(false), paused),
        (false, true, Some(true), held),
        (false, false, None, SyncAction::ConfirmGone),
        (false, false, Some(true), SyncAction::DeleteTarget),
    ] {
        let mut world = in_step();
        let observed = &mut world.observed;
        observed.target = observed.target.take().map(marked);
        observed.target.as_mut().unwrap().value.state.paused = on_target;
        observed.source.as_mut().unwrap().value.state.paused = on_source;
        match source {
            None => observed.source = None,
            Some(ends) => observed.source.as_mut().unwrap().value.state.terminating = ends,
        }
        assert_eq!(first(&world), expected, "{on_target} {on_source} {source:?}");
    }
}

#[test]
fn a_deletion_goes_by_the_target() {
    const TARGET_WAITS: SyncAction = SyncAction::Done(Some(Reason::TargetTerminating));
    for (target, expected) in [
        (Some(false), SyncAction::DeleteTarget),
        (Some(true), TARGET_WAITS),
        (None, SyncAction::ConfirmGone),
    ] {
        let mut world = in_step();
        let observed = &mut world.observed;
        observed.source = observed.source.take().map(terminating);
        match target {
            None => observed.target = None,
            Some(ends) => observed.target.as_mut().unwrap().value.state.terminating = ends,
        }
        assert_eq!(first(&world), expected, "{target:?}");
    }
}

#[test]
fn a_living_source_waits_for_what_is_being_deleted() {
    let mut world = in_step();
    let value = &mut world.observed.target.as_mut().unwrap().value;
    (value.state.terminating, value.state.status, value.state.content) = (true, 2, 9);
    assert_eq!(first(&world), SyncAction::UploadStatus);
    world.held = true;
    let waits = Some(Reason::TargetTerminating);
    let expected = (vec![SyncAction::UploadStatus], Some(waits));
    assert_eq!(world.attempt(usize::MAX), expected, "and no more");
    world.observed.target = None;
    world.namespace.as_mut().unwrap().terminating = true;
    let waits = Some(Reason::NamespaceTerminating);
    assert_eq!(world.attempt(usize::MAX), (vec![SyncAction::Create], Some(waits)));
}

#[test]
fn a_namespace_goes_last_if_namespaces_go_at_all() {
    for deletes in [true, false] {
        let mut world = in_step();
        world.rules.deletes_namespaces = deletes;
        world.observed.source = world.observed.source.map(terminating);
        world.observed.target = None;
        let look = deletes.then_some(SyncAction::DeleteNamespace);
        let expected = [SyncAction::ConfirmGone].into_iter().chain(look);
        let expected: Vec<_> = expected.chain([SyncAction::Release]).collect();
        assert_eq!(world.run().concat(), expected);
        let mut left = World::new();
        left.rules.deletes_namespaces = deletes;
        assert_eq!(left.attempt(usize::MAX).0, look.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_target_that_is_not_ours_stays_with_its_namespace() {
    let mut world = left_by_upstream();
    let observed = &mut world.observed;
    observed.source = Some(terminating(source(state(2, 1, 1))));
    assert_eq!(first(&world), SyncAction::Done(None), "the finalizer was never added");
    world.observed.source = world.observed.source.map(finalizer_added);
    assert_eq!(first(&world), SyncAction::Release, "it has the finalizer, and no copy");
    world.observed.source = world.observed.source.map(published);
    let foreign = crate::model::object::CopyOf { place: 1, uid: uid(6), ..copy() };
    world.observed.target.as_mut().unwrap().value.copy_of = Some(foreign);
    assert_eq!(first(&world), SyncAction::Release, "the copy of another");
}

// --- Secrets ---

#[test]
fn a_secret_goes_up_when_the_target_controls_it() {
    let mut world = in_step();
    // `None` if it is uploaded; the third belongs to another object of the target's name.
    world.observed.uploads = vec![None, Some(uid(2)), Some(uid(5)), Some(uid(2))];
    assert_eq!(world.run(), [[SyncAction::SyncSecret(1), SyncAction::SyncSecret(3)]]);
}

#[test]
fn a_refused_secret_is_tried_once_in_a_pass() {
    let mut world = unequal();
    world.observed.source = world.observed.source.map(finalizer_added);
    world.observed.target = world.observed.target.map(marked);
    world.refused = vec![0];
    let up = [SyncAction::UploadStatus, SyncAction::SyncSecret(0), SyncAction::SyncSecret(1)];
    let expected = [&up[..], &[ALL, SyncAction::RecordGenerations]].concat();
    assert_eq!(world.attempt(usize::MAX).0, expected);
    let (steps, status) = world.attempt(usize::MAX);
    assert_eq!((steps, status), (vec![SyncAction::SyncSecret(0)], Some(None)));
}
