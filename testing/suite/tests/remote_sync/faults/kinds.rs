//! Kinds that come, and that change.

use dev_apiserver::Resource;
use suite::sync::{BUDGETS, Place, Setting, Stage, WIDGETS, definitions, ensure, words};

use crate::{
    support::{is_in_sync, is_ready},
    waiting::is_told_of,
};

#[test]
fn a_kind_that_is_not_served_yet_is_waited_for() {
    for own in [true, false] {
        let stage = Stage::pull("no-kind", Setting::safe(&[&WIDGETS, &BUDGETS]));
        let side = if own { &stage.own } else { stage.remote() };
        Place::new(&side.cluster, definitions(), "", &WIDGETS.flag()).delete_by_force();
        let (source, target) = stage.pair(&BUDGETS, "one");
        source.create_number(1);
        let sidecar = stage.start_served(&[]);
        // The others do not wait for it.
        is_in_sync(&source, &target);
        is_told_of(&sidecar, "widgets.sync.example.com");
        assert!(is_ready(&sidecar, &BUDGETS.flag()));
        assert!(!words(&stage.writes()).iter().any(|it| it.contains("widgets")));
        ensure(&side.cluster);
        let (source, target) = stage.pair(&WIDGETS, "one");
        source.create_number(1);
        is_in_sync(&source, &target);
    }
}

/// The hub serves widgets with a status of their own, or without.
fn serve_widgets(stage: &Stage, status: bool) {
    let widgets =
        Resource::custom("sync.example.com", "v1", "widgets", "Widget", WIDGETS.namespaced);
    stage.remote().cluster.server().register(Resource { status, ..widgets });
    // A server ends the watches of a definition that changes.
    stage.remote().relay.cut();
}

#[test]
fn a_kind_gets_and_loses_its_status_without_a_restart() {
    let (stage, source, target) = Stage::with_widget("gets-status");
    serve_widgets(&stage, false);
    let _sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    target.set_health(4);
    stage.settled();
    assert_eq!(source.healthy(), None);
    serve_widgets(&stage, true);
    source.wait_for_health(4);
    serve_widgets(&stage, false);
    target.set_health(5);
    source.set_number(2);
    target.wait_for_number(2);
    serve_widgets(&stage, true);
    source.wait_for_health(5);
}
