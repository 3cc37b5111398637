//! Deletion on purpose: what is deleted, in which order, and what may prevent it.

use apiclient::error::Error;
use dev_apiserver::Action;
use serde_json::Value;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    stays,
    sync::{WIDGETS, words},
    throughout,
};

use crate::support::{UNSEEN, is_in_sync, of_program, one, one_budget};

#[test]
fn the_copy_goes_first_and_just_this_one() {
    let (stage, _sidecar, source, target) = one("delete", &WIDGETS, &[]);
    stage.create_target_secret("unrelated", "data1", None);
    let (uid, before) = (target.uid(), stage.settled());
    source.delete();
    source.wait_until_gone();
    stage
        .wrote_only_after(before, &["local delete widgets one", "hub patch widgets one-remote-rs"]);
    let body = stage.writes()[before].body.clone();
    if body != Value::Null {
        assert_eq!(body["preconditions"]["uid"], uid);
        assert_eq!(body["propagationPolicy"], "Background");
    }
    assert!(stage.target_secret("unrelated").get().is_some());
    assert!(!stage.target_namespace().is_terminating(), "by default it stays");
}

/// Deleted while no program runs, and both sides changed meanwhile.
#[test]
fn what_was_deleted_meanwhile_goes_at_the_next_start() {
    let (stage, mut sidecar, source, target) = one_budget("meanwhile");
    sidecar.kill();
    source.delete();
    target.set_number(9);
    let _sidecar = stage.start(&[]);
    source.wait_until_gone();
    assert!(target.get().is_none());
}

/// The finalizer goes only when the copy is really gone, not when a cache has not seen it.
#[test]
fn a_source_waits_while_its_copy_is_unreadable() {
    if !needs(Need::Embedded, "a read can be refused") {
        return;
    }
    let (stage, _sidecar, source, target) = one("not-asked", &WIDGETS, &[]);
    let own = stage.own.cluster.faults();
    let rule = own.add(of_program(&stage.own, code(503)).verb("get").resource("widgets"));
    source.delete();
    target.wait_until_gone();
    stays("the source waits", || source.is_claimed());
    own.remove(rule);
    source.wait_until_gone();
}

/// The DELETE is for what was seen, so that what came in between survives.
#[test]
fn a_recreated_copy_is_not_deleted() {
    if !needs(Need::Embedded, "a write can be held") {
        return;
    }
    let (stage, _sidecar, source, target) = one("other-uid", &WIDGETS, &[]);
    let own = stage.own.cluster.faults();
    let delay = Action::Delay { milliseconds: 600 };
    let rule = own.add(of_program(&stage.own, delay).verb("delete").times(1));
    source.delete();
    eventually("the copy is being deleted", || own.hits(rule) > 0);
    target.delete();
    target.create_number(7);
    target.annotate("mine", Some("yes"));
    eventually("the first try is over", || {
        stage
            .writes()
            .iter()
            .find(|one| one.words == "local delete widgets one" && one.code > 0)
            .cloned()
    });
    let first = stage.writes().into_iter().find(|one| one.words.contains("delete")).expect("it");
    assert_eq!(first.code, 409, "its uid is another one by now");
    // It was made by hand since the old one went, so the source has no copy left.
    source.wait_until_gone();
    stays("it is there", || (target.number(), target.is_terminating()) == (Some(7), false));
    let writes = stage.writes();
    let deletions = words(&writes).iter().filter(|it| it.contains(" delete ")).count();
    assert_eq!(deletions, 1, "{:?}", words(&writes));
}

#[test]
fn an_orphan_goes_after_its_grace() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, _sidecar, source, target) = one("grace", &WIDGETS, &["-orphan-grace", "3s"]);
    let before = stage.settled();
    source.delete_by_force();
    throughout(2000, "it is there for its grace", || target.get().is_some());
    target.wait_until_gone();
    stage.wrote_only_after(before, &["local delete widgets one"]);
}

#[test]
fn a_finalizer_of_another_on_the_copy_is_waited_for() {
    let (stage, _sidecar, source, target) = one_budget("foreign");
    target.set_finalizers(&["example.com/other"]);
    let before = stage.settled();
    source.delete();
    stage.wrote_only_after(before, &["local delete poddisruptionbudgets one"]);
    assert!(source.is_claimed() && target.is_terminating());
    target.set_finalizers(&[]);
    source.wait_until_gone();
    let removed = "hub patch poddisruptionbudgets one-remote-rs";
    stage.wrote_only_after(before, &["local delete poddisruptionbudgets one", removed]);
}

/// A copy that somebody deletes, and a source that is deleted and made again: the old copy goes, the new one stays.
#[test]
fn a_copy_and_a_source_that_are_made_again() {
    let (stage, _sidecar, source, target) = one("again", &WIDGETS, &[]);
    source.set_number(2);
    is_in_sync(&source, &target);
    let uid = target.uid();
    target.delete();
    target.wait("a new one", |object| object["metadata"]["uid"] != uid);
    is_in_sync(&source, &target);
    assert_eq!(target.number(), Some(2));
    let old = target.uid();
    source.delete();
    eventually("it is made again", || {
        let mut object = WIDGETS.content(5);
        object["apiVersion"] = "sync.example.com/v1".into();
        object["kind"] = "Widget".into();
        object["metadata"]["name"] = source.name.clone().into();
        match source.cluster.client.create(&source.target().siblings(), &object) {
            Err(Error::AlreadyExists(_)) => None,
            answer => Some(answer.unwrap_or_else(|error| panic!("{error}"))),
        }
    });
    target.wait_for_number(5);
    is_in_sync(&source, &target);
    assert_ne!(target.uid(), old);
    stage.stays_quiet();
}
