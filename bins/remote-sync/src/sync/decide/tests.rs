//! Decisions, action by action. In the tables, each case changes a world whose two sides are in sync.

mod origin;
mod random;
mod world;

use super::*;
use crate::model::object::{CopyOf, Finalizers, Generations, ObjectState};
use world::*;

/// The mark, labels and annotations alone.
const MARK: SyncAction = SyncAction::Update { content: false };
const CONTENT: SyncAction = SyncAction::Update { content: true };

type Change = fn(&mut World);

/// The first action of an attempt.
fn first(world: &World) -> SyncAction {
    next_action(&world.observed, &Attempt::default(), &world.rules)
}

/// Both sides in sync.
fn in_step() -> World {
    let mut world = left_by_upstream();
    world.target().copy_of = Some(copy());
    world
}

/// Both sides in sync, as sync-controller leaves them.
fn left_by_upstream() -> World {
    let mut world = new_source();
    world.observed.target = Some(target(state(1, 1, 1)));
    let source = world.source();
    (source.finalizers, source.state) = (Finalizers::Ours(0), state(1, 1, 1));
    source.generations = Generations { remote: Some(1), local: Some(1), uid: None };
    world
}

fn new_source() -> World {
    let mut world = World::new();
    world.observed.source = Some(source(state(2, 2, 1)));
    world
}

/// The source is gone, its annotated target exists.
fn orphan() -> World {
    let mut world = in_step();
    world.observed.source = None;
    world
}

#[test]
fn the_first_action_follows_from_what_is_observed() {
    let cases: &[(&str, Change, SyncAction)] = &[
        ("in sync", |_| {}, SyncAction::Done(None)),
        ("the source is paused (T2)", |it| it.source().state.paused = true, wait(Reason::Paused)),
        ("the target is paused (T3)", |it| it.target().state.paused = true, wait(Reason::Paused)),
        (
            "a paused target without a source",
            |it| {
                it.target().state.paused = true;
                it.observed.source = None;
            },
            wait(Reason::Paused),
        ),
        (
            "a paused source that is being deleted",
            |it| (it.source().state.paused, it.source().state.terminating) = (true, true),
            wait(Reason::PausedDeletion),
        ),
        (
            "a paused target whose source is being deleted",
            |it| (it.target().state.paused, it.source().state.terminating) = (true, true),
            wait(Reason::PausedDeletion),
        ),
        ("no source", |it| it.observed.source = None, SyncAction::ConfirmGone),
        (
            "the source is being deleted",
            |it| it.source().state.terminating = true,
            SyncAction::DeleteTarget,
        ),
        (
            "so is the target",
            |it| (it.source().state.terminating, it.target().state.terminating) = (true, true),
            wait(Reason::TargetTerminating),
        ),
        (
            "the target went before",
            |it| {
                it.source().state.terminating = true;
                it.observed.target = None;
            },
            SyncAction::ConfirmGone,
        ),
        (
            "a terminating source without our finalizer, an unmarked target",
            |it| {
                (it.source().state.terminating, it.source().finalizers) = (true, Finalizers::None);
                it.target().copy_of = None;
            },
            SyncAction::Done(None),
        ),
        (
            "a source that is being deleted, and the copy of another",
            |it| {
                it.source().state.terminating = true;
                it.target().copy_of = Some(CopyOf { place: 1, uid: uid(6), ..copy() });
            },
            SyncAction::Release,
        ),
        (
            "no source, an unmarked target (T6, T7)",
            |it| {
                it.observed.source = None;
                it.target().copy_of = None;
            },
            SyncAction::Done(None),
        ),
        (
            "a target that is being deleted still has a status",
            |it| {
                let state = &mut it.target().state;
                (state.terminating, state.status, state.content) = (true, 2, 9);
            },
            SyncAction::UploadStatus,
        ),
        ("the contents differ", |it| it.target().state.content = 7, CONTENT),
        ("labels or annotations differ", |it| it.target().state.metadata = 7, MARK),
        (
            "another uid of the target",
            |it| it.source().generations.uid = Some(uid(8)),
            SyncAction::RecordGenerations,
        ),
        (
            "a kind without status",
            |it| {
                it.target().state.status = 9;
                it.rules.status = false;
            },
            SyncAction::Done(None),
        ),
    ];
    for (what, change, expected) in cases {
        let mut world = in_step();
        change(&mut world);
        assert_eq!(first(&world), *expected, "{what}");
    }
}

#[test]
fn an_attempt_repeats_nothing_that_it_tried() {
    let written = |content| ObjectState { content, ..state(1, 1, 1) }.written();
    let altered = Attempt { altered: Some((written(8), "why".into())), ..Attempt::default() };
    let status_tried = Attempt { status_tried: true, ..Attempt::default() };
    let cases: [(&Attempt, Change, SyncAction); 3] = [
        (
            &altered,
            |it| (it.source().state.content, it.source().state.generation) = (8, 2),
            SyncAction::RecordGenerations,
        ),
        // An edit meanwhile.
        (&altered, |it| it.source().state.content = 9, CONTENT),
        (
            &status_tried,
            |it| (it.target().state.status, it.source().state.content) = (6, 8),
            CONTENT,
        ),
    ];
    for (attempt, change, expected) in cases {
        let mut world = in_step();
        change(&mut world);
        assert_eq!(next_action(&world.observed, attempt, &world.rules), expected, "{attempt:?}");
    }
}

#[test]
fn track_target_leaves_a_source_bare() {
    let mut world = new_source();
    (world.rules.marks_sources, world.rules.status) = (false, false);
    assert_eq!(world.run(), [[SyncAction::Create]]);
    world.observed = in_step().observed;
    assert_eq!(world.run(), [[SyncAction::Release]]);
    // An edit comes first: it must not wait for a permission that may be missing.
    world.observed = in_step().observed;
    world.source().state.content = 7;
    assert_eq!(world.run(), [[CONTENT, SyncAction::Release]]);
}

#[test]
fn a_secret_goes_up_when_the_target_controls_it() {
    let mut world = in_step();
    // `None` if it is uploaded; the third belongs to another object of the target's name.
    world.observed.uploads = vec![None, Some(uid(2)), Some(uid(5)), Some(uid(2))];
    assert_eq!(world.run(), [[SyncAction::SyncSecret(1), SyncAction::SyncSecret(3)]]);
}

#[test]
fn a_refused_secret_is_tried_once_in_a_pass() {
    let mut world = in_step();
    (world.source().state.content, world.source().state.generation) = (8, 2);
    world.observed.uploads = vec![Some(uid(2)); 2];
    world.refused = vec![0];
    let secrets = [SyncAction::SyncSecret(0), SyncAction::SyncSecret(1)];
    let expected = [&secrets[..], &[CONTENT, SyncAction::RecordGenerations]].concat();
    assert_eq!(world.attempt(usize::MAX).0, expected);
    let (steps, status) = world.attempt(usize::MAX);
    assert_eq!((steps, status), (vec![SyncAction::SyncSecret(0)], Some(None)));
}

// --- differences ---

/// One write for each change of either side, and one per process.
#[test]
fn contents_that_a_server_alters_are_written_once() {
    let mut world = in_step();
    (world.target().state.content, world.alters) = (501, true);
    assert_eq!(world.attempt(usize::MAX), (vec![CONTENT], Some(None)));
    assert_eq!(first(&world), SyncAction::Done(None));
    let changes: [(Change, SyncAction); 3] = [
        (|it| it.target().state.metadata = 7, CONTENT),
        (|it| (it.source().state.content, it.source().state.generation) = (3, 2), CONTENT),
        (|it| (it.target().state.content, it.target().state.generation) = (10, 7), CONTENT),
    ];
    for (change, write) in changes {
        let mut world = world.clone();
        change(&mut world);
        assert_eq!(first(&world), write);
        world.run();
        assert_eq!(first(&world), SyncAction::Done(None));
    }
}

#[test]
fn a_generation_that_never_moves_hides_no_edit() {
    for generation in [0, 1] {
        let mut world = in_step();
        world.target().state.generation = generation;
        let source = world.source();
        source.state.generation = generation;
        let number = Some(generation);
        source.generations = Generations { remote: number, local: number, uid: Some(uid(2)) };
        assert_eq!(first(&world), SyncAction::Done(None));
        world.source().state.content = 7;
        assert_eq!(first(&world), CONTENT);
        world.target().state.content = 7;
        assert_eq!(first(&world), SyncAction::Done(None), "nothing to record");
    }
}

/// The words are a label of `remote_sync_writes_total`, which dashboards group by.
#[test]
fn the_words_of_writes_stay_as_they_are() {
    let words = [
        (SyncAction::AddFinalizer, "add_finalizer"),
        (SyncAction::UploadStatus, "update_status"),
        (SyncAction::SyncSecret(0), "upload_secret"),
        (SyncAction::Create, "create_target"),
        (CONTENT, "update_target"),
        (SyncAction::RecordGenerations, "record_generations"),
        (SyncAction::DeleteNamespace, "delete_namespace"),
        (SyncAction::DeleteTarget, "delete_target"),
        (SyncAction::Release, "remove_finalizer"),
    ];
    assert!(words.iter().all(|(action, words)| action.writes() && action.as_str() == *words));
}
