//! Push: the local cluster is the source, its remotes are the targets.

use suite::{
    cluster::Cluster,
    relay::Way,
    stays,
    sync::{Place, Setting, Stage, WIDGETS, words},
};

use crate::support::{EMPTY, is_in_sync};

/// Two remotes with a widget each.
pub(crate) fn stage(name: &str) -> (Stage, [(Place, Place); 2]) {
    let own = Cluster::embedded("management");
    let remotes = ["east", "west"].map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting { namespace_suffix: String::new(), ..Setting::push(&[&WIDGETS]) };
    let stage = Stage::between(own, remotes, name, setting.secrets(&["token"]));
    let pairs = [0, 1].map(|remote| {
        let source = stage.source_in(remote, &WIDGETS, &stage.namespace, "one");
        source.create_number(remote as u64 + 1);
        (source, stage.target_in(remote, &WIDGETS, &stage.namespace, "one"))
    });
    (stage, pairs)
}

#[test]
fn each_object_has_one_target_which_delays_no_other_when_it_is_away() {
    let (stage, [(east, east_copy), (west, west_copy)]) = stage("push");
    let _sidecar = stage.start_served(&[EMPTY]);
    is_in_sync(&east, &east_copy);
    is_in_sync(&west, &west_copy);
    assert_eq!((east.name.as_str(), west.name.as_str()), ("one-east", "one-west"));
    assert_eq!((east_copy.number(), west_copy.number()), (Some(1), Some(2)));
    east_copy.set_health(5);
    west_copy.set_health(6);
    east.wait_for_health(5);
    west.wait_for_health(6);

    for (way, numbers) in [(Way::Closed, 3..6), (Way::Silent, 6..9)] {
        stage.remotes[1].relay.set(way);
        for number in numbers {
            west.set_number(number);
            east.set_number(number);
            east_copy.wait_for_number(number);
        }
        is_in_sync(&east, &east_copy);
        stage.remotes[1].relay.set(Way::Open);
        is_in_sync(&west, &west_copy);
    }
    let before = stage.settled();
    east.delete();
    east.wait_until_gone();
    assert!(east_copy.get().is_none() && west_copy.get().is_some());
    let writes = stage.writes();
    let touched = words(&writes[before..]).iter().any(|words| words.starts_with("west"));
    assert!(!touched, "{:?}", words(&writes[before..]));

    stage.remotes[1].relay.set(Way::Closed);
    west.delete();
    stays("it waits for its target", || west.is_claimed() && west_copy.get().is_some());
    stage.remotes[1].relay.set(Way::Open);
    west.wait_until_gone();
    assert!(west_copy.get().is_none());
}
