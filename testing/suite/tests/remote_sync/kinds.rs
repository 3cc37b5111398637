//! The life of an object of each sort of kind, with its writes.

use dev_apiserver::Resource;
use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    sync::{BUDGETS, CONFIGS, Kind, Place, REGIONS, SETTINGS, Setting, Stage, WIDGETS},
};

use crate::support::{is_in_sync, labels};

/// Creates, changes, labels and deletes one object; checks that each of it costs just the writes it has to.
fn life(name: &str, kind: &'static Kind) {
    let stage = Stage::pull(name, Setting::safe(&[kind]));
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
    target.wait("the label", |object| labels(object)["note"] == "x");
    stage.wrote_only_after(before, &[&patch]);

    if kind.status {
        health(&stage, &source, &target);
    }

    let before = stage.settled();
    source.delete();
    eventually("both are gone", || source.get().or(target.get()).is_none());
    let delete = format!("local delete {plural} {local}");
    stage.wrote_only_after(before, &[&delete, &on_hub]);
}

fn health(stage: &Stage, source: &Place, target: &Place) {
    let before = stage.settled();
    target.set_health(4);
    source.wait_for_health(4);
    let status = format!("hub patch {}/status {}", source.kind.resource.plural, source.name);
    stage.wrote_only_after(before, &[&status]);
}

/// Built in and custom, with and without spec and status, and of the whole cluster.
#[test]
fn each_sort_of_kind_is_copied() {
    for kind in [&BUDGETS, &WIDGETS, &SETTINGS, &CONFIGS, &REGIONS] {
        life(&format!("life-{}", kind.resource.plural), kind);
    }
}

/// The hub serves widgets with a status of their own, or without.
fn serve_widgets(stage: &Stage, status: bool) {
    let widgets =
        Resource::custom("sync.example.com", "v1", "widgets", "Widget", WIDGETS.namespaced);
    stage.remote().cluster.server().register(Resource { status, ..widgets });
    // A server ends the watches of a definition that changes.
    stage.remote().relay.cut();
}

#[test]
fn a_kind_gets_and_loses_its_status_without_a_restart() {
    if !needs(Need::Embedded, "the definition is everybody's") {
        return;
    }
    let (stage, source, target) = Stage::with_widget("gets-status");
    serve_widgets(&stage, false);
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    target.set_health(4);
    stage.settled();
    assert_eq!(source.healthy(), None);
    serve_widgets(&stage, true);
    source.wait_for_health(4);
    sidecar.wait_for("the kind has changed remote=hub");
    serve_widgets(&stage, false);
    target.set_health(5);
    source.set_number(2);
    target.wait_for_number(2);
    serve_widgets(&stage, true);
    source.wait_for_health(5);
}
