//! Ownership of targets, and orphans.

use super::*;
use crate::model::digest;

/// A target with this mark, whose content differs.
fn marked(mark: Option<CopyOf>, accepted: bool) -> World {
    let mut world = in_step();
    (world.target().copy_of, world.target().state.content) = (mark, 9);
    world.observed.source_cluster = cluster(true, accepted);
    world
}

#[test]
fn a_target_follows_its_own_source_only() {
    let conflict = SyncAction::Done(Some(Reason::OtherSource));
    let unproven = SyncAction::Done(Some(Reason::Unidentified));
    let of = |cluster: u64, place: u64, source: u8| CopyOf { cluster, uid: uid(source), place };
    for (mark, accepted, expected) in [
        (None, false, SyncAction::Done(Some(Reason::NotOurs))),
        (Some(of(0xa0, PLACE, 1)), false, CONTENT),
        // The source was recreated.
        (Some(of(0xa0, PLACE, 9)), false, CONTENT),
        // Another cluster's object with the same uid.
        (Some(of(0xa5, PLACE, 1)), false, conflict),
        (Some(of(0xa5, PLACE, 1)), true, CONTENT),
        (Some(of(0xa5, PLACE, 9)), false, conflict),
        // An earlier version's mark requires the same uid of the source.
        (Some(of(0xb1, PLACE, 1)), false, CONTENT),
        (Some(of(0xb1, 1, 1)), false, CONTENT),
        (Some(of(0xb1, PLACE, 9)), false, unproven),
        (Some(of(0xb1, 1, 9)), false, conflict),
        (Some(of(0xa5, PLACE, 9)), true, CONTENT),
        (Some(of(0xa5, 1, 9)), true, conflict),
        // The place is another instance's.
        (Some(of(0xa0, 1, 1)), false, CONTENT),
        (Some(of(0xa0, 1, 9)), false, conflict),
    ] {
        assert_eq!(first(&marked(mark.clone(), accepted)), expected, "{mark:?} {accepted}");
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
        world.source().copied_from = Some(origin);
        assert_eq!(first(&world), expected);
    }
}

#[test]
fn nobodys_copy_is_marked_or_left_alone() {
    let conflict = SyncAction::Done(Some(Reason::NotOurs));
    let world = |content, policy, claims: bool| {
        let mut world = left_by_upstream();
        world.source().state.content = content;
        world.rules.adopts_any = policy;
        if !claims {
            world.observed.source = Some(source(state(content, 1, 1)));
        }
        world
    };
    let claim = SyncAction::AddFinalizer;
    for (content, policy, claims, expected) in [
        (1, false, false, claim),
        (1, false, true, MARK),
        (2, false, false, conflict),
        (2, false, true, conflict),
        (2, true, false, claim),
        (2, true, true, CONTENT),
        // Two objects without content do not count as equal.
        (digest::NOTHING, false, true, conflict),
    ] {
        assert_eq!(first(&world(content, policy, claims)), expected, "{content} {policy:?}");
        let mut ends = world(content, policy, claims);
        ends.source().state.terminating = true;
        let passes = ends.run().concat();
        let adopts = content == 1 && claims;
        assert_eq!(passes.contains(&SyncAction::DeleteTarget), adopts, "{passes:?}");
        let marked = ends.observed.target.is_none_or(|it| it.value.copy_of.is_some());
        assert_eq!(marked, adopts, "{passes:?}");
    }
}

#[test]
fn a_cluster_without_identity_keeps_only_its_very_objects() {
    let world = |mark, uid| {
        let mut world = marked(Some(CopyOf { cluster: mark, uid, ..copy() }), false);
        world.observed.source_cluster = cluster(false, false);
        world
    };
    let unproven = SyncAction::Done(Some(Reason::Unidentified));
    let conflict = SyncAction::Done(Some(Reason::OtherSource));
    assert_eq!(first(&world(0xb0, uid(1))), CONTENT);
    assert_eq!(first(&world(0xb0, uid(9))), unproven);
    assert_eq!(first(&world(0xa0, uid(1))), conflict, "it hides which cluster it is");
    let mut known = world(0xb0, uid(1));
    known.observed.source_cluster = cluster(true, false);
    assert_eq!(first(&known), CONTENT, "it may be read now");
    for mut orphan in [world(0xb0, uid(1)), known] {
        orphan.observed.source = None;
        assert_eq!(first(&orphan), unproven, "each orphan is said");
    }
}

/// Such a mark proves nothing once the source is gone: it is of an unidentified or since rebuilt cluster, or of another
/// instance that had the source before.
#[test]
fn a_mark_is_brought_up_to_date_while_the_source_proves_it() {
    let ours = copy();
    let of = |cluster, place| CopyOf { cluster, place, ..copy() };
    for (mark, accepted) in [
        (of(0xb0, PLACE), false),
        (of(0xb1, PLACE), false),
        (of(0xa5, PLACE), true),
        (of(0xa0, 1), false),
    ] {
        let mut world = marked(Some(mark.clone()), accepted);
        world.target().state.content = 1;
        assert_eq!(world.run(), [[MARK]], "{mark:?}");
        assert_eq!(world.target().copy_of.as_ref(), Some(&ours));
    }
    let mut unknown = in_step();
    unknown.observed.source_cluster = cluster(false, false);
    unknown.target().copy_of = Some(of(0xb0, PLACE));
    assert_eq!(first(&unknown), SyncAction::Done(None), "its cluster is still unknown");
}

#[test]
fn an_orphan_that_is_kept_stays_unchanged() {
    let mut world = orphan();
    world.rules.keeps_orphans = true;
    let kept = Some(Reason::OrphanKept);
    assert_eq!(world.attempt(usize::MAX), (vec![SyncAction::ConfirmGone], Some(kept)));
    world.observed.source = in_step().observed.source;
    assert_eq!(first(&world), SyncAction::Done(None), "it has a source again");
}

#[test]
fn an_orphan_of_an_unknown_or_another_cluster_stays() {
    let nothing = SyncAction::Done(None);
    let mut world = orphan();
    world.observed.source_cluster = cluster(false, false);
    assert_eq!(first(&world), nothing);
    let mut world = orphan();
    world.target().copy_of = Some(CopyOf { cluster: 0xa5, ..copy() });
    for accepted in [false, true] {
        world.observed.source_cluster = cluster(true, accepted);
        assert_eq!(first(&world), nothing, "also when it is accepted");
    }
}
