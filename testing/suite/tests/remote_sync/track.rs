//! More of `smoke/track.rs`: changes of `-track`, deleted namespaces.

use dev_apiserver::Rule;
use serde_json::json;
use suite::{
    eventually,
    faults::answer,
    needs::{Need, needs},
    stays,
    sync::{FINALIZER, Stage, WIDGETS},
};

use crate::{
    smoke::gate::is_held,
    smoke::track::{TARGET, is_bare, one},
    support::{is_in_sync, of_program},
};

/// Without finalizers the sources of a deleted namespace are gone before anybody asks.
#[test]
fn track_target_keeps_the_copies_of_a_deleted_namespace() {
    let (stage, source, target) = one("track-namespace");
    let sidecar = stage.start_served(&TARGET);
    target.wait_for_number(1);
    stage.source_namespace().delete();
    source.wait_until_gone();
    is_held(&sidecar, 1.0);
    sidecar.wait_for("the source's Namespace or CustomResourceDefinition is being deleted");
    stage.source_namespace().wait_until_gone();
    stays("the copy is there", || target.get().is_some());
    target.delete();
    target.wait_until_gone();
    is_held(&sidecar, 0.0);
}

#[test]
fn track_can_be_changed_there_and_back() {
    let (stage, source, target) = one("track-change");
    let mut sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    stage.settled();
    sidecar.kill();
    let uid = target.uid();
    // Only now, as the smaller roles of `-track target` do not let it.
    if !needs(Need::Embedded, "the roles are for -track source") {
        return;
    }
    let mut sidecar = stage.start_served(&TARGET);
    eventually("all records go", || is_bare(&source));
    stage.settled();
    sidecar.kill();
    source.set_number(4);
    let _sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    assert_eq!((target.uid(), source.finalizers()), (uid, vec![FINALIZER.to_owned()]));
}

/// The hub says that this object, of which it knows the kind, is not there.
fn absent(stage: &Stage, resource: &str, name: &str) -> Rule {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "details": {"kind": resource, "name": name},
    });
    of_program(stage.remote(), answer(404, status)).verb("get").resource(resource).name(name)
}

/// People let the source go after its deletion was seen, and its kind or namespace goes with it: neither is being
/// deleted any more when the program looks, and no watch has told it that the source is gone.
#[test]
fn track_target_keeps_a_copy_swept_while_it_is_judged() {
    if !needs(Need::Embedded, "a server's reads and its watches differ") {
        return;
    }
    for (resource, name) in [("namespaces", ""), ("customresourcedefinitions", &*WIDGETS.flag())] {
        let (stage, source, target) = one("track-judged");
        let _sidecar = stage.start_served(&[&TARGET[..], &["-orphan-grace", "1m"]].concat());
        target.wait_for_number(1);
        stage.settled();
        let faults = stage.remote().cluster.faults();
        let namespace = source.namespace.clone().expect("a namespace");
        for (resource, name) in [
            (resource, if name.is_empty() { &*namespace } else { name }),
            (&*WIDGETS.resource.plural, &*source.name),
        ] {
            faults.add(absent(&stage, resource, name));
        }
        source.set_finalizers(&["example.com/hold"]);
        source.delete();
        stays("the copy is there", || target.get().is_some());
    }
}

/// The kind is gone by the time its definition is asked for: whatever it had went with it.
#[test]
fn track_target_keeps_a_copy_whose_kind_goes_after_the_proof() {
    if !needs(Need::Embedded, "a server's reads and its watches differ") {
        return;
    }
    let (stage, source, target) = one("track-unserved");
    let _sidecar = stage.start_served(&[&TARGET[..], &["-orphan-grace", "0s"]].concat());
    target.wait_for_number(1);
    stage.settled();
    let (faults, plural) = (stage.remote().cluster.faults(), &*WIDGETS.resource.plural);
    faults.add(absent(&stage, "customresourcedefinitions", &WIDGETS.flag()));
    faults.add(absent(&stage, plural, &source.name).times(1));
    let page = of_program(stage.remote(), answer(404, "404 page not found"));
    let unserved = faults.add(page.verb("get").resource(plural));
    source.delete();
    eventually("it is asked for again", || faults.hits(unserved) > 0);
    stays("the copy is there", || target.get().is_some());
}
