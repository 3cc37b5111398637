//! What is done about a pair, step by step.

mod difference;
mod origin;
mod random;
mod world;

use super::*;
use crate::sync::observed::Settled;
use world::*;

const ALL: Step = Step::Update { content: true, metadata: true };
const CONTENT: Step = Step::Update { content: true, metadata: false };

/// The next step of a pass that only began.
fn first(world: &World) -> Step {
    next(&world.view, &Pass::default(), &world.rules)
}

fn claimed(mut source: Known<Source>) -> Known<Source> {
    source.row.finalizers = Finalizers::Ours(0);
    source
}

fn terminating(mut source: Known<Source>) -> Known<Source> {
    source.row.state.terminating = true;
    source
}

/// A source whose copy has been made from its first generation.
fn published(source: Known<Source>) -> Known<Source> {
    let mut source = claimed(source);
    (source.row.published.remote, source.row.published.local) = (Some(1), Some(1));
    source
}

fn marked(mut target: Known<Target>) -> Known<Target> {
    target.row.copy_of = Some(copy());
    target
}

/// Both sides in step, as sync-controller leaves them.
fn in_step(mode: Mode) -> World {
    let mut world = World::new(mode);
    world.view.source = Some(published(source(state(1, 1, 1))));
    world.view.target = Some(target(state(1, 1, 1)));
    world
}

/// The source is gone, its marked target is there.
fn orphan(policy: OrphanPolicy) -> World {
    let mut world = World::new(Mode::Safe);
    world.view.target = Some(marked(target(state(1, 1, 1))));
    world.rules.orphans = policy;
    world
}

// --- sync-controller's own cases ---

fn t1(mode: Mode) -> World {
    let mut world = World::new(mode);
    world.view.source = Some(source(state(2, 2, 1)));
    world.view.target = Some(target(state(1, 1, 2)));
    world.view.uploads = vec![Some(secret()), Some(secret())];
    world
}

#[test]
fn t1_metadata_spec_status_and_secrets() {
    let upload = [Step::UploadStatus, Step::UploadSecret(0), Step::UploadSecret(1)];
    let all = [&[Step::Claim][..], &upload, &[ALL, Step::Publish]].concat();
    assert_eq!(t1(Mode::Compat).run(), [&all[..1], &all[1..], &[]].map(<[_]>::to_vec)[..2]);
    assert_eq!(t1(Mode::Safe).run(), [all]);
}

#[test]
fn t2_t3_a_pause_on_either_side_stops_everything() {
    for (mode, on_source) in [Mode::Compat, Mode::Safe].into_iter().zip([true, false]) {
        let mut world = t1(mode);
        match on_source {
            true => world.view.source.as_mut().unwrap().row.state.paused = true,
            false => world.view.target.as_mut().unwrap().row.state.paused = true,
        }
        assert_eq!(first(&world), Step::Done(Standing::Paused));
    }
}

#[test]
fn t4_t5_what_is_missing_is_created() {
    for (there, made) in [(true, vec![]), (false, vec![Step::CreateNamespace])] {
        let world = |mode| {
            let mut world = World::new(mode);
            world.view.source = Some(source(state(2, 2, 1)));
            world.view.namespace = world.view.namespace.filter(|_| there);
            world
        };
        let down = [made, vec![Step::Create, Step::Publish]].concat();
        let (claim, status) = (vec![Step::Claim], vec![Step::UploadStatus]);
        let passes = [claim.clone(), down.clone(), status.clone()];
        assert_eq!(world(Mode::Compat).run(), passes);
        let mut safe = world(Mode::Safe);
        assert_eq!(safe.run(), [passes.concat()]);
        let status = safe.view.source.unwrap().row.state.status;
        assert_eq!(status, FRESH, "the source's own is overwritten");
    }
}

#[test]
fn t6_t7_without_a_source_compat_deletes_and_safe_leaves_alone() {
    for (owner, delete) in [(Some("test"), Step::DeleteNamespace), (None, Step::DeleteTarget)] {
        let world = |mode| {
            let mut world = World::new(mode);
            world.view.target = Some(target(state(1, 1, 2)));
            world.view.namespace = Some(namespace(owner));
            world
        };
        assert_eq!(world(Mode::Compat).run(), [[Step::ProveSource, delete]]);
        assert_eq!(first(&world(Mode::Safe)), Step::Done(Standing::Nothing), "a26");
    }
}

#[test]
fn t8_a_source_that_is_deleted_takes_its_target_along() {
    let world = |mode| {
        let mut world = in_step(mode);
        world.view.source = world.view.source.map(terminating);
        world
    };
    let delete = vec![Step::DeleteTarget];
    assert_eq!(world(Mode::Compat).run(), [delete.clone(), vec![Step::Release]]);
    assert_eq!(world(Mode::Safe).run(), [delete, vec![Step::ProveTarget, Step::Release]]);
}

// --- the matrices ---

#[test]
fn only_pauses_of_what_is_there_count_and_a_paused_deletion_is_told() {
    for mode in [Mode::Compat, Mode::Safe] {
        // Paused target, paused source, state of the source, what comes of it.
        let held = Step::Done(Standing::Held(PAUSED_DELETION));
        let paused = Step::Done(Standing::Paused);
        for (on_target, on_source, source, expected) in [
            (true, false, Some(false), paused),
            (true, false, Some(true), held),
            (true, false, None, paused),
            (false, true, Some(false), paused),
            (false, true, Some(true), held),
            (false, false, None, Step::ProveSource),
            (false, false, Some(true), Step::DeleteTarget),
        ] {
            let mut world = in_step(mode);
            let view = &mut world.view;
            view.target = view.target.take().map(marked);
            view.target.as_mut().unwrap().row.state.paused = on_target;
            view.source.as_mut().unwrap().row.state.paused = on_source;
            match source {
                None => view.source = None,
                Some(ends) => view.source.as_mut().unwrap().row.state.terminating = ends,
            }
            assert_eq!(first(&world), expected, "{on_target} {on_source} {source:?}");
        }
    }
}

#[test]
fn a_deletion_goes_by_namespace_target_and_finalizer() {
    const WAITS: Step = Step::Done(Standing::Waiting(NAMESPACE_TERMINATING));
    const TARGET_WAITS: Step = Step::Done(Standing::Waiting(TARGET_TERMINATING));
    for mode in [Mode::Compat, Mode::Safe] {
        let release = if mode == Mode::Safe { Step::ProveTarget } else { Step::Release };
        // The namespace's owner, whether it is going; whether the target is there and going.
        for (owner, going, target, expected) in [
            (Some("test"), false, Some(false), Step::DeleteNamespace),
            (Some("test"), false, Some(true), Step::DeleteNamespace),
            (Some("test"), true, Some(false), WAITS),
            (Some("other"), false, Some(false), Step::DeleteTarget),
            (None, false, Some(false), Step::DeleteTarget),
            (None, false, Some(true), TARGET_WAITS),
            (None, false, None, release),
        ] {
            let mut world = in_step(mode);
            let view = &mut world.view;
            view.source = view.source.take().map(terminating);
            let mut namespace = namespace(owner);
            namespace.row.terminating = going;
            view.namespace = Some(namespace);
            match target {
                None => view.target = None,
                Some(ends) => view.target.as_mut().unwrap().row.state.terminating = ends,
            }
            assert_eq!(first(&world), expected, "{mode:?} {owner:?} {going} {target:?}");
        }
    }
}

#[test]
fn a_living_source_waits_for_what_is_being_deleted() {
    for mode in [Mode::Compat, Mode::Safe] {
        let mut world = in_step(mode);
        let row = &mut world.view.target.as_mut().unwrap().row;
        (row.state.terminating, row.state.status, row.state.content) = (true, 2, 9);
        assert_eq!(first(&world), Step::UploadStatus, "a10");
        world.held = true;
        let waits = Standing::Waiting(TARGET_TERMINATING);
        let expected = (vec![Step::UploadStatus], Some(waits));
        assert_eq!(world.pass(usize::MAX), expected, "and no more");
        world.view.target = None;
        world.view.namespace.as_mut().unwrap().row.terminating = true;
        assert_eq!(first(&world), Step::Done(Standing::Waiting(NAMESPACE_TERMINATING)));
    }
}

#[test]
fn in_safe_mode_a_namespace_goes_only_for_its_own_object() {
    let world = |change: fn(&mut View)| {
        let mut world = in_step(Mode::Safe);
        world.view.source = world.view.source.map(terminating);
        world.view.namespace = Some(namespace(Some("test")));
        change(&mut world.view);
        world
    };
    let owner = |view: &mut View, uid| view.namespace.as_mut().unwrap().row.owner_uid = Some(uid);
    assert_eq!(first(&world(|_| {})), Step::DeleteNamespace, "made by sync-controller");
    assert_eq!(first(&world(|view| view.namespace_shared = true)), Step::DeleteTarget);
    let mut of_another = world(|_| {});
    owner(&mut of_another.view, uid(9));
    assert_eq!(first(&of_another), Step::DeleteTarget);
    let mut empty = world(|view| view.target = None);
    assert_eq!(first(&empty), Step::DeleteNamespace, "as sync-controller leaves it");
    empty.view.source.as_mut().unwrap().row.published.remote = None;
    assert_eq!(first(&empty), Step::ProveTarget, "nobody says that it was made for this one");
    owner(&mut empty.view, uid(1));
    assert_eq!(first(&empty), Step::DeleteNamespace);
}

#[test]
fn in_safe_mode_a_namespace_stays_with_a_target_that_is_not_ours() {
    let mut world = in_step(Mode::Safe);
    let view = &mut world.view;
    view.source = Some(terminating(source(state(1, 1, 1))));
    view.namespace = Some(namespace(Some("test")));
    assert_eq!(first(&world), Step::Done(Standing::Nothing), "never claimed");
    world.view.source = world.view.source.map(claimed);
    assert_eq!(first(&world), Step::Release, "claimed, and never made");
    world.view.source = world.view.source.map(published);
    let foreign = crate::model::object::CopyOf { place: 1, uid: uid(6), ..copy() };
    world.view.target.as_mut().unwrap().row.copy_of = Some(foreign);
    assert_eq!(first(&world), Step::Release, "the copy of another");
    // It was published with a target that is not this one.
    world.view.target.as_mut().unwrap().row.copy_of = None;
    world.view.source.as_mut().unwrap().row.published.uid = Some(uid(8));
    assert_eq!(first(&world), Step::Release);
}

// --- Secrets ---

#[test]
fn a_secret_goes_up_when_it_is_the_target_s_and_changed() {
    for (change, due) in [
        ((|_| {}) as fn(&mut Upload), true),
        (|upload| upload.changed = false, false),
        (|upload| upload.controller = None, false),
        // A5: an object of the same name.
        (|upload| upload.controller = Some(uid(5)), false),
        // D5: to a source that is not there any more.
        (|upload| (upload.changed, upload.to) = (false, Some(uid(9))), true),
        (|upload| (upload.changed, upload.to) = (false, Some(uid(1))), false),
    ] {
        let mut world = in_step(Mode::Safe);
        let mut secret = secret();
        change(&mut secret.row);
        world.view.uploads = vec![None, Some(secret)];
        let expected = if due { vec![vec![Step::UploadSecret(1)]] } else { vec![] };
        assert_eq!(world.run(), expected, "{:?}", world.view.uploads);
    }
    let mut compat = in_step(Mode::Compat);
    let elsewhere = Upload { changed: false, to: Some(uid(9)), ..secret().row };
    compat.view.uploads = vec![Some(known(4, elsewhere))];
    assert_eq!(first(&compat), Step::Done(Standing::InSync), "sync-controller looks at no other");
}

#[test]
fn a4_a_secret_that_is_refused_holds_up_nothing_and_is_tried_once_in_a_pass() {
    for mode in [Mode::Compat, Mode::Safe] {
        let mut world = t1(mode);
        world.view.source = world.view.source.map(claimed);
        world.refused = vec![0];
        let up = [Step::UploadStatus, Step::UploadSecret(0), Step::UploadSecret(1)];
        let expected = [&up[..], &[ALL, Step::Publish]].concat();
        assert_eq!(world.pass(usize::MAX).0, expected);
        let (steps, standing) = world.pass(usize::MAX);
        assert_eq!((steps, standing), (vec![Step::UploadSecret(0)], Some(Standing::InSync)));
    }
}

// --- for those who only want to know ---

#[test]
fn what_is_pretended_is_what_would_be_done() {
    for mode in [Mode::Compat, Mode::Safe] {
        let mut real = t1(mode);
        real.view.source = real.view.source.map(claimed);
        real.view.target = None;
        real.view.namespace = None;
        let (mut view, mut pass, mut steps) = (real.view.clone(), Pass::default(), Vec::new());
        while let step @ (Step::CreateNamespace | Step::Create | Step::Publish) =
            next(&view, &pass, &real.rules)
        {
            steps.push(step);
            assert!(pretend(step, &mut view, &mut pass));
        }
        assert_eq!(steps, real.pass(usize::MAX).0[..3]);
        assert!(!pretend(Step::DeleteTarget, &mut view, &mut pass));
    }
}

#[test]
fn a_source_that_left_the_selection_is_let_go_whoever_has_its_target() {
    let mut world = in_step(Mode::Safe);
    let source = world.view.source.take().map(claimed).unwrap();
    world.rules.selective = true;
    let foreign = crate::model::object::CopyOf { place: 1, uid: uid(6), ..copy() };
    world.view.target.as_mut().unwrap().row.copy_of = Some(foreign);
    assert_eq!(first(&world), Step::Done(Standing::Nothing), "a target of another instance");
    world.view.left = true;
    assert_eq!(first(&world), Step::ProveSource);
    let mut pass = Pass { unselected: Some(source), ..Pass::default() };
    assert_eq!(next(&world.view, &pass, &world.rules), Step::Release);
    pass.unselected.as_mut().unwrap().row.finalizers = Finalizers::None;
    assert_eq!(next(&world.view, &pass, &world.rules), Step::Done(Standing::Nothing));
}
