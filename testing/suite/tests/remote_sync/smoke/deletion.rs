//! Intended deletions: what is deleted, in which order, and what prevents it.

use dev_apiserver::Action;
use serde_json::Value;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    stays,
    sync::{Wrote, words},
    throughout,
};

use crate::support::{UNSEEN, of_program, one};

#[test]
fn the_copy_goes_first_and_just_this_one() {
    let (stage, _sidecar, source, target) = one("delete", &[]);
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
}

/// The finalizer is removed only when the copy is really gone, not when a cache has not seen it.
#[test]
fn a_source_waits_while_its_copy_is_unreadable() {
    if !needs(Need::Embedded, "a read can be refused") {
        return;
    }
    let (stage, _sidecar, source, target) = one("not-asked", &[]);
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
    let (stage, _sidecar, source, target) = one("other-uid", &[]);
    let own = stage.own.cluster.faults();
    let delay = Action::Delay { milliseconds: 600 };
    let rule = own.add(of_program(&stage.own, delay).verb("delete").times(1));
    source.delete();
    eventually("the copy is being deleted", || own.hits(rule) > 0);
    target.delete();
    target.create_number(7);
    target.annotate("mine", Some("yes"));
    let first = eventually("the first try is over", || {
        let answered = |one: &Wrote| one.words == "local delete widgets one" && one.code > 0;
        stage.writes().into_iter().find(answered)
    });
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
    let (stage, _sidecar, source, target) = one("grace", &["-orphan-grace", "3s"]);
    let before = stage.settled();
    source.delete_by_force();
    throughout(2000, "it is there for its grace", || target.get().is_some());
    target.wait_until_gone();
    stage.wrote_only_after(before, &["local delete widgets one"]);
}
