//! Ownership of targets, and orphans.

use super::*;
use crate::model::digest;

#[test]
fn a_target_follows_its_own_source_only() {
    let conflict = SyncAction::Done(Some(Reason::OtherSource));
    let unproven = SyncAction::Done(Some(Reason::Unidentified));
    let update = CONTENT;
    let of = |cluster: u64, place: u64, source: u8| crate::model::object::CopyOf {
        cluster,
        uid: uid(source),
        place,
    };
    for (mark, accepted, expected) in [
        (None, false, SyncAction::Done(Some(Reason::NotOurs))),
        (Some(of(0xa0, PLACE, 1)), false, update),
        // The source was recreated.
        (Some(of(0xa0, PLACE, 9)), false, update),
        // Another cluster's object with the same uid.
        (Some(of(0xa5, PLACE, 1)), false, conflict),
        (Some(of(0xa5, PLACE, 1)), true, update),
        (Some(of(0xa5, PLACE, 9)), false, conflict),
        // An earlier version's mark needs the very source.
        (Some(of(0xb1, PLACE, 1)), false, update),
        (Some(of(0xb1, 1, 1)), false, update),
        (Some(of(0xb1, PLACE, 9)), false, unproven),
        (Some(of(0xb1, 1, 9)), false, conflict),
        (Some(of(0xa5, PLACE, 9)), true, update),
        (Some(of(0xa5, 1, 9)), true, conflict),
        // Its label changed: it was another instance's.
        (Some(of(0xa0, 1, 1)), false, update),
        (Some(of(0xa0, 1, 9)), false, conflict),
    ] {
        let mut world = in_step();
        let value = &mut world.observed.target.as_mut().unwrap().value;
        (value.copy_of, value.state.content) = (mark.clone(), 9);
        world.observed.source_marks = marks(true, accepted);
        assert_eq!(first(&world), expected, "{mark:?} {accepted}");
    }
}

#[test]
fn a_copy_does_not_go_back_to_where_it_came_from() {
    for (origin, expected) in [
        (uid(0xa1), SyncAction::Done(Some(Reason::Loop))),
        (hub(), SyncAction::Done(Some(Reason::Loop))),
        // A chain of copies continues.
        (uid(7), SyncAction::Done(None)),
    ] {
        let mut world = in_step();
        world.observed.source.as_mut().unwrap().value.copied_from = Some(origin);
        assert_eq!(first(&world), expected);
    }
}

#[test]
fn nobodys_copy_is_marked_or_left_alone() {
    let conflict = SyncAction::Done(Some(Reason::NotOurs));
    let world = |content, policy, claims: bool| {
        let mut world = left_by_upstream();
        world.observed.source.as_mut().unwrap().value.state.content = content;
        world.rules.adopt = policy;
        if !claims {
            world.observed.source = Some(source(state(content, 1, 1)));
        }
        world
    };
    let claim = SyncAction::AddFinalizer;
    for (content, policy, claims, expected) in [
        (1, AdoptPolicy::Equal, false, claim),
        (1, AdoptPolicy::Equal, true, MARK),
        (2, AdoptPolicy::Equal, false, conflict),
        (2, AdoptPolicy::Equal, true, conflict),
        (2, AdoptPolicy::Always, false, claim),
        (2, AdoptPolicy::Always, true, CONTENT),
        // Two objects without content are not the same for that.
        (digest::NOTHING, AdoptPolicy::Equal, true, conflict),
    ] {
        assert_eq!(first(&world(content, policy, claims)), expected, "{content} {policy:?}");
        let mut ends = world(content, policy, claims);
        ends.observed.source = ends.observed.source.map(terminating);
        let passes = ends.run().concat();
        let adopts = content == 1 && claims;
        assert_eq!(passes.contains(&SyncAction::DeleteTarget), adopts, "{passes:?}");
        let marked = ends.observed.target.is_none_or(|it| it.value.copy_of.is_some());
        assert_eq!(marked, adopts, "{passes:?}");
    }
}

#[test]
fn a_takeover_marks_and_writes_no_content() {
    let mut world = left_by_upstream();
    assert_eq!(world.run(), [[MARK]]);
    let mut edited = left_by_upstream();
    edited.observed.target.as_mut().unwrap().value.state.content = 9;
    let conflict = Some(Some(Reason::NotOurs));
    assert_eq!(edited.attempt(usize::MAX), (vec![], conflict));
}

#[test]
fn a_cluster_without_identity_keeps_only_its_very_objects() {
    let world = |cluster, uid| {
        let mut world = in_step();
        (world.observed.source_cluster, world.observed.source_marks) = (None, marks(false, false));
        let copy = crate::model::object::CopyOf { cluster, uid, ..copy() };
        world.observed.target.as_mut().unwrap().value.copy_of = Some(copy);
        world.observed.target.as_mut().unwrap().value.state.content = 9;
        world
    };
    let unproven = SyncAction::Done(Some(Reason::Unidentified));
    let conflict = SyncAction::Done(Some(Reason::OtherSource));
    assert_eq!(first(&world(0xb0, uid(1))), CONTENT);
    assert_eq!(first(&world(0xb0, uid(9))), unproven);
    assert_eq!(first(&world(0xa0, uid(1))), conflict, "it hides which cluster it is");
    let mut known = world(0xb0, uid(1));
    (known.observed.source_cluster, known.observed.source_marks) =
        (Some(hub()), marks(true, false));
    assert_eq!(first(&known), CONTENT, "it may be read now");
    for mut orphan in [world(0xb0, uid(1)), known] {
        orphan.observed.source = None;
        assert_eq!(first(&orphan), unproven, "each orphan is said");
    }
}

/// Such a mark proves nothing once the source is gone: of a cluster that could not be identified or that was
/// rebuilt since, or of the instance that had the source before its label changed.
#[test]
fn a_mark_is_brought_up_to_date_while_the_source_proves_it() {
    let ours = copy();
    let of = |cluster, place| crate::model::object::CopyOf { cluster, place, ..copy() };
    for (mark, accepted) in [
        (of(0xb0, PLACE), false),
        (of(0xb1, PLACE), false),
        (of(0xa5, PLACE), true),
        (of(0xa0, 1), false),
    ] {
        let mut world = in_step();
        world.observed.target.as_mut().unwrap().value.copy_of = Some(mark.clone());
        world.observed.source_marks = marks(true, accepted);
        assert_eq!(world.run(), [[MARK]], "{mark:?}");
        assert_eq!(world.observed.target.unwrap().value.copy_of.as_ref(), Some(&ours));
    }
    let mut unknown = in_step();
    (unknown.observed.source_cluster, unknown.observed.source_marks) = (None, marks(false, false));
    unknown.observed.target.as_mut().unwrap().value.copy_of = Some(of(0xb0, PLACE));
    assert_eq!(first(&unknown), SyncAction::Done(None), "its cluster is still unknown");
}

#[test]
fn a_confirmed_orphan_goes_after_proof_and_judgement() {
    let passes = [SyncAction::ConfirmGone, SyncAction::DeleteTarget];
    let namespace = vec![SyncAction::DeleteNamespace];
    let mut world = orphan();
    world.namespace = Some(Namespace { ours: true, terminating: false });
    assert_eq!(world.run(), [passes.to_vec(), namespace]);
    let left = std::time::Duration::from_secs(1);
    for reason in [Reason::GracePeriod(left), Reason::TooMany] {
        let mut world = orphan();
        world.verdict = Err(reason);
        let status = Some(reason);
        assert_eq!(world.attempt(usize::MAX), (passes.to_vec(), Some(status)));
    }
}

#[test]
fn an_existing_source_that_no_list_has_is_not_lost() {
    let mut world = orphan();
    world.unlisted = Some(published(source(state(1, 1, 1))));
    let (steps, status) = world.attempt(usize::MAX);
    assert_eq!((steps, status), (vec![SyncAction::ConfirmGone], Some(None)));
}

#[test]
fn a_proof_ends_when_a_source_is_seen() {
    let (mut world, orphan) = (orphan(), orphan().observed);
    let mut attempt = Attempt { gone: Some(orphan.subjects()), ..Attempt::default() };
    let next = |attempt: &Attempt| next_action(&orphan, attempt, &rules());
    assert_eq!(next(&attempt), SyncAction::DeleteTarget);
    world.observed.source = Some(source(state(1, 1, 1)));
    attempt.check_proof(&world.observed);
    assert_eq!(next(&attempt), SyncAction::ConfirmGone, "it may be a list that lacks the source");
}

#[test]
fn an_orphan_that_is_kept_stays_unchanged() {
    let mut world = orphan();
    world.rules.keeps_orphans = true;
    let kept = Some(Reason::OrphanKept);
    assert_eq!(world.attempt(usize::MAX), (vec![SyncAction::ConfirmGone], Some(kept)));
    world.observed.source = Some(published(source(state(1, 1, 1))));
    assert_eq!(first(&world), SyncAction::Done(None), "it has a source again");
}

#[test]
fn an_orphan_of_an_unknown_or_another_cluster_stays() {
    let nothing = SyncAction::Done(None);
    let mut world = orphan();
    (world.observed.source_cluster, world.observed.source_marks) = (None, marks(false, false));
    assert_eq!(first(&world), nothing);
    let mut world = orphan();
    world.observed.target.as_mut().unwrap().value.copy_of.as_mut().unwrap().cluster = 0xa5;
    for accepted in [false, true] {
        world.observed.source_marks = marks(true, accepted);
        assert_eq!(first(&world), nothing, "also when it is accepted");
    }
}
