//! Rights: what `-print-rbac` prints suffices, on servers that enforce it.

use dev_apiserver::Request;
use suite::{
    needs::{Need, needs},
    real, stays,
    sync::{REGIONS, SETTINGS, Setting, Side, Stage, WIDGETS},
};

use crate::support::{EMPTY, UNSEEN, is_in_sync};

/// The requests of the program that were refused, where the server tells.
fn refused(stage: &Stage) -> Vec<String> {
    if real() {
        return Vec::new();
    }
    let told = |side: &Side| {
        let requests = side.cluster.requests_of(&side.user());
        let refused = requests.into_iter().filter(|request| request.code == 403);
        refused.map(|Request { method, path, .. }| format!("{method} {path}")).collect::<Vec<_>>()
    };
    stage.sides().flat_map(told).collect()
}

#[test]
fn what_is_printed_suffices_for_the_life_of_a_pair() {
    let kinds = [&WIDGETS, &SETTINGS, &REGIONS];
    for setting in [Setting::safe(&kinds), Setting::push(&kinds)] {
        let stage = Stage::pull("rights", setting.secrets(&["token"]));
        stage.enforce_rbac();
        let (source, target) = stage.pair(&WIDGETS, "one");
        source.create_number(1);
        let secret = stage.source_secret("token");
        let _sidecar = stage.start(&[]);
        is_in_sync(&source, &target);
        stage.create_target_secret("token", "first", Some(&target));
        secret.wait("its data", |object| object["data"]["data"] == "Zmlyc3Q=");
        source.set_number(2);
        target.wait_for_number(2);
        target.set_health(3);
        source.wait_for_health(3);
        source.delete();
        source.wait_until_gone();
        target.wait_until_gone();
        stays("nothing is refused", || refused(&stage).is_empty());
    }
}

/// Orphans that go or stay, and the lead.
#[test]
fn printed_rights_suffice_for_orphans_and_the_lead() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    const KEEP: &str = "-orphan-grace=never";
    let lead = ["-leader-election"];
    for more in [&lead[..], &[EMPTY], &[KEEP]] {
        let stage = Stage::pull("rights-more", Setting::safe(&[&WIDGETS]));
        stage.enforce_rbac();
        let (source, orphan) = stage.pair(&WIDGETS, "one");
        source.create_number(1);
        let sidecar = stage.start(more);
        is_in_sync(&source, &orphan);
        source.delete_by_force();
        match more.contains(&KEEP) {
            true => sidecar.wait_for("the source is gone, the target is kept"),
            false => orphan.wait_until_gone(),
        }
        assert_eq!(refused(&stage), [""; 0], "{more:?}");
    }
}
