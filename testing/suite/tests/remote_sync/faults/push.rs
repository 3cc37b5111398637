//! Push: the local cluster is the source, its remotes are the targets.

use suite::{
    cluster::Cluster,
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Place, Setting, Stage, WIDGETS, words},
};

use crate::support::{EMPTY, is_in_sync};

const BOTH: [&str; 2] = ["east", "west"];

/// Two remotes with a widget each.
fn stage(name: &str) -> (Stage, Vec<(Place, Place)>) {
    let own = Cluster::embedded("management");
    let remotes = BOTH.map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting { namespace_suffix: String::new(), ..Setting::push(&[&WIDGETS]) };
    let stage = Stage::between(own, remotes, name, setting.secrets(&["token"]));
    let pairs = (0..2)
        .map(|remote| {
            let namespace = &stage.namespace;
            let source = stage.source_in(remote, &WIDGETS, namespace, "one");
            source.create_number(remote as u64 + 1);
            (source, stage.target_in(remote, &WIDGETS, namespace, "one"))
        })
        .collect();
    (stage, pairs)
}

fn in_sync(name: &str) -> (Stage, Vec<(Place, Place)>, Sidecar) {
    let (stage, pairs) = stage(name);
    let sidecar = stage.start_served(&[EMPTY]);
    for (source, target) in &pairs {
        is_in_sync(source, target);
    }
    stage.settled();
    (stage, pairs, sidecar)
}

#[test]
fn each_object_has_one_target_and_one_owner_of_its_status() {
    let (stage, pairs, _sidecar) = in_sync("push");
    let [(east, east_copy), (west, west_copy)] = pairs.as_slice() else { panic!("two pairs") };
    assert_eq!((east.name.as_str(), west.name.as_str()), ("one-east", "one-west"));
    assert_eq!((east_copy.number(), west_copy.number()), (Some(1), Some(2)));
    east_copy.set_health(5);
    west_copy.set_health(6);
    east.wait_for_health(5);
    west.wait_for_health(6);
    east.set_number(7);
    east_copy.wait_for_number(7);
    is_in_sync(east, east_copy);
    assert_eq!(west_copy.number(), Some(2));
    let before = stage.settled();
    east.delete();
    east.wait_until_gone();
    assert!(east_copy.get().is_none() && west_copy.get().is_some());
    let writes = stage.writes();
    let touched = words(&writes[before..]).iter().any(|words| words.starts_with("west"));
    assert!(!touched, "{:?}", words(&writes[before..]));
}

#[test]
fn an_unreachable_target_keeps_its_copies_and_delays_no_other() {
    for way in [Way::Closed, Way::Silent] {
        let (stage, pairs, _sidecar) = in_sync("push-away");
        let [(east, east_copy), (west, west_copy)] = pairs.as_slice() else { panic!("two pairs") };
        stage.remotes[1].relay.set(way);
        for number in 3..6 {
            west.set_number(number);
            east.set_number(number);
            east_copy.wait_for_number(number);
        }
        is_in_sync(east, east_copy);
        west.delete();
        stays("it waits for its target", || west.is_claimed() && west_copy.get().is_some());
        stage.remotes[1].relay.set(Way::Open);
        west.wait_until_gone();
        assert!(west_copy.get().is_none());
    }
}
