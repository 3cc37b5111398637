//! Namespaces of copies: who owns them, and when they are deleted.

use serde_json::json;
use suite::{
    faults::code,
    needs::{Need, needs},
    pause,
    sync::{Place, SETTINGS, SOURCE, Setting, Stage, WIDGETS, words},
};

use crate::support::{EMPTY, is_in_sync, of_program};

/// A widget in sync, in a namespace that was made for it.
fn in_own_namespace(name: &str) -> (Stage, suite::sidecar::Sidecar, Place, Place) {
    let stage = Stage::pull(name, Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "test");
    source.create_number(1);
    let sidecar = stage.start(&[EMPTY]);
    is_in_sync(&source, &target);
    stage.settled();
    (stage, sidecar, source, target)
}

#[test]
fn a_made_namespace_goes_with_the_last_copy_in_it() {
    let (stage, _sidecar, source, _target) = in_own_namespace("owned-safe");
    let namespace = stage.target_namespace();
    let (second, copy) = stage.pair(&WIDGETS, "second");
    second.create_number(2);
    is_in_sync(&second, &copy);
    source.delete();
    source.wait_until_gone();
    assert!(!namespace.is_terminating());
    let before = stage.settled();
    second.delete();
    second.wait_until_gone();
    namespace.wait_until_gone();
    let delete = format!("local delete namespaces {}", namespace.name);
    stage.wrote_only_after(
        before,
        &["local delete widgets second", &delete, "hub patch widgets second-remote-rs"],
    );
}

/// What others put into it is theirs, of whatever kind.
#[test]
fn a_namespace_with_something_in_it_stays() {
    let (stage, sidecar, source, target) = in_own_namespace("not-empty");
    let theirs = stage.target_secret("theirs");
    theirs.create(&json!({"type": "Opaque"}));
    let uid = theirs.uid();
    source.delete();
    source.wait_until_gone();
    sidecar.wait_for("namespace kept");
    stage.stays_quiet();
    assert!(target.get().is_none());
    assert_eq!(theirs.uid(), uid);
    assert!(!stage.target_namespace().is_terminating());
}

/// An empty cache proves nothing: right after a start the other kind may not have been listed yet.
#[test]
fn an_owned_namespace_stays_while_its_content_is_unknown() {
    if !needs(Need::Embedded, "a list can be refused") {
        return;
    }
    let stage = Stage::pull("unlisted", Setting::safe(&[&WIDGETS, &SETTINGS]));
    let (source, target) = stage.pair(&WIDGETS, "owner");
    source.create_number(1);
    let sidecar = stage.start(&[EMPTY]);
    is_in_sync(&source, &target);
    let (other, copy) = stage.pair(&SETTINGS, "other");
    other.create_number(1);
    is_in_sync(&other, &copy);
    drop(sidecar);
    let plural = &SETTINGS.resource.plural;
    for side in stage.sides() {
        side.cluster.faults().add(of_program(side, code(503)).verb("list").resource(plural));
    }
    source.delete();
    let sidecar = stage.start(&[EMPTY]);
    sidecar.wait_for("namespace kept");
    assert!(!stage.target_namespace().is_terminating());
    assert!(copy.get().is_some());
    stage.sides().for_each(|side| side.cluster.faults().heal());
    target.wait_until_gone();
    source.wait_until_gone();
    assert!(!stage.target_namespace().is_terminating());
    assert!(copy.get().is_some());
}

#[test]
fn a_namespace_that_is_going_is_waited_for() {
    let (stage, _sidecar, source, target) = in_own_namespace("going");
    let namespace = stage.target_namespace();
    let keeper = target.sibling(&suite::sync::CONFIGS, "keeper");
    keeper.create(&json!({"metadata": {"finalizers": ["example.com/other"]}}));
    namespace.delete();
    target.wait_until_gone();
    pause(1500);
    let tries = stage.writes().iter().filter(|one| one.words.starts_with("local create")).count();
    assert!(tries < 6, "no hot loop: {:?}", words(&stage.writes()));
    keeper.set_finalizers(&[]);
    is_in_sync(&source, &target);
    assert!(
        namespace
            .annotation(SOURCE)
            .is_some_and(|mark| mark.contains(&format!("/{}/", source.name)))
    );
}
