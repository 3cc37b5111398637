//! Differences that count, and those that do not.

use super::*;
use crate::sync::observed::SettledDiff;

#[test]
fn generations_that_belong_together_prove_that_contents_did() {
    let world = |published_to: Option<u8>| {
        let mut world = in_step(Mode::Safe);
        world.observed.target.as_mut().unwrap().value.state.content = 9;
        world.observed.source.as_mut().unwrap().value.generations.uid = published_to.map(uid);
        world
    };
    assert_eq!(
        first(&world(Some(2))),
        SyncAction::Done(PairStatus::InSync),
        "a28, after a restart"
    );
    assert_eq!(first(&world(None)), CONTENT, "a target that was made anew begins with 1, too");
    assert_eq!(first(&world(Some(8))), CONTENT);
    let mut edited = world(Some(2));
    edited.observed.target.as_mut().unwrap().value.state.generation = 2;
    assert_eq!(first(&edited), CONTENT, "a12");
    let mut uncounted = world(Some(2));
    for state in [
        &mut uncounted.observed.source.as_mut().unwrap().value.state,
        &mut uncounted.observed.target.as_mut().unwrap().value.state,
    ] {
        state.generation = 0;
    }
    let published = &mut uncounted.observed.source.as_mut().unwrap().value.generations;
    (published.remote, published.local) = (Some(0), Some(0));
    assert_eq!(first(&uncounted), CONTENT, "a kind without generations");
    let mut compat = world(Some(2));
    compat.rules.mode = Mode::Compat;
    assert_eq!(first(&compat), CONTENT);
}

#[test]
fn the_target_s_uid_is_published_anew_where_it_was_and_is_another() {
    let mut world = in_step(Mode::Safe);
    assert_eq!(first(&world), SyncAction::Done(PairStatus::InSync), "never alone");
    world.observed.source.as_mut().unwrap().value.generations.uid = Some(uid(8));
    assert_eq!(world.run(), [[SyncAction::RecordGenerations]]);
    world.observed.source.as_mut().unwrap().value.generations.uid = Some(uid(8));
    world.rules.mode = Mode::Compat;
    assert_eq!(first(&world), SyncAction::Done(PairStatus::InSync), "upstream knows no uid");
}

#[test]
fn what_differs_for_good_is_written_once_until_either_side_changes() {
    for mode in [Mode::Compat, Mode::Safe] {
        let mut world = in_step(mode);
        world.alters = true;
        world.observed.source.as_mut().unwrap().value.state.content = 2;
        assert_eq!(world.run(), [[CONTENT, SyncAction::RecordGenerations]]);
        assert_eq!(world.observed.settled.content, Some((2, 502)));
        let source = &mut world.observed.source.as_mut().unwrap().value.state;
        (source.content, source.generation) = (3, 2);
        assert_eq!(world.run(), [[CONTENT, SyncAction::RecordGenerations]]);
        let target = &mut world.observed.target.as_mut().unwrap().value.state;
        (target.content, target.generation) = (8, 7);
        assert_eq!(world.run(), [[CONTENT, SyncAction::RecordGenerations]]);
    }
}

#[test]
fn what_is_settled_is_about_what_was_written() {
    let mut settled = SettledDiff::default();
    settled.after_update(&state(1, 1, 1), &state(1, 4, 2));
    assert_eq!(settled, SettledDiff { metadata: Some((1, 4)), ..SettledDiff::default() });
    settled.after_upload(&state(1, 1, 3), &state(1, 4, 2));
    assert_eq!((settled.status, settled.metadata), (Some((3, 2)), Some((1, 4))));
    settled.after_update(&state(2, 2, 3), &state(2, 2, 2));
    assert_eq!(settled, SettledDiff { status: Some((3, 2)), ..SettledDiff::default() });
}

#[test]
fn a_kind_without_status_and_one_without_namespaces_lack_those_steps() {
    let mut world = t1(Mode::Safe);
    world.observed.target = world.observed.target.map(marked);
    world.rules.status = false;
    world.observed.uploads.clear();
    assert_eq!(
        world.run(),
        [[SyncAction::AddFinalizer, ALL, SyncAction::RecordGenerations]],
        "a19"
    );
    let mut world = World::new(Mode::Safe);
    world.observed.source = Some(source(state(2, 2, FRESH)));
    (world.observed.namespace, world.rules.namespaced) = (None, false);
    assert_eq!(
        world.run(),
        [[SyncAction::AddFinalizer, SyncAction::Create, SyncAction::RecordGenerations]],
        "a20"
    );
}
