//! `-track target` when the hub's reads and watches differ, and a change of `-track`.

use dev_apiserver::Rule;
use suite::{
    eventually,
    faults::answer,
    stays,
    sync::{FINALIZER, Place, Stage, WIDGETS, definitions},
};

use crate::{
    smoke::track::{TARGET, is_bare, one},
    support::{absent, is_in_sync, of_program},
};

#[test]
fn track_can_be_changed_there_and_back() {
    let (stage, source, target) = one("track-change");
    let mut sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    stage.settled();
    sidecar.kill();
    let uid = target.uid();
    let mut sidecar = stage.start_served(&TARGET);
    eventually("all records go", || is_bare(&source));
    stage.settled();
    sidecar.kill();
    source.set_number(4);
    let _sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    assert_eq!((target.uid(), source.finalizers()), (uid, vec![FINALIZER.to_owned()]));
}

/// A read of this object finds it absent.
fn is_absent(stage: &Stage, resource: &str, name: &str) -> Rule {
    of_program(stage.remote(), absent(resource, name)).verb("get").resource(resource).name(name)
}

/// People let the source go after its deletion was seen, and its kind or namespace goes with it: neither is being
/// deleted any more when the program looks, and no watch has told it that the source is gone.
#[test]
fn track_target_keeps_a_copy_swept_while_it_is_judged() {
    for (resource, name) in [("namespaces", ""), ("customresourcedefinitions", &*WIDGETS.flag())] {
        let (stage, source, target) = one("track-judged");
        let _sidecar = stage.start_served(&[&TARGET[..], &["-orphan-grace", "1m"]].concat());
        target.wait_for_number(1);
        stage.settled();
        let faults = stage.remote().cluster.faults();
        let namespace = source.namespace.clone().expect("a namespace");
        let name = if name.is_empty() { &*namespace } else { name };
        let looked = faults.add(is_absent(&stage, resource, name));
        faults.add(is_absent(&stage, &WIDGETS.resource.plural, &source.name));
        source.set_finalizers(&["example.com/hold"]);
        source.delete();
        eventually("it is judged", || faults.hits(looked) > 0);
        stays("the copy is there", || target.get().is_some());
    }
}

/// The definition of the kind is being deleted, and costs more memory than most pairs may take.
#[test]
fn track_target_keeps_a_copy_whose_kind_is_being_deleted() {
    let (stage, source, target) = one("track-kind-going");
    let _sidecar = stage.start_served(&[&TARGET[..], &["-orphan-grace", "0s"]].concat());
    target.wait_for_number(1);
    stage.settled();
    let definition = Place::new(&stage.remote().cluster, definitions(), "", &WIDGETS.flag());
    definition.annotate("example.com/large", Some(&"x".repeat(200 << 10)));
    definition.set_finalizers(&["example.com/hold"]);
    definition.delete();
    source.delete_by_force();
    stays("the copy is there", || target.get().is_some());
}

/// The kind is gone by the time its definition is asked for: whatever it had went with it.
#[test]
fn track_target_keeps_a_copy_whose_kind_goes_after_the_proof() {
    let (stage, source, target) = one("track-unserved");
    let _sidecar = stage.start_served(&[&TARGET[..], &["-orphan-grace", "0s"]].concat());
    target.wait_for_number(1);
    stage.settled();
    let (faults, plural) = (stage.remote().cluster.faults(), &*WIDGETS.resource.plural);
    faults.add(is_absent(&stage, "customresourcedefinitions", &WIDGETS.flag()));
    faults.add(is_absent(&stage, plural, &source.name).times(1));
    let page = of_program(stage.remote(), answer(404, "404 page not found"));
    let unserved = faults.add(page.verb("get").resource(plural));
    source.delete();
    eventually("it is asked for again", || faults.hits(unserved) > 0);
    stays("the copy is there", || target.get().is_some());
}
