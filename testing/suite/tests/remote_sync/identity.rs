//! A hub that is another cluster than before, an earlier state of it, or the local cluster.

use dev_apiserver::{Action, Options};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    real,
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Place, Setting, Side, Stage, WIDGETS},
};

use crate::{
    smoke::clones::is_another,
    support::{is_in_sync, is_refused, of_program, one},
};

fn start_by_certificate(stage: &Stage) -> Sidecar {
    let file = stage.write("hub.kubeconfig", &stage.remote().kubeconfig_by_certificate());
    stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("hub={}", file.display())]);
    })
}

/// A server of the same authority, with nothing on it.
fn impostor(stage: &Stage) -> Side {
    let ca = stage.remote().cluster.server().ca().clone();
    let other = Cluster::embedded_with("other", Options { ca: Some(ca), ..Options::default() });
    Side::new("other", other)
}

#[test]
fn another_cluster_at_the_hubs_address_deletes_nothing() {
    if !needs(Need::Embedded, "two servers have one authority") {
        return;
    }
    let (stage, source, target) = Stage::with_widget("same-address");
    let mut sidecar = start_by_certificate(&stage);
    is_in_sync(&source, &target);
    let (uid, before) = (target.uid(), stage.settled());
    let other = impostor(&stage);
    stage.remote().relay.redirect(&other.cluster.address);
    is_another(&sidecar);
    stage.writes_no_more_than(before);
    // Nor does a start that sees only this one.
    sidecar.kill();
    let _sidecar = start_by_certificate(&stage);
    stays("the copy is there", || target.uid() == uid);
}

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

/// The cluster is asked who it is once more after it said that a source is gone: what answers by then may be
/// another one.
#[test]
fn a_sources_end_is_believed_of_its_own_cluster_alone() {
    if !needs(Need::Embedded, "an answer can be another cluster's") {
        return;
    }
    let (stage, sidecar, source, target) = one("gone", &WIDGETS, &[]);
    let (hub, before) = (stage.remote().cluster.faults(), stage.settled());
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "kube-system", "uid": "0d6ff0b4-3b39-4b5b-9f5c-000000000002", "resourceVersion": "1",
    }});
    let body = Some(other.to_string());
    let answer = Action::Answer { code: 200, body, retry_after: None };
    let answer = of_program(stage.remote(), answer);
    let rule = hub.add(answer.verb("get").resource("namespaces").name("kube-system"));
    source.delete_by_force();
    let changed = "remote_sync_cluster_identity_refused{remote=\"hub\"}";
    eventually("it is another cluster", || {
        assert!(target.get().is_some(), "another cluster's word proves nothing");
        sidecar.metric(changed) > Some(0.0)
    });
    stage.writes_no_more_than(before);
    assert!(target.get().is_some());
    hub.remove(rule);
    // The identity is read again and again, on the same connection.
    eventually("it is itself", || sidecar.metric(changed) == Some(0.0));
    target.wait_until_gone();
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
