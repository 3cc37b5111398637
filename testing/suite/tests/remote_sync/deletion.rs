//! Deletion on purpose: what is deleted, in which order, and what may prevent it.

use dev_apiserver::Action;
use serde_json::Value;
use shared::error::Error;
use suite::{
    eventually,
    needs::{Need, needs},
    stays,
    sync::{BUDGETS, Setting, Stage, WIDGETS, words},
};

use crate::support::{is_in_sync, of_program, one, one_budget};

const OTHER: &str = "example.com/other";

#[test]
fn the_copy_goes_first_and_just_this_one() {
    let (stage, _sidecar, source, target) = one("delete", &WIDGETS, &[]);
    stage.create_target_secret("unrelated", "data1", None);
    stage.disown_namespace();
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
}

#[test]
fn a_finalizer_of_another_on_the_copy_is_waited_for() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("foreign", compat);
        stage.disown_namespace();
        target.set_finalizers(&[OTHER]);
        let before = stage.settled();
        source.delete();
        stage.wrote_only_after(before, &["local delete poddisruptionbudgets one"]);
        assert!(source.is_claimed() && target.is_terminating());
        target.set_finalizers(&[]);
        source.wait_until_gone();
        let removed = "hub patch poddisruptionbudgets one-remote-rs";
        stage.wrote_only_after(before, &["local delete poddisruptionbudgets one", removed]);
    }
}

/// Deleted while no program runs, and both sides changed meanwhile.
#[test]
fn what_was_deleted_meanwhile_goes_at_the_next_start() {
    for compat in [true, false] {
        let (stage, mut sidecar, source, target) = one_budget("meanwhile", compat);
        sidecar.kill();
        source.delete();
        target.set_number(9);
        let _sidecar = stage.start(&[]);
        source.wait_until_gone();
        assert!(target.get().is_none());
    }
}

#[test]
fn a_copy_that_is_gone_already_frees_its_source() {
    let (stage, mut sidecar, source, target) = one("gone-already", &WIDGETS, &[]);
    sidecar.kill();
    source.delete();
    target.delete();
    target.wait_until_gone();
    stage.disown_namespace();
    let before = stage.settled();
    let _sidecar = stage.start(&[]);
    source.wait_until_gone();
    stage.wrote_only_after(before, &["hub patch widgets one-remote-rs"]);
}

/// The finalizer goes only when the copy is really gone, not when a cache has not seen it.
#[test]
fn the_source_is_not_freed_while_its_copy_cannot_be_asked_for() {
    if !needs(Need::Embedded, "a read can be refused") {
        return;
    }
    let (stage, _sidecar, source, target) = one("not-asked", &WIDGETS, &[]);
    let busy = Action::Answer { code: 503, body: None, retry_after: None };
    let own = stage.own.cluster.faults();
    stage.disown_namespace();
    let rule = own.add(of_program(&stage.own, busy).verb("get").resource("widgets"));
    source.delete();
    target.wait_until_gone();
    stays("the source waits", || source.is_claimed());
    own.remove(rule);
    source.wait_until_gone();
}

/// Deleted and made again at once: the copy of the old one goes, that of the new one stays.
#[test]
fn a_source_that_is_deleted_and_made_again() {
    let (stage, _sidecar, source, target) = one("again", &WIDGETS, &[]);
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

#[test]
fn gap24_an_old_copy_that_still_goes_is_not_the_new_ones() {
    for compat in [true, false] {
        let setting = Setting { compat, ..Setting::safe(&[&BUDGETS]) };
        let stage = Stage::pull("gap24", setting);
        stage.create_target_namespace(&serde_json::json!({}));
        let (source, target) = stage.pair(&BUDGETS, "one");
        source.create_number(1);
        let _sidecar = stage.start(&[]);
        is_in_sync(&source, &target);
        let old = target.uid();
        target.set_finalizers(&[OTHER]);
        // The program has seen it, or its DELETE would be refused once.
        stage.settled();
        source.delete();
        eventually("the copy is going", || target.is_terminating().then_some(()));
        source.delete_by_force();
        source.create_number(2);
        source.wait("a claim", |_| source.is_claimed());
        assert!(target.is_terminating());
        target.set_finalizers(&[]);
        let new = target.wait("a new one", |object| object["metadata"]["uid"] != old);
        is_in_sync(&source, &target);
        stage.settled();
        stays("the new one is there", || target.uid() == new["metadata"]["uid"]);
        let writes = stage.writes();
        let deletions = words(&writes).iter().filter(|it| it.contains(" delete ")).count();
        assert_eq!(deletions, 1, "{:?}", words(&writes));
    }
}

/// The DELETE is for what was seen, so that what came in between survives.
#[test]
fn a_copy_that_is_another_one_by_now_is_not_deleted_for_the_old_one() {
    if !needs(Need::Embedded, "a write can be held") {
        return;
    }
    let (stage, _sidecar, source, target) = one("other-uid", &WIDGETS, &[]);
    stage.disown_namespace();
    let own = stage.own.cluster.faults();
    let delay = Action::Delay { milliseconds: 600 };
    let rule = own.add(of_program(&stage.own, delay).verb("delete").times(1));
    source.delete();
    eventually("the copy is being deleted", || (own.hits(rule) > 0).then_some(()));
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
