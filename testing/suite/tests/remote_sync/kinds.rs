//! The life of an object of each type of kind, with its writes.

use serde_json::json;
use suite::sync::{BUDGETS, CONFIGS, Kind, REGIONS, SETTINGS, Setting, Stage, WIDGETS};

use crate::support::is_in_sync;

/// Built in and custom, with and without a status and a spec, inside of namespaces and outside.
#[test]
fn an_object_of_each_sort_of_kind_costs_just_its_writes() {
    for kind in [&BUDGETS, &WIDGETS, &SETTINGS, &CONFIGS, &REGIONS] {
        println!("{kind:?}");
        life(kind);
    }
}

/// Creates, changes, labels and deletes one object; checks that each of it costs just the writes it has to.
fn life(kind: &'static Kind) {
    let stage = Stage::pull("life", Setting::safe(&[kind]));
    if kind.namespaced {
        stage.create_target_namespace(&json!({}));
    }
    // Tests share the real servers: a cluster-scoped object needs a unique name.
    let short = stage.namespace.clone();
    let (source, target) = (stage.source(kind, &short), stage.target(kind, &short));
    source.create_number(1);
    let _sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    let plural = &kind.resource.plural;
    let (remote, local) = (&source.name, &target.name);
    let on_hub = format!("hub patch {plural} {remote}");
    let create = format!("local create {plural} {local}");
    let patch = format!("local patch {plural} {local}");
    stage.wrote_only(&[&on_hub, &create, &on_hub]);

    let before = stage.settled();
    source.set_number(2);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    let mut writes = vec![patch.as_str()];
    // Kinds without generations stay at 0.
    let counts = source.generation().is_some();
    writes.extend(counts.then_some(on_hub.as_str()));
    stage.wrote_only_after(before, &writes);

    let before = stage.settled();
    source.merge(&json!({"metadata": {"labels": {"note": "x"}}}));
    target.wait("the label", |object| object["metadata"]["labels"]["note"] == "x");
    stage.wrote_only_after(before, &[&patch]);

    if kind.status {
        let before = stage.settled();
        target.set_health(4);
        source.wait_for_health(4);
        let status = format!("hub patch {plural}/status {remote}");
        stage.wrote_only_after(before, &[&status]);
    }

    let before = stage.settled();
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none());
    let delete = format!("local delete {plural} {local}");
    stage.wrote_only_after(before, &[&delete, &on_hub]);
}
