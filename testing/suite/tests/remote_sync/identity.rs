//! The local cluster as its own remote.

use suite::{
    cluster::Cluster,
    real, stays,
    sync::{Setting, Stage, WIDGETS},
};

use crate::support::is_refused;

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
