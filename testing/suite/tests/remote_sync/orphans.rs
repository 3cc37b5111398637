//! Orphans, copies without a source: proof, grace, breaker, and the other policies.

use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    pause,
    relay::Way,
    stays,
    sync::{Place, WIDGETS, definitions, ensure, words},
    throughout, within,
};

use crate::{
    smoke::gate::is_held,
    support::{UNSEEN, is_in_sync, many, of_program, one},
};

fn there(pairs: &[(Place, Place)]) -> usize {
    pairs.iter().filter(|(_, target)| target.get().is_some()).count()
}

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

/// It is back, whether or not anything can be done for it.
#[test]
fn a_source_that_comes_back_and_fails_ends_the_grace() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, source, target) = one("fails", &WIDGETS, &["-orphan-grace", "4s"]);
    source.delete_by_force();
    is_held(&sidecar, 1.0);
    let denied = of_program(&stage.own, code(403)).verb("patch").resource("widgets");
    stage.own.cluster.faults().add(denied);
    source.create_number(4);
    is_held(&sidecar, 0.0);
    // It would have been over by now.
    pause(4000);
    source.delete_by_force();
    throughout(3000, "it is there for its grace", || target.get().is_some());
    target.wait_until_gone();
}

/// What its cluster lost may come back with it: the time in which nobody could see it does not count.
#[test]
fn an_orphans_grace_begins_anew_after_an_outage() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, source, target) = one("outage", &WIDGETS, &["-orphan-grace", "4s"]);
    let is_connected = |wanted: f64| {
        let sample = "remote_sync_cluster_connected{remote=\"hub\"}";
        eventually("the hub comes or goes", || (sidecar.metric(sample)? == wanted).then_some(()));
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

/// Nor does the time in which its kind was not served.
#[test]
fn an_orphans_grace_begins_anew_once_its_kind_is_back() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, source, target) = one("kind-back", &WIDGETS, &["-orphan-grace", "5s"]);
    let is_ready = |limit: u64, wanted: f64| {
        let labels = "remote=\"hub\",resource=\"widgets.sync.example.com\"";
        let sample = format!("remote_sync_resource_ready{{{labels}}}");
        within(limit, "the kind comes or goes", || {
            (sidecar.metric(&sample)? == wanted).then_some(())
        });
    };
    source.delete_by_force();
    is_held(&sidecar, 1.0);
    source.sibling(definitions(), &WIDGETS.flag()).delete_by_force();
    is_ready(4, 0.0);
    // It would have been over by now.
    pause(5000);
    ensure(&stage.remote().cluster);
    is_ready(60, 1.0);
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

#[test]
fn of_too_many_orphans_at_once_none_is_deleted() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, sidecar, pairs) = many("breaker", 11, &["-orphan-grace", "500ms"]);
    for (source, _) in &pairs {
        source.delete_by_force();
    }
    throughout(4000, "all copies are there", || there(&pairs) == 11);
    let writes = stage.writes();
    assert!(!words(&writes).iter().any(|it| it.contains("delete")), "{:?}", words(&writes));
    assert!(
        sidecar.warnings("more is to be deleted at once") >= 11,
        "it says so: {}",
        sidecar.log()
    );
    assert_eq!(sidecar.metric("remote_sync_deletions_held{remote=\"hub\"}"), Some(11.0));
}
