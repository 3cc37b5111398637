//! Namespaces of copies: who owns them, and when they are deleted; a namespace of sources that is deleted.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    needs::{Need, needs},
    pause, stays,
    sync::{CONFIGS, WIDGETS},
};

use crate::{
    smoke::track,
    support::{EMPTY, is_held, is_in_sync, of_program, one},
};

#[test]
fn a_made_namespace_goes_with_the_last_copy_in_it() {
    let (stage, _sidecar, source, _) = one("owned-safe", &[EMPTY]);
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

/// What others put into it is theirs, also where its kind cannot be listed.
#[test]
fn a_namespace_with_something_in_it_stays() {
    for unlisted in [false, true] {
        if unlisted && !needs(Need::Embedded, "a list can be refused") {
            return;
        }
        let (stage, sidecar, source, target) = one("not-empty", &[EMPTY]);
        let theirs = stage.target_secret("theirs");
        theirs.create(&json!({"type": "Opaque"}));
        let uid = theirs.uid();
        if unlisted {
            let refused = of_program(&stage.own, Action::Forbid).verb("list").resource("secrets");
            stage.own.cluster.faults().add(refused);
        }
        source.delete();
        source.wait_until_gone();
        sidecar.wait_for("namespace kept");
        stage.stays_quiet();
        assert!(target.get().is_none());
        assert_eq!(theirs.uid(), uid);
        assert!(!stage.target_namespace().is_terminating());
    }
}

/// Without finalizers the sources of a deleted namespace are gone before anybody asks.
#[test]
fn track_target_keeps_the_copies_of_a_deleted_namespace() {
    let (stage, source, target) = track::one("track-namespace");
    let sidecar = stage.start_served(&track::TARGET);
    target.wait_for_number(1);
    stage.source_namespace().delete();
    source.wait_until_gone();
    is_held(&sidecar, 1.0);
    sidecar.wait_for("the source's Namespace or CustomResourceDefinition is being deleted");
    stage.source_namespace().wait_until_gone();
    stays("the copy is there", || target.get().is_some());
    target.delete();
    target.wait_until_gone();
    is_held(&sidecar, 0.0);
}

#[test]
fn a_namespace_that_is_going_is_waited_for() {
    let (stage, _sidecar, source, target) = one("going", &[EMPTY]);
    let namespace = stage.target_namespace();
    let keeper = target.sibling(&CONFIGS, "keeper");
    keeper.create(&json!({"metadata": {"finalizers": ["example.com/other"]}}));
    namespace.delete();
    target.wait_until_gone();
    pause(1500);
    let writes = stage.writes();
    let tries = writes.iter().filter(|one| one.words.starts_with("local create")).count();
    assert!(tries < 6, "no hot loop: {tries}");
    keeper.set_finalizers(&[]);
    is_in_sync(&source, &target);
}
