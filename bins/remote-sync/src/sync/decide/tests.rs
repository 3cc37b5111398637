//! Decisions, action by action.

mod difference;
mod origin;
mod random;
mod world;

use super::*;
use crate::{
    model::object::{ObjectState, TargetObject},
    settings::{AdoptPolicy, NamespacePolicy, Track},
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
        (SyncAction::CreateNamespace, "create_namespace"),
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
    let upload = [SyncAction::UploadStatus, SyncAction::SyncSecret(0), SyncAction::SyncSecret(1)];
    let down = [SyncAction::AddFinalizer, ALL, SyncAction::RecordGenerations];
    let mut world = unequal();
    let conflict = SyncAction::Done(PairStatus::NotInSync(Reason::NotOurs));
    assert_eq!(first(&world), conflict, "it is nobody's copy");
    world.rules.adopt = AdoptPolicy::Always;
    assert_eq!(world.run(), [[&down[..], &upload].concat()]);
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
        assert_eq!(first(&world), SyncAction::Done(PairStatus::NotInSync(Reason::Paused)));
    }
}

/// T4, T5.
#[test]
fn what_is_missing_is_created() {
    let made = vec![SyncAction::Create, SyncAction::CreateNamespace];
    for (missing, made) in [(false, vec![]), (true, made)] {
        let mut world = World::new();
        world.observed.source = Some(source(state(2, 2, 1)));
        world.observed.namespace = world.observed.namespace.filter(|_| !missing);
        world.missing = missing;
        let down = [made, vec![SyncAction::Create, SyncAction::RecordGenerations]].concat();
        let (claim, status) = (vec![SyncAction::AddFinalizer], vec![SyncAction::UploadStatus]);
        assert_eq!(world.run(), [[claim, down, status].concat()]);
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
    for created_for in [Some(0xa0), None] {
        let mut world = World::new();
        world.observed.target = Some(target(state(1, 1, 2)));
        world.observed.namespace = Some(namespace(created_for));
        assert_eq!(first(&world), SyncAction::Done(PairStatus::Nothing));
    }
}

/// T8.
#[test]
fn a_deleted_source_takes_its_target_along() {
    let mut world = in_step();
    world.observed.source = world.observed.source.map(terminating);
    let delete = vec![SyncAction::CheckLimit, SyncAction::DeleteTarget];
    assert_eq!(world.run(), [delete, vec![SyncAction::ConfirmTargetGone, SyncAction::Release]]);
}

// --- matrices ---

#[test]
fn only_pauses_of_what_is_there_count() {
    // Paused target, paused source, state of the source, decision.
    let held = SyncAction::Done(PairStatus::NotInSync(Reason::PausedDeletion));
    let paused = SyncAction::Done(PairStatus::NotInSync(Reason::Paused));
    for (on_target, on_source, source, expected) in [
        (true, false, Some(false), paused),
        (true, false, Some(true), held),
        (true, false, None, paused),
        (false, true, Some(false), paused),
        (false, true, Some(true), held),
        (false, false, None, SyncAction::ConfirmSourceGone),
        (false, false, Some(true), SyncAction::CheckLimit),
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
fn a_deletion_goes_by_target_and_finalizer() {
    const TARGET_WAITS: SyncAction =
        SyncAction::Done(PairStatus::NotInSync(Reason::TargetTerminating));
    const LOOK: SyncAction = SyncAction::ConfirmTargetGone;
    // Whom the namespace was created for, and whether it is terminating; whether the target exists, and is terminating.
    for (created_for, going, target, expected) in [
        (Some(0xa0), false, Some(false), SyncAction::CheckLimit),
        (Some(0xa0), false, Some(true), TARGET_WAITS),
        (Some(0xa0), true, Some(false), SyncAction::CheckLimit),
        (None, false, Some(false), SyncAction::CheckLimit),
        (None, false, None, LOOK),
    ] {
        let mut world = in_step();
        let observed = &mut world.observed;
        observed.source = observed.source.take().map(terminating);
        let mut namespace = namespace(created_for);
        namespace.value.terminating = going;
        observed.namespace = Some(namespace);
        match target {
            None => observed.target = None,
            Some(ends) => observed.target.as_mut().unwrap().value.state.terminating = ends,
        }
        assert_eq!(first(&world), expected, "{created_for:?} {going} {target:?}");
    }
}

#[test]
fn a_living_source_waits_for_what_is_being_deleted() {
    let mut world = in_step();
    let value = &mut world.observed.target.as_mut().unwrap().value;
    (value.state.terminating, value.state.status, value.state.content) = (true, 2, 9);
    assert_eq!(first(&world), SyncAction::UploadStatus);
    world.held = true;
    let waits = PairStatus::NotInSync(Reason::TargetTerminating);
    let expected = (vec![SyncAction::UploadStatus], Some(waits));
    assert_eq!(world.attempt(usize::MAX), expected, "and no more");
    world.observed.target = None;
    world.observed.namespace.as_mut().unwrap().value.terminating = true;
    let waits = PairStatus::NotInSync(Reason::NamespaceTerminating);
    assert_eq!(world.attempt(usize::MAX), (vec![SyncAction::Create], Some(waits)));
}

#[test]
fn a_namespace_goes_last_and_only_if_ours_and_unneeded() {
    let whole =
        vec![SyncAction::ConfirmTargetGone, SyncAction::DeleteNamespace, SyncAction::Release];
    let none = vec![SyncAction::ConfirmTargetGone, SyncAction::Release];
    for (change, expected) in [
        ((|_| {}) as fn(&mut World), &whole),
        // The look into it says so.
        (|world| world.used = true, &whole),
        (|world| world.rules.namespaces = NamespacePolicy::Never, &none),
        (|world| world.observed.namespace_shared = true, &none),
        (|world| world.observed.namespace = Some(namespace(Some(0xa5))), &none),
        (|world| world.observed.namespace = Some(namespace(None)), &none),
        (|world| world.observed.source_cluster = None, &none),
    ] {
        let mut world = in_step();
        world.observed.source = world.observed.source.map(terminating);
        (world.observed.target, world.observed.namespace) = (None, Some(namespace(Some(0xa0))));
        change(&mut world);
        let stays = world.used || *expected == none;
        assert_eq!(world.run().concat(), *expected);
        assert_eq!(world.observed.namespace.is_some(), stays);
    }
}

#[test]
fn a_namespace_left_of_a_pair_goes_after_a_look() {
    let mut world = World::new();
    world.observed.namespace = Some(namespace(Some(0xa0)));
    let expected = [SyncAction::ConfirmSourceGone, SyncAction::DeleteNamespace];
    assert_eq!(world.clone().run(), [expected]);
    world.rules.keeps_orphans = true;
    assert_eq!(first(&world), SyncAction::Done(PairStatus::Nothing));
}

#[test]
fn a_target_that_is_not_ours_stays_with_its_namespace() {
    let mut world = left_by_upstream();
    let observed = &mut world.observed;
    observed.source = Some(terminating(source(state(2, 1, 1))));
    observed.namespace = Some(namespace(Some(0xa0)));
    assert_eq!(
        first(&world),
        SyncAction::Done(PairStatus::Nothing),
        "the finalizer was never added"
    );
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
    // None, or another object of the same name; one that is uploaded is none of these.
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
    assert_eq!((steps, status), (vec![SyncAction::SyncSecret(0)], Some(PairStatus::InSync)));
}
