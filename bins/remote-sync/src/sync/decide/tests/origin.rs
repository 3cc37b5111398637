//! Whose the target is, and what becomes of one whose source is gone.

use super::*;

#[test]
fn a_target_follows_its_own_source_only() {
    let conflict = Step::Done(Standing::Conflict(OTHERS));
    let update = CONTENT;
    let of = |cluster: u8, place: u64, source: u8| crate::model::object::CopyOf {
        cluster: uid(cluster),
        uid: uid(source),
        place,
        generation: 1,
    };
    for (mark, accepted, expected) in [
        (None, false, update),
        (Some(of(0xa0, PLACE, 1)), false, update),
        // The source was made anew.
        (Some(of(0xa0, PLACE, 9)), false, update),
        // The very same source, in a cluster that was restored elsewhere.
        (Some(of(0xa5, PLACE, 1)), false, update),
        (Some(of(0xa5, PLACE, 9)), false, conflict),
        (Some(of(0xa5, PLACE, 9)), true, update),
        (Some(of(0xa5, 1, 9)), true, conflict),
        (Some(of(0xa0, 1, 9)), false, conflict),
    ] {
        let mut world = in_step(Mode::Safe);
        let row = &mut world.view.target.as_mut().unwrap().row;
        (row.copy_of, row.state.content) = (mark.clone(), 9);
        world.view.accepted = accepted;
        assert_eq!(first(&world), expected, "{mark:?} {accepted}");
        world.rules.mode = Mode::Compat;
        assert_eq!(first(&world), update, "upstream has no marks");
    }
}

#[test]
fn a_copy_does_not_go_back_to_where_it_came_from() {
    for (origin, expected) in [
        (uid(0xa1), Step::Done(Standing::Conflict(LOOP))),
        (hub(), Step::Done(Standing::Conflict(LOOP))),
        // In a chain it goes on.
        (uid(7), Step::Done(Standing::InSync)),
    ] {
        let mut world = in_step(Mode::Safe);
        world.view.source.as_mut().unwrap().row.copied_from = Some(origin);
        assert_eq!(first(&world), expected);
        world.rules.mode = Mode::Compat;
        assert_eq!(first(&world), Step::Done(Standing::InSync));
    }
}

#[test]
fn a_confirmed_orphan_goes_after_proof_and_judgement() {
    let mut world = orphan(OrphanPolicy::Confirm);
    assert_eq!(world.run(), [[Step::ProveSource, Step::Judge, Step::DeleteTarget]]);
    for (verdict, reason) in
        [(Verdict::Grace(std::time::Duration::from_secs(1)), ORPHAN), (Verdict::Tripped, TRIPPED)]
    {
        let mut world = orphan(OrphanPolicy::Confirm);
        world.verdict = verdict;
        let expected = (vec![Step::ProveSource, Step::Judge], Some(Standing::Held(reason)));
        assert_eq!(world.pass(usize::MAX), expected);
    }
    let mut world = orphan(OrphanPolicy::Confirm);
    world.view.namespace = Some(namespace(Some("test")));
    assert_eq!(world.run(), [[Step::ProveSource, Step::Judge, Step::DeleteNamespace]]);
}

#[test]
fn a_source_that_is_there_though_in_no_list_is_no_loss() {
    let mut world = orphan(OrphanPolicy::Confirm);
    world.unlisted = Some(published(source(state(1, 1, 1))));
    let (steps, standing) = world.pass(usize::MAX);
    assert_eq!((steps, standing), (vec![Step::ProveSource], Some(Standing::InSync)));
}

#[test]
fn an_orphan_that_is_kept_is_marked_once() {
    let mut world = orphan(OrphanPolicy::Keep);
    assert_eq!(world.run(), [[Step::ProveSource, Step::MarkOrphan]]);
    assert_eq!(first(&world), Step::Done(Standing::Held(KEPT)));
    world.view.source = Some(published(source(state(1, 1, 1))));
    let mark = Step::Update { content: false, metadata: true };
    assert_eq!(world.run(), [[mark]], "it has a source again");
}

#[test]
fn an_orphan_of_an_unknown_or_another_cluster_stays() {
    for cluster in [None, Some(uid(0xa5))] {
        let mut world = orphan(OrphanPolicy::Confirm);
        world.view.source_cluster = cluster;
        assert_eq!(first(&world), Step::Done(Standing::Nothing));
        world.view.accepted = true;
        assert_eq!(first(&world), Step::Done(Standing::Nothing), "a16: also when it is accepted");
    }
}
