//! Remotes that come and go at run time, as Secrets of Cluster API.

use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    sidecar::Sidecar,
    stays,
    sync::{Place, Setting, Stage, WIDGETS, secrets, words},
};

use crate::support::{has_pairs, is_in_sync, is_refused};

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Two remotes, neither of which the program knows of; both have a widget.
pub(crate) fn stage(name: &str) -> (Stage, Vec<(Place, Place)>) {
    let own = Cluster::embedded("management");
    let remotes = ["c1", "c2"].map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting {
        namespace_suffix: "-{cluster}".into(),
        suffix: String::new(),
        ..Setting::safe(&[&WIDGETS])
    };
    let stage = Stage::between(own, remotes, name, setting);
    let namespace = stage.namespace.clone();
    stage.remotes[1].cluster.create_namespace(&namespace);
    let pairs = (0..2)
        .map(|remote| {
            let source = stage.source_in(remote, &WIDGETS, &namespace, "one");
            source.create_number(remote as u64 + 1);
            (source, stage.target_in(remote, &WIDGETS, &namespace, "one"))
        })
        .collect();
    (stage, pairs)
}

pub(crate) fn start(stage: &Stage, more: &[&str]) -> Sidecar {
    stage.start_as(|command| {
        command.args(["-remote-selector", CLUSTER_NAME]).args(more);
    })
}

pub(crate) fn put(stage: &Stage, remote: usize) {
    stage.put_kubeconfig(&stage.remotes[remote].name, &stage.remotes[remote].kubeconfig());
}

#[test]
fn remotes_come_and_go_and_come_back() {
    let (stage, pairs) = stage("registry");
    let sidecar = start(&stage, &[]);
    sidecar.wait_for_code("/readyz", 200);
    // Cluster API labels other Secrets of a cluster too.
    let authority = Place::new(&stage.own.cluster, secrets(), &stage.own.home, "c1-ca");
    authority.create(&json!({"metadata": {"labels": {CLUSTER_NAME: "c1"}}, "data": {}}));
    put(&stage, 0);
    let (source, copy) = &pairs[0];
    is_in_sync(source, copy);
    assert_eq!(sidecar.warnings("ignoring some objects"), 0, "{}", sidecar.log());
    assert!(pairs[1].1.get().is_none());
    put(&stage, 1);
    is_in_sync(&pairs[1].0, &pairs[1].1);
    let (uid, before) = (copy.uid(), stage.settled());
    stage.delete_kubeconfig("c1");
    is_removed(&sidecar);
    // What happens on a remote that is not there is not heard of, not even a deletion.
    source.delete_by_force();
    stage.writes_no_more_than(before);
    assert_eq!((copy.uid(), copy.number()), (uid.clone(), Some(1)));
    // The others are served on.
    pairs[1].0.set_number(9);
    pairs[1].1.wait_for_number(9);
    source.create_number(7);
    put(&stage, 0);
    is_in_sync(source, copy);
    assert_eq!((copy.uid(), copy.number()), (uid, Some(7)));
}

/// Waits until the remote c1 has no metrics any more.
fn is_removed(sidecar: &Sidecar) {
    let metric = "remote_sync_cluster_identity_refused{remote=\"c1\"}";
    eventually("it is removed", || sidecar.metric(metric).is_none());
}

/// A remote that a flag names is not the registry's to change.
#[test]
fn of_two_remotes_of_one_name_that_of_the_flag_stays() {
    let (stage, pairs) = stage("registry-same");
    let (source, target) = &pairs[0];
    let file = stage.write("flag.kubeconfig", &stage.remotes[0].kubeconfig());
    let sidecar = start(&stage, &["-remote-kubeconfig", &format!("c1={}", file.display())]);
    is_in_sync(source, target);
    // It leads to another cluster, so that it would be seen if it were used.
    stage.put_kubeconfig("c1", &stage.remotes[1].kubeconfig());
    eventually("it is left out", || sidecar.warnings("remote skipped remote=c1") > 0);
    eventually("it is reported", || sidecar.ask("/readyz").1.contains("c1 is skipped"));
    source.set_number(5);
    target.wait_for_number(5);
    stage.delete_kubeconfig("c1");
    eventually("nothing is left out", || !sidecar.ask("/readyz").1.contains("is skipped"));
    source.set_number(6);
    target.wait_for_number(6);
    is_in_sync(source, target);
    assert!(!words(&stage.writes()).iter().any(|words| words.starts_with("c2")));
}

/// Cluster API creates another cluster with the same name: the Secret is deleted, and another is created.
#[test]
fn a_cluster_remade_under_its_name_is_a_new_one() {
    let (stage, pairs) = stage("remade");
    let sidecar = start(&stage, &[]);
    put(&stage, 0);
    let (source, copy) = &pairs[0];
    is_in_sync(source, copy);
    let (uid, old) = (copy.uid(), source.read());
    stage.delete_kubeconfig("c1");
    is_removed(&sidecar);
    stage.put_kubeconfig("c1", &stage.remotes[1].kubeconfig());
    let new = stage.source_in(1, &WIDGETS, &stage.namespace, "two");
    new.create_number(8);
    stage.target_in(0, &WIDGETS, &stage.namespace, "two").wait_for_number(8);
    is_refused(&sidecar, "c1", false);
    // The former cluster's copies are reported as conflicts and kept.
    has_pairs(&sidecar, "c1", "conflict", 1.0);
    stays("the copy is as it was", || (copy.uid(), copy.number()) == (uid.clone(), Some(1)));
    assert_eq!(source.read(), old);
}
