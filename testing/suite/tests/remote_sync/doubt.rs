//! More of `smoke/doubt.rs`: answers of other servers, forbidden lists, objects of others.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    relay::Way,
    stays,
    sync::{Place, SOURCE, Setting, Stage, WIDGETS},
    within,
};

use crate::{
    smoke::doubt::outlives,
    support::{OTHERS, many, of_program, one},
};

/// What a balancer says that knows no server, and a server that is still starting.
#[test]
fn answers_of_another_server_delete_nothing() {
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
        let (stage, mut sidecar, source, target) = one("wrong", &WIDGETS, &[]);
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
fn a_forbidden_list_is_not_an_empty_one() {
    let (stage, mut sidecar, source, target) = one("forbidden", &WIDGETS, &[]);
    sidecar.kill();
    // A start gives rights, where they are asked for.
    stage.remote().relay.set(Way::Closed);
    let _sidecar = stage.start(&[]);
    let give_back = stage.take_rights(stage.remote());
    stage.remote().relay.set(Way::Open);
    outlives_start(&stage, &source, &target, give_back);
}

#[test]
fn an_object_that_was_never_copied_stays() {
    let (stage, _sidecar, source, target) = one("stranger", &WIDGETS, &[]);
    let stranger = target.sibling(&WIDGETS, "stranger");
    stranger.create_number(9);
    let before = stage.settled();
    stage.writes_no_more_than(before);
    assert_eq!(stranger.number(), Some(9));
    source.set_number(2);
    target.wait_for_number(2);
}

/// Nor is the namespace that was created for it.
#[test]
fn anothers_copy_does_not_go_with_its_namespace() {
    if !needs(Need::Embedded, "a cleanup is of whole clusters, which other tests share") {
        return;
    }
    let stage = Stage::pull("namespace", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({SOURCE: OTHERS}));
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
fn anothers_copy_is_a_conflict() {
    let stage = Stage::pull("mark", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
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

/// A proxy's page, or an authorizer that lags: who could read the Namespace before knows nothing of it now.
#[test]
fn an_unreadable_namespace_deletes_nothing() {
    if !needs(Need::Embedded, "a read can be refused") {
        return;
    }
    let (stage, _sidecar, pairs) = many("unreadable", 3, &[]);
    pairs[0].0.delete();
    pairs[0].0.wait_until_gone();
    let hub = stage.remote().cluster.faults();
    let page = Some("<html>default backend - 404</html>".into());
    let page = Action::Answer { code: 404, body: page, retry_after: None };
    for ((source, target), action) in pairs[1..].iter().zip([page, Action::Forbid]) {
        let rule = of_program(stage.remote(), action).verb("get").resource("namespaces");
        let rule = hub.add(rule.name(source.namespace.as_deref().unwrap()));
        source.delete();
        eventually("it is asked", || (hub.hits(rule) > 0).then_some(()));
        stays("the copy is there", || target.get().is_some());
        hub.remove(rule);
        within(45, "it is gone", || source.get().is_none().then_some(()));
    }
}

/// Only the list is forbidden, so that a read would prove the source's end: there is no reason for one.
#[test]
fn what_a_forbidden_list_lacks_is_not_gone() {
    if !needs(Need::Embedded, "a verb can be refused") {
        return;
    }
    let (stage, mut sidecar, source, target) = one("list", &WIDGETS, &[]);
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
