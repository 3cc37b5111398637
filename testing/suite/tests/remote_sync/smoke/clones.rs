//! Remotes that show the identity of another cluster: clones, liars, and kubeconfigs that lead elsewhere.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    sidecar::Sidecar,
    stays,
    sync::{Place, Setting, Side, Stage, WIDGETS, namespaces},
    throughout,
};

use crate::support::{is_in_sync, of_program, one};

/// Two remotes whose objects have the same places in the local cluster; the first has one object.
fn stage(name: &str) -> (Stage, Place, Place) {
    let own = Cluster::embedded("own");
    let remotes = ["west", "east"].map(|name| (name, Cluster::embedded(name))).into();
    let stage = Stage::between(own, remotes, name, Setting::safe(&[&WIDGETS]).same_names());
    stage.remotes[1].cluster.create_namespace(&stage.namespace);
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    (stage, source, target)
}

fn uid(side: &Side) -> String {
    let kube_system = Place::new(&side.cluster, namespaces(), "", "kube-system").uid();
    kube_system.as_str().expect("a uid").to_owned()
}

/// A rebuilt cluster may take over the copies of the cluster that it was before, but not those of one that is there.
#[test]
fn an_accepted_identity_takes_no_copy_from_another_cluster() {
    if !needs(Need::Embedded, "there are three servers") {
        return;
    }
    let (stage, source, target) = stage("taken");
    copied(&stage, &source, &target);
    let copy = target.uid();
    let rival = stage.source_in(1, &WIDGETS, &stage.namespace, "one");
    rival.create_number(666);
    let east = uid(&stage.remotes[1]);
    let sidecar = stage.start_served(&["-accept-identity", &format!("east={east}")]);
    let conflict = "remote_sync_pairs{remote=\"east\",resource=\"widgets.sync.example.com\",state=\"conflict\"}";
    eventually("it is another cluster's copy", || sidecar.metric(conflict) == Some(1.0));
    source.set_number(2);
    target.wait_for_number(2);
    stays("it stays that", || (target.uid(), target.number()) == (copy.clone(), Some(2)));
}

/// One remote shows the program the uid of another one.
fn shows(side: &Side, uid: &str) -> u64 {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "kube-system", "uid": uid, "resourceVersion": "1"}});
    let body = Some(namespace.to_string());
    let rule = of_program(side, Action::Answer { code: 200, body, retry_after: None });
    let rule = rule.verb("get").resource("namespaces").name("kube-system");
    side.cluster.faults().add(rule)
}

/// Waits until exactly these of the remotes are held.
#[track_caller]
pub(crate) fn are_held(sidecar: &Sidecar, all: &[(&str, f64)]) {
    eventually("those are held that have to be", || {
        let is = |(remote, held): &(&str, f64)| {
            let name = format!("remote_sync_cluster_identity_conflict{{remote=\"{remote}\"}}");
            sidecar.metric(&name) == Some(*held)
        };
        all.iter().all(is).then_some(())
    });
}

/// Copies the first remote's object, as the only one.
fn copied(stage: &Stage, source: &Place, target: &Place) {
    let file = stage.write("west.kubeconfig", &stage.remote().kubeconfig());
    let _sidecar = stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("west={}", file.display())]);
    });
    is_in_sync(source, target);
}

/// Without a name of its own each of the twins has what the other one has not: an orphan.
#[test]
fn remotes_with_one_identity_delete_no_copies() {
    if !needs(Need::Embedded, "a remote can lie") {
        return;
    }
    let (stage, source, target) = stage("twins");
    copied(&stage, &source, &target);
    let (copy, before) = (target.uid(), stage.settled());
    let lie = shows(&stage.remotes[1], &uid(stage.remote()));
    let sidecar = stage.start_served(&[]);
    source.set_number(2);
    throughout(4000, "the copy stays as it is", || target.number() == Some(1));
    are_held(&sidecar, &[("west", 1.0), ("east", 1.0)]);
    stage.writes_no_more_than(before);
    is_told(&sidecar);
    // One of them stops to show it.
    stage.remotes[1].cluster.faults().remove(lie);
    are_held(&sidecar, &[("west", 0.0), ("east", 0.0)]);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), copy);
    let (source, target) = (stage.source_in(1, &WIDGETS, &stage.namespace, "two"), "two");
    source.create_number(7);
    stage.target(&WIDGETS, target).wait_for_number(7);
}

fn is_told(sidecar: &Sidecar) {
    let (code, ready) = sidecar.ask("/readyz");
    assert!(code == 200 && ready.contains("cluster east is held"), "{code} {ready}");
    let state = sidecar.ask("/debug/state").1;
    assert!(state.contains("IdentityConflict"), "{state}");
    for remote in ["west", "east"] {
        let held = format!("the remote is held remote={remote}");
        sidecar.wait_for(&held);
        assert_eq!(sidecar.count(&held), 1);
    }
}

/// A remote that shows another uid while the program runs is another cluster, and the first one is not held for it.
#[test]
fn a_remote_that_takes_anothers_identity_is_held_alone() {
    if !needs(Need::Embedded, "a remote can lie") {
        return;
    }
    let (stage, source, target) = stage("later");
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    let uid = uid(stage.remote());
    let lie = shows(&stage.remotes[1], &uid);
    let changed = "remote_sync_cluster_identity_changed{remote=\"east\"}";
    eventually("it is another cluster", || sidecar.metric(changed) == Some(1.0));
    are_held(&sidecar, &[("west", 0.0), ("east", 0.0)]);
    source.set_number(2);
    target.wait_for_number(2);
    stage.remotes[1].cluster.faults().remove(lie);
    // The lie has ended, and nobody has to break the connection for that to be noticed.
    eventually("it is the cluster that it was", || sidecar.metric(changed) == Some(0.0));
    stage.source_in(1, &WIDGETS, &stage.namespace, "two").create_number(7);
    stage.target(&WIDGETS, "two").wait_for_number(7);
}

#[test]
fn a_kubeconfig_of_another_cluster_deletes_nothing() {
    let (stage, sidecar, source, target) = one("another", &WIDGETS, &[]);
    let (uid, before) = (target.uid(), stage.settled());
    // The one other cluster that there is on either kind of stage, with all rights on it.
    let other = std::fs::read_to_string(&stage.own.cluster.kubeconfig).expect("the file");
    stage.write("hub.kubeconfig", &other);
    is_another(&sidecar);
    source.set_number(2);
    stage.writes_no_more_than(before);
    assert_eq!((target.uid(), target.number()), (uid.clone(), Some(1)));
    stage.write("hub.kubeconfig", &stage.remote().kubeconfig());
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}

/// Waits until the program says that the hub is another cluster than before.
#[track_caller]
pub(crate) fn is_another(sidecar: &Sidecar) {
    let changed = "remote_sync_cluster_identity_changed{remote=\"hub\"}";
    eventually("it is another cluster", || (sidecar.metric(changed)? > 0.0).then_some(()));
    assert!(sidecar.ask("/readyz").1.contains("hub"), "{:?}", sidecar.ask("/readyz"));
}
