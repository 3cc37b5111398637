//! Nothing is deleted when in doubt: a source that cannot be read, or an object that was never ours.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    relay::Way,
    stays,
    sync::{OWNER, Place, SOURCE, Setting, Stage, WIDGETS},
    within,
};

use crate::support::{OTHERS, is_in_sync, of_program, one};

/// Checks that nothing is written or gone, and that the copy follows again once `heal` was called.
#[track_caller]
fn outlives(stage: &Stage, source: &Place, target: &Place, heal: impl FnOnce()) {
    let uid = target.uid();
    stage.stays_quiet();
    heal();
    source.set_number(8);
    target.wait_for_number(8);
    is_in_sync(source, target);
    assert_eq!(target.uid(), uid);
}

#[test]
fn gap15_a_hub_that_is_away_deletes_nothing() {
    for way in [Way::Closed, Way::Silent] {
        let (stage, _sidecar, source, target) = one("gap15-away", &WIDGETS, &[]);
        stage.remote().relay.set(way);
        outlives(&stage, &source, &target, || stage.remote().relay.set(Way::Open));
    }
}

#[test]
fn gap15_a_hub_that_is_away_at_the_start_deletes_nothing() {
    let (stage, mut sidecar, source, target) = one("gap15-start", &WIDGETS, &[]);
    sidecar.kill();
    stage.remote().relay.set(Way::Closed);
    let _sidecar = stage.start(&[]);
    outlives(&stage, &source, &target, || stage.remote().relay.set(Way::Open));
}

/// What a balancer says that knows no server, and a server that is still starting.
#[test]
fn gap15_answers_of_another_server_delete_nothing() {
    if !needs(Need::Embedded, "all answers can be wrong") {
        return;
    }
    let page =
        |code, body: &str| Action::Answer { code, body: Some(body.into()), retry_after: None };
    let bare = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}"#;
    let empty = r#"{"kind": "WidgetList", "apiVersion": "sync.example.com/v1", "metadata": {}, "items": []}"#;
    for action in [
        page(404, "<html>default backend - 404</html>"),
        page(404, bare),
        page(503, "<html>no backend</html>"),
        page(200, empty),
        Action::NotJson,
        Action::WrongKind,
        Action::Forbid,
    ] {
        let (stage, mut sidecar, source, target) = one("gap15-wrong", &WIDGETS, &[]);
        let hub = stage.remote().cluster.faults();
        hub.add(of_program(stage.remote(), action.clone()));
        stage.remote().relay.cut();
        outlives(&stage, &source, &target, || hub.clear());
        sidecar.kill();
        hub.add(of_program(stage.remote(), action));
        let _sidecar = stage.start(&[]);
        outlives_start(&stage, &source, &target, || hub.clear());
    }
}

/// The hub is who it was, and answers all else as ever: the list alone is one of nothing.
#[test]
fn gap15_a_list_that_is_empty_by_mistake_deletes_nothing() {
    if !needs(Need::Embedded, "a list can be wrong") {
        return;
    }
    let (stage, mut sidecar, source, target) = one("gap15-empty", &WIDGETS, &[]);
    let hub = stage.remote().cluster.faults();
    let empty = r#"{"kind": "WidgetList", "apiVersion": "sync.example.com/v1", "metadata": {"resourceVersion": "1"}, "items": []}"#;
    let empty = Action::Answer { code: 200, body: Some(empty.into()), retry_after: None };
    let ours = |verb, action| of_program(stage.remote(), action).verb(verb).resource("widgets");
    for start in [false, true] {
        let rule = hub.add(ours("list", empty.clone()));
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
        source.set_number(1);
        target.wait_for_number(1);
    }
}

#[track_caller]
fn outlives_start(stage: &Stage, source: &Place, target: &Place, heal: impl FnOnce()) {
    let uid = target.uid();
    stage.stays_quiet();
    heal();
    source.set_number(9);
    // What failed a few times is listed again after up to 30 s.
    within(45, "it is copied", || (target.number() == Some(9)).then_some(()));
    assert_eq!(target.uid(), uid);
}

#[test]
fn gap15_a_kind_that_is_no_longer_served_deletes_nothing() {
    if !needs(Need::Embedded, "a kind can go without its objects being deleted one by one") {
        return;
    }
    let (stage, _sidecar, source, target) = one("gap15-kind", &WIDGETS, &[]);
    let definition = source.sibling(suite::sync::definitions(), "widgets.sync.example.com");
    let uid = target.uid();
    definition.delete_by_force();
    stays("the copy is there", || target.uid() == uid);
    suite::sync::ensure(&stage.remote().cluster);
    source.create_number(6);
    target.wait_for_number(6);
    assert_eq!(target.uid(), uid);
}

#[test]
fn gap15_a_hub_that_gives_no_rights_deletes_nothing() {
    let (stage, _sidecar, source, target) = one("gap15-rights", &WIDGETS, &[]);
    let give_back = stage.take_rights(stage.remote());
    // Watches that run go on; new ones are refused.
    stage.remote().relay.cut();
    outlives(&stage, &source, &target, give_back);
}

#[test]
fn f56_a_list_that_is_forbidden_is_not_an_empty_one() {
    let (stage, mut sidecar, source, target) = one("f56", &WIDGETS, &[]);
    sidecar.kill();
    // A start gives rights, where they are asked for.
    stage.remote().relay.set(Way::Closed);
    let _sidecar = stage.start(&[]);
    let give_back = stage.take_rights(stage.remote());
    stage.remote().relay.set(Way::Open);
    outlives_start(&stage, &source, &target, give_back);
}

/// Only the list is forbidden, so that a read would prove the source's end: there is no reason for one.
#[test]
fn f56_what_a_forbidden_list_lacks_is_not_gone() {
    if !needs(Need::Embedded, "a verb can be refused") {
        return;
    }
    let (stage, mut sidecar, source, target) = one("f56-list", &WIDGETS, &[]);
    sidecar.kill();
    let (hub, before) = (stage.remote().cluster.faults(), stage.settled());
    source.delete_by_force();
    let rule = hub.add(of_program(stage.remote(), Action::Forbid).verb("list").resource("widgets"));
    let _sidecar = stage.start(&[]);
    eventually("its list is refused", || hub.hits(rule) > 0);
    stage.writes_no_more_than(before);
    assert!(target.get().is_some());
    hub.remove(rule);
    // What failed a few times is listed again after up to 30 s.
    within(45, "the orphan goes", || target.get().is_none());
}

// --- gap26, f57: what was never ours ---

#[test]
fn gap26_an_object_that_was_never_copied_stays() {
    let (stage, _sidecar, source, target) = one("gap26", &WIDGETS, &[]);
    let stranger = target.sibling(&WIDGETS, "stranger");
    stranger.create_number(9);
    let before = stage.settled();
    stage.writes_no_more_than(before);
    assert_eq!(stranger.number(), Some(9));
    source.set_number(2);
    target.wait_for_number(2);
}

/// A source that goes without ever having been claimed tells nothing about the object of its name.
#[test]
fn f57_an_object_that_was_never_claimed_does_not_go_with_a_source() {
    let stage = Stage::pull("f57", Setting::safe(&[&WIDGETS]));
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

/// A namespace says no more than a name.
#[test]
fn f57_the_copy_of_another_object_does_not_go_with_its_namespace() {
    if !needs(Need::Embedded, "a cleanup is of whole clusters, which other tests share") {
        return;
    }
    let stage = Stage::pull("f57-namespace", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({OWNER: "one"}));
    let (source, target) = stage.pair(&WIDGETS, "one");
    target.create(&json!({"metadata": {"annotations": {SOURCE: OTHERS}}, "spec": {"size": 9}}));
    source.create(&json!({"metadata": {"finalizers": ["example.com/f"]}, "spec": {"size": 1}}));
    source.delete();
    let mut sidecar = stage.start_served(&[]);
    stage.writes_no_more_than(0);
    sidecar.kill();
    let (code, log) = stage.run(&["-cleanup"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(target.annotation(SOURCE).as_deref(), Some(OTHERS), "it is not ours to clean");
}

/// Its mark names an object of another cluster: someone else's copy.
#[test]
fn f57_the_copy_of_another_object_is_a_conflict() {
    let stage = Stage::pull("f57-mark", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({OWNER: "another"}));
    let (source, target) = stage.pair(&WIDGETS, "one");
    target.create(&json!({"metadata": {"annotations": {SOURCE: OTHERS}}, "spec": {"size": 9}}));
    source.create_number(1);
    let sidecar = stage.start_served(&[]);
    stage.writes_no_more_than(0);
    assert_eq!(target.number(), Some(9));
    let told = || {
        let (metrics, state) = (sidecar.ask("/metrics").1, sidecar.ask("/debug/state").1);
        let all = format!("{}{metrics}{state}", sidecar.log()).to_lowercase();
        all.contains("conflict").then_some(())
    };
    eventually("the conflict is told of", told);
    assert_eq!(source.annotation(suite::sync::REMOTE_GENERATION), None);
}
