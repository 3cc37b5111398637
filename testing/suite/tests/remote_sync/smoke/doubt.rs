//! Nothing is deleted when in doubt: a source that cannot be read, or an object that was never ours.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually,
    faults::{answer, code},
    needs::{Need, needs},
    relay::Way,
    stays,
    sync::{Place, Setting, Stage, WIDGETS, definitions, ensure},
};

use crate::support::{is_in_sync, of_program, one};

/// Checks that nothing is written or gone, and that the copy follows again once `heal` was called.
#[track_caller]
pub(crate) fn outlives(stage: &Stage, source: &Place, target: &Place, heal: impl FnOnce()) {
    let (uid, number) = (target.uid(), target.number().expect("a number") + 1);
    stage.stays_quiet();
    heal();
    source.set_number(number);
    target.wait_for_number(number);
    is_in_sync(source, target);
    assert_eq!(target.uid(), uid);
}

#[test]
fn a_hub_that_is_away_deletes_nothing() {
    let (stage, mut sidecar, source, target) = one("away", &[]);
    for (way, starts) in [(Way::Closed, false), (Way::Silent, false), (Way::Closed, true)] {
        stage.remote().relay.set(way);
        if starts {
            sidecar.kill();
            sidecar = stage.start(&[]);
        }
        outlives(&stage, &source, &target, || stage.remote().relay.set(Way::Open));
    }
}

/// The hub is who it was, and answers all else as ever: the list alone is one of nothing.
#[test]
fn a_list_that_is_empty_by_mistake_deletes_nothing() {
    if !needs(Need::Embedded, "a list can be wrong") {
        return;
    }
    let (stage, mut sidecar, source, target) = one("empty", &[]);
    let hub = stage.remote().cluster.faults();
    let empty = r#"{"kind": "WidgetList", "apiVersion": "sync.example.com/v1", "metadata": {"resourceVersion": "1"}, "items": []}"#;
    let ours = |verb, action| of_program(stage.remote(), action).verb(verb).resource("widgets");
    for start in [false, true] {
        let rule = hub.add(ours("list", answer(200, empty)));
        if start {
            sidecar.kill();
        } else {
            hub.add(ours("watch", code(410)).times(1));
        }
        // It tells nothing of what the list lacks.
        hub.add(ours("watch", Action::WatchSilent));
        if start {
            sidecar = stage.start(&[]);
        } else {
            stage.remote().relay.cut();
        }
        eventually("the list is empty", || hub.hits(rule) > 0);
        outlives(&stage, &source, &target, || {
            hub.clear();
            stage.remote().relay.cut();
        });
    }
}

#[test]
fn a_hub_that_gives_no_rights_deletes_nothing() {
    let (stage, _sidecar, source, target) = one("no-rights", &[]);
    let give_back = stage.take_rights(stage.remote());
    // Watches that run go on; new ones are refused.
    stage.remote().relay.cut();
    outlives(&stage, &source, &target, give_back);
}

// --- what was never ours ---

/// A source that goes without ever having been claimed tells nothing about the object of its name.
#[test]
fn an_object_never_claimed_does_not_go_with_a_source() {
    let stage = Stage::pull("never-claimed", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create(&json!({"metadata": {"finalizers": ["example.com/other"]}, "spec": {"size": 1}}));
    source.delete();
    target.create_number(9);
    let _sidecar = stage.start(&[]);
    stage.writes_no_more_than(0);
    assert_eq!(target.number(), Some(9));
    source.set_finalizers(&[]);
    source.wait_until_gone();
    stays("it is there", || target.number() == Some(9));
}

#[test]
fn an_unserved_kind_deletes_nothing() {
    if !needs(Need::Embedded, "a kind can go without its objects being deleted one by one") {
        return;
    }
    let (stage, _sidecar, source, target) = one("no-kind", &[]);
    let uid = target.uid();
    source.sibling(definitions(), &WIDGETS.flag()).delete_by_force();
    stays("the copy is there", || target.uid() == uid);
    ensure(&stage.remote().cluster);
    source.create_number(6);
    target.wait_for_number(6);
    assert_eq!(target.uid(), uid);
}
