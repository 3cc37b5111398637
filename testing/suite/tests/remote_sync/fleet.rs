//! A hub that many clusters share: each sees its own namespace only, and copies go into an existing namespace.

use suite::{
    cluster::Cluster,
    needs::{Need, needs},
    stays,
    sync::{Place, Setting, Stage, WIDGETS},
};

use crate::support::{has_pairs, is_in_sync};

fn plain() -> Setting {
    Setting { namespace_suffix: String::new(), ..Setting::safe(&[&WIDGETS]) }
}

#[test]
fn all_copies_go_into_the_target_namespace() {
    let stage = Stage::pull("fleet", plain());
    // On the embedded server, too, it may do what is printed, and nothing more.
    stage.enforce_rbac();
    let source = stage.source(&WIDGETS, "one");
    source.create_number(1);
    let namespace = format!("{}-copies", stage.namespace);
    // A Role needs its namespace.
    stage.own.cluster.create_namespace(&namespace);
    let target = Place::new(&stage.own.cluster, &WIDGETS, &namespace, "one");
    let flags = ["-source-namespace", &*stage.namespace, "-target-namespace", &*namespace];
    let _sidecar = stage.start(&flags);
    is_in_sync(&source, &target);
    target.set_health(4);
    source.wait_for_health(4);
    source.set_number(2);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    assert!(stage.target(&WIDGETS, "one").get().is_none(), "in no namespace of its own");
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none());
}

/// The mark says whose it is, where the namespace does not.
#[test]
fn of_two_sources_with_one_target_the_second_is_a_conflict() {
    if !needs(Need::Embedded, "there are three servers") {
        return;
    }
    let own = Cluster::embedded("managed");
    let remotes = ["east", "west"].map(|name| (name, Cluster::embedded(name))).into();
    let stage = Stage::between(own, remotes, "fleet-two", plain());
    stage.remotes[1].cluster.create_namespace(&stage.namespace);
    stage.own.cluster.create_namespace("copies");
    let sources = [0, 1].map(|remote| stage.source_in(remote, &WIDGETS, &stage.namespace, "one"));
    let target = Place::new(&stage.own.cluster, &WIDGETS, "copies", "one");
    sources[0].create_number(1);
    let flags = ["-source-namespace", &*stage.namespace, "-target-namespace", "copies"];
    let sidecar = stage.start_served(&flags);
    is_in_sync(&sources[0], &target);
    sources[1].create_number(2);
    has_pairs(&sidecar, "west", "conflict", 1.0);
    stays("the first has it", || target.number() == Some(1));
}
