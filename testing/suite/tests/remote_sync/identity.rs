//! A hub that is another cluster than before, an earlier state of it, or the local cluster.

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Action, Faults, Options, Rule};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually, identity,
    needs::{Need, needs},
    real,
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Place, Setting, Side, Stage, WIDGETS},
};

use crate::{
    known_clusters::accept,
    smoke::clones::is_another,
    support::{is_in_sync, is_refused, of_program, one},
};

/// The stage of a hub that is known by certificate, which another server of its authority takes too.
fn by_certificate(stage: &Stage) -> String {
    let server = stage.remote().cluster.server();
    let hour = std::time::Duration::from_secs(3600);
    let (certificate, key) = server.client_certificate(&stage.remote().user(), &[], hour);
    let user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(certificate),
        "client-key-data": BASE64_STANDARD.encode(key),
    });
    let address = stage.remote().relay.address.to_string();
    identity::kubeconfig(&address, &stage.remote().cluster.ca, &user).to_string()
}

fn start_by_certificate(stage: &Stage, more: &[&str]) -> Sidecar {
    let file = stage.write("hub.kubeconfig", &by_certificate(stage));
    stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("hub={}", file.display())]).args(more);
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
    let mut sidecar = start_by_certificate(&stage, &[]);
    is_in_sync(&source, &target);
    let (uid, before) = (target.uid(), stage.settled());
    let other = impostor(&stage);
    stage.remote().relay.redirect(&other.cluster.address);
    is_another(&sidecar);
    stage.writes_no_more_than(before);
    // Nor does a start that sees only this one.
    sidecar.kill();
    let sidecar = start_by_certificate(&stage, &[]);
    stays("the copy is there", || target.uid() == uid);
    drop(sidecar);
    accepted(&stage, &other, &target);
}

/// Someone says that the other cluster is the right one: it may own the copy, and is not empty by mistake.
fn accepted(stage: &Stage, other: &Side, target: &Place) {
    let kube_system =
        Place::new(&other.cluster, suite::sync::namespaces(), "", "kube-system").uid();
    accept(stage, "hub", kube_system.as_str().expect("a uid"));
    other.cluster.create_namespace(&stage.namespace);
    let source = Place::new(&other.cluster, &WIDGETS, &stage.namespace, "new-remote-rs");
    source.create_number(5);
    let _sidecar = start_by_certificate(stage, &[]);
    stage.target(&WIDGETS, "new").wait_for_number(5);
    stays("the copy of another cluster's object is no orphan of this one's", || {
        target.get().is_some()
    });
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
        assert!(target.get().is_some(), "another cluster's word is no proof");
        sidecar.metric(changed) > Some(0.0)
    });
    stage.writes_no_more_than(before);
    assert!(target.get().is_some());
    hub.remove(rule);
    // Who it is, is asked again and again: nobody has to break the connection.
    eventually("it is itself", || sidecar.metric(changed) == Some(0.0));
    target.wait_until_gone();
}

/// Nobody may see the hub's kube-system; the rule that says so.
fn hide_identity(stage: &Stage) -> (&Faults, u64) {
    let hidden = Rule::new(Action::Forbid).verb("get").resource("namespaces").name("kube-system");
    let hub = stage.remote().cluster.faults();
    (hub, hub.add(hidden))
}

/// Who may not see kube-system gives no proof of who the hub is.
#[test]
fn without_an_identity_no_orphan_is_deleted() {
    if !needs(Need::Embedded, "a read can be refused") {
        return;
    }
    let stage = Stage::pull("no-identity", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    let (hub, rule) = hide_identity(&stage);
    let mut sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    let sidecar = stage.start_served(&[]);
    source.set_number(2);
    target.wait_for_number(2);
    let told = || sidecar.ask("/readyz").1.contains("identity (hub): ");
    eventually("that it is not known is told", || told().then_some(()));
    source.delete_by_force();
    stays("the copy is there", || target.get().is_some());
    hub.remove(rule);
}

/// A local cluster that is its own remote.
fn alone(name: &str, setting: Setting) -> Stage {
    let own = if real() { Cluster::real("managed") } else { Cluster::embedded("own") };
    Stage::between(own.clone(), vec![("self", own)], name, setting)
}

#[test]
fn the_local_cluster_as_remote_copies_nothing_onto_itself() {
    let stage = alone("itself", Setting::safe(&[&WIDGETS]).same_names());
    let object = stage.source(&WIDGETS, "web");
    object.create_number(1);
    let sidecar = stage.start_served(&[]);
    is_refused(&sidecar, "self", true);
    let (_, ready) = sidecar.ask("/readyz");
    assert!(ready.contains("as the local cluster has"), "{ready}");
    object.set_number(2);
    stays("it is no copy of anything", || !object.is_claimed());
    let (code, log) = stage.run(&["-once"]);
    assert!(code == Some(1) && log.contains("as the local cluster has"), "{log}");
    object.delete();
    object.wait_until_gone();
}

#[test]
fn with_a_suffix_the_local_cluster_can_be_its_own_remote() {
    let stage = alone("suffix", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "web");
    source.create_number(1);
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    target.set_health(3);
    source.wait_for_health(3);
    is_refused(&sidecar, "self", false);
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none());
}
