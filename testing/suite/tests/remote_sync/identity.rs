//! A hub that is an earlier state of itself, or the local cluster.

use serde_json::json;
use suite::{
    cluster::Cluster,
    real,
    relay::Way,
    stays,
    sync::{Place, Setting, Stage, WIDGETS},
};

use crate::support::{is_in_sync, is_refused};

#[test]
fn a_hub_from_a_backup_deletes_nothing_before_the_grace() {
    let stage = Stage::pull("backup", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let pairs = ["old", "lost"].map(|name| stage.pair(&WIDGETS, name));
    for (source, _) in &pairs {
        source.create_number(1);
    }
    let mut sidecar = stage.start(&["-orphan-grace", "1m"]);
    for (source, target) in &pairs {
        is_in_sync(source, target);
        source.set_number(2);
        is_in_sync(source, target);
    }
    let [(old, old_copy), (lost, lost_copy)] = &pairs;
    stage.remote().relay.set(Way::Closed);
    lost.delete_by_force();
    restore(old);
    stage.remote().relay.set(Way::Open);
    old_copy.wait_for_number(1);
    stays("what was lost is still there", || lost_copy.get().is_some());
    assert!(sidecar.alive());
    is_in_sync(old, old_copy);
}

/// As it was in the first generation; on a real server only the content can be.
fn restore(source: &Place) {
    if real() {
        source.set_number(1);
        return;
    }
    let server = source.cluster.server();
    let namespace = source.namespace.clone().expect("a namespace");
    let alter = |change: &dyn Fn(&mut serde_json::Value)| {
        server.alter("sync.example.com/v1", "widgets", &namespace, &source.name, |object| {
            change(object);
            true
        });
    };
    alter(&|object| object["spec"]["size"] = json!(1));
    alter(&|object| {
        object["metadata"]["generation"] = json!(1);
        for key in [suite::sync::REMOTE_GENERATION, suite::sync::LOCAL_GENERATION] {
            object["metadata"]["annotations"][key] = json!("1");
        }
    });
    // A backup has no history in which to see how it came about.
    server.compact();
}

#[test]
fn the_local_cluster_as_remote_copies_nothing_onto_itself() {
    let own = if real() { Cluster::real("managed") } else { Cluster::embedded("own") };
    let setting = Setting::safe(&[&WIDGETS]).same_names();
    let stage = Stage::between(own.clone(), vec![("self", own)], "itself", setting);
    let object = stage.source(&WIDGETS, "web");
    object.create_number(1);
    let sidecar = stage.start_served(&[]);
    is_refused(&sidecar, "self", true);
    let (_, ready) = sidecar.ask("/readyz");
    assert!(ready.contains("as the local cluster has"), "{ready}");
    object.set_number(2);
    stays("it is not claimed", || !object.is_claimed());
    let (code, log) = stage.run(&["-once"]);
    assert!(code == Some(1) && log.contains("as the local cluster has"), "{log}");
    object.delete();
    object.wait_until_gone();
}
