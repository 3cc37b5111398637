//! Differences that count, and those that do not.

use super::*;

#[test]
fn contents_that_a_server_adds_to_are_written_once_in_a_process() {
    let mut world = in_step();
    world.observed.target.as_mut().unwrap().value.state.content = 501;
    world.alters = true;
    assert_eq!(world.attempt(usize::MAX), (vec![CONTENT], Some(None)));
    assert_eq!(first(&world), SyncAction::Done(None));
    let settled = world.clone();
    world.observed.target.as_mut().unwrap().value.state.content = 10;
    assert_eq!(first(&world), CONTENT, "an edit is undone");
    world = settled;
    world.observed.target.as_mut().unwrap().value.state.metadata = 7;
    assert_eq!(first(&world), ALL, "all is written again");
}

#[test]
fn a_generation_that_never_moves_hides_no_edit() {
    for generation in [0, 1] {
        let mut world = in_step();
        let observed = &mut world.observed;
        let (source, target) =
            (observed.source.as_mut().unwrap(), observed.target.as_mut().unwrap());
        (source.value.state.generation, target.value.state.generation) = (generation, generation);
        let published = &mut source.value.generations;
        (published.remote, published.local) = (Some(generation), Some(generation));
        published.uid = Some(uid(2));
        assert_eq!(first(&world), SyncAction::Done(None));
        world.observed.source.as_mut().unwrap().value.state.content = 7;
        assert_eq!(first(&world), CONTENT);
        world.observed.target.as_mut().unwrap().value.state.content = 7;
        assert_eq!(first(&world), SyncAction::Done(None), "nothing to record");
    }
}

#[test]
fn what_a_server_altered_is_written_once_in_an_attempt() {
    let mut world = in_step();
    let source = &mut world.observed.source.as_mut().unwrap().value.state;
    (source.content, source.generation) = (8, 2);
    let altered = Some((source.written(), "why".to_owned()));
    let attempt = Attempt { altered, ..Attempt::default() };
    let next = |world: &World| next_action(&world.observed, &attempt, &world.rules);
    assert_eq!(next(&world), SyncAction::RecordGenerations);
    world.observed.source.as_mut().unwrap().value.state.content = 9;
    assert_eq!(next(&world), CONTENT, "an edit meanwhile");
    assert_eq!(first(&world), CONTENT, "the next attempt");
}

#[test]
fn a_status_that_is_undone_holds_nothing_else_up() {
    let mut world = in_step();
    world.observed.target.as_mut().unwrap().value.state.status = 6;
    world.observed.source.as_mut().unwrap().value.state.content = 8;
    let attempt = Attempt { status_tried: true, ..Attempt::default() };
    assert_eq!(next_action(&world.observed, &attempt, &world.rules), CONTENT);
}

#[test]
fn another_uid_of_the_target_is_published() {
    let mut world = in_step();
    assert_eq!(first(&world), SyncAction::Done(None), "never alone");
    world.observed.source.as_mut().unwrap().value.generations.uid = Some(uid(8));
    assert_eq!(world.run(), [[SyncAction::RecordGenerations]]);
}

#[test]
fn a_lasting_difference_is_written_once_per_change() {
    let mut world = in_step();
    world.alters = true;
    world.observed.source.as_mut().unwrap().value.state.content = 2;
    assert_eq!(world.run(), [[CONTENT, SyncAction::RecordGenerations]]);
    let source = &mut world.observed.source.as_mut().unwrap().value.state;
    (source.content, source.generation) = (3, 2);
    assert_eq!(world.run(), [[CONTENT, SyncAction::RecordGenerations]]);
    let target = &mut world.observed.target.as_mut().unwrap().value.state;
    (target.content, target.generation) = (8, 7);
    assert_eq!(world.run(), [[CONTENT, SyncAction::RecordGenerations]]);
}

#[test]
fn kinds_without_status_or_namespace_lack_those_steps() {
    let mut world = unequal();
    world.observed.target = world.observed.target.map(marked);
    world.rules.status = false;
    world.observed.uploads.clear();
    assert_eq!(
        world.run(),
        [[SyncAction::AddFinalizer, ALL, SyncAction::RecordGenerations]],
        "no status"
    );
    let mut world = World::new();
    world.observed.source = Some(source(state(2, 2, FRESH)));
    world.rules.creates_namespaces = false;
    assert_eq!(
        world.run(),
        [[SyncAction::AddFinalizer, SyncAction::Create, SyncAction::RecordGenerations]],
        "no namespace"
    );
}
