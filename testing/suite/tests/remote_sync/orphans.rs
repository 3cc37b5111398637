//! Orphans, copies without a source: proof, grace, breaker, and the other policies.

use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    stays,
    sync::{WIDGETS, words},
    throughout,
};

use crate::{
    smoke::gate::is_held,
    support::{UNSEEN, is_in_sync, one},
};

#[test]
fn an_orphan_whose_source_comes_back_in_time_stays() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, source, target) = one("back", &WIDGETS, &["-orphan-grace", "6s"]);
    let uid = target.uid();
    source.delete_by_force();
    is_held(&sidecar, 1.0);
    source.create_number(4);
    target.wait_for_number(4);
    is_in_sync(&source, &target);
    throughout(6500, "the copy is there", || target.uid() == uid);
    let writes = stage.writes();
    assert!(!words(&writes).iter().any(|it| it.contains("delete")), "{:?}", words(&writes));
}

/// A source may come back with its cluster: time without a connection does not count.
#[test]
fn an_outage_restarts_an_orphans_grace() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, source, target) = one("outage", &WIDGETS, &["-orphan-grace", "4s"]);
    let is_connected = |wanted: f64| {
        let sample = "remote_sync_cluster_connected{remote=\"hub\"}";
        eventually("the hub comes or goes", || sidecar.metric(sample) == Some(wanted));
    };
    source.delete_by_force();
    is_held(&sidecar, 1.0);
    stage.remote().relay.set(Way::Closed);
    is_connected(0.0);
    // It would have been over long ago.
    pause(5000);
    stage.remote().relay.set(Way::Open);
    is_connected(1.0);
    throughout(3000, "it is there for its grace", || target.get().is_some());
    target.wait_until_gone();
}

#[test]
fn orphans_can_be_kept() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, source, target) = one("keep", &WIDGETS, &["-orphan-grace", "never"]);
    let before = stage.settled();
    source.delete_by_force();
    sidecar.wait_for("the source is gone, the target is kept");
    stays("the copy is there", || target.number() == Some(1));
    stage.wrote_only_after(before, &[]);
    // It is the copy again when there is a source again.
    source.create_number(3);
    target.wait_for_number(3);
}
