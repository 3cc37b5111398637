//! Known clusters: a copy belongs to one remote, by its name and uid, whatever uid another cluster shows, and whether
//! that remote is connected or not.

use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    faults::answer,
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{FINALIZER, KNOWN_CLUSTERS, Place, SOURCE, Setting, Side, Stage, WIDGETS, namespaces},
    throughout,
};

use crate::support::{absent, has_pairs, is_in_sync, is_refused, of_program, one};

/// Two remotes whose objects have the same places in the local cluster; the first has one object.
pub(crate) fn stage(name: &str) -> (Stage, Place, Place) {
    let own = Cluster::embedded("own");
    let remotes = ["west", "east"].map(|name| (name, Cluster::embedded(name))).into();
    let stage = Stage::between(own, remotes, name, Setting::safe(&[&WIDGETS]).same_names());
    stage.remotes[1].cluster.create_namespace(&stage.namespace);
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    (stage, source, target)
}

/// The same with a copy of that object, made by a process that is gone.
pub(crate) fn copied(name: &str) -> (Stage, Place, Place) {
    let (stage, source, target) = stage(name);
    let _sidecar = start_west(&stage, &[]);
    is_in_sync(&source, &target);
    (stage, source, target)
}

/// Starts it with the first remote alone.
fn start_west(stage: &Stage, more: &[&str]) -> Sidecar {
    stage.write("west.kubeconfig", &stage.remote().kubeconfig());
    start_at(stage, more)
}

/// The same with the kubeconfig that there is for it.
fn start_at(stage: &Stage, more: &[&str]) -> Sidecar {
    let file = stage.directory.path().join("west.kubeconfig");
    stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("west={}", file.display())]).args(more);
    })
}

/// Another object under the same name, in the second remote.
pub(crate) fn rival(stage: &Stage) -> Place {
    let rival = stage.source_in(1, &WIDGETS, &stage.namespace, "one");
    rival.create_number(666);
    rival
}

pub(crate) fn uid(side: &Side) -> String {
    let kube_system = Place::new(&side.cluster, namespaces(), "", "kube-system").uid();
    kube_system.as_str().expect("a uid").to_owned()
}

/// The uid of an unknown cluster.
const ANOTHER: &str = "0d6ff0b4-3b39-4b5b-9f5c-000000000002";

/// One remote shows the program this uid.
pub(crate) fn shows(side: &Side, uid: &str) -> u64 {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "kube-system", "uid": uid, "resourceVersion": "1"}});
    answers(side, answer(200, namespace))
}

/// One remote does not let the program read its kube-system.
fn hides(side: &Side) -> u64 {
    answers(side, Action::Forbid)
}

fn answers(side: &Side, action: Action) -> u64 {
    let rule = of_program(side, action).verb("get").resource("namespaces").name("kube-system");
    side.cluster.faults().add(rule)
}

#[track_caller]
fn stays_unchanged(target: &Place) {
    let before = (target.uid(), target.number());
    throughout(3000, "the copy stays unchanged", || {
        target.get().is_some() && (target.uid(), target.number()) == before
    });
}

/// A person says which cluster a remote is.
pub(crate) fn accept(stage: &Stage, remote: &str, record: &str) {
    stage.known_clusters().merge(&json!({"data": {remote: record}}));
}

fn record(stage: &Stage, remote: &str) -> Option<String> {
    Some(stage.known_clusters().get()?["data"][remote].as_str()?.to_owned())
}

/// What the remote that shows another one's uid has in the place of the source.
#[derive(Clone, Copy, Debug)]
enum Twin {
    Nothing,
    Object,
    /// Forged: an object that the program seems to have claimed, and that is being deleted.
    Deletion,
}

#[test]
fn remote_away_loses_no_copy_to_its_twin() {
    for twin in [Twin::Nothing, Twin::Object, Twin::Deletion] {
        let (stage, _, target) = copied("known-twin");
        stage.remotes[0].relay.set(Way::Closed);
        if !matches!(twin, Twin::Nothing) {
            let rival = rival(&stage);
            if matches!(twin, Twin::Deletion) {
                rival.set_finalizers(&[FINALIZER]);
                rival.delete();
            }
        }
        shows(&stage.remotes[1], &uid(&stage.remotes[0]));
        let sidecar = stage.start_served(&[]);
        stays_unchanged(&target);
        is_refused(&sidecar, "east", true);
        let (_, ready) = sidecar.ask("/readyz");
        let is_told = ready.contains("as the remote west has") && ready.contains(KNOWN_CLUSTERS);
        assert!(is_told, "{twin:?}: {ready}");
        assert!(sidecar.log().contains("cluster east is not connected"), "{}", sidecar.log());
    }
}

#[test]
fn accepted_cluster_takes_no_copy_of_a_remote_in_doubt() {
    let (stage, source, target) = copied("known-doubt");
    let rival = rival(&stage);
    accept(&stage, "east", &uid(&stage.remotes[1]));
    // First away from the start, then another cluster, as it seems.
    stage.remotes[0].relay.set(Way::Closed);
    let sidecar = stage.start_served(&[]);
    has_pairs(&sidecar, "east", "conflict", 1.0);
    stays_unchanged(&target);
    stage.remotes[0].relay.set(Way::Open);
    source.set_number(2);
    target.wait_for_number(2);
    let hidden = hides(&stage.remotes[0]);
    is_refused(&sidecar, "west", true);
    rival.set_number(667);
    source.set_number(3);
    stays_unchanged(&target);
    stage.remotes[0].cluster.faults().remove(hidden);
    target.wait_for_number(3);
}

/// The uid that earlier versions made up for a remote "west" without one; a hostile cluster can compute it.
const STAND_IN: &str = "9ed6eb90-f2bd-4f52-20dc-ee024d3d3d99";

/// A copy of a remote that does not let anybody read its kube-system.
fn copied_unverified(name: &str) -> (Stage, Place, Place) {
    let (stage, source, target) = stage(name);
    hides(stage.remote());
    let _sidecar = start_west(&stage, &[]);
    is_in_sync(&source, &target);
    assert_eq!(record(&stage, "west").as_deref(), Some("unverified"));
    let mark = target.annotation(SOURCE).unwrap_or_default();
    assert!(mark.starts_with("west=unverified/"), "{mark}");
    (stage, source, target)
}

#[test]
fn unverified_remote_loses_no_copy_to_another() {
    let (stage, source, target) = copied_unverified("known-unverified");
    shows(&stage.remotes[1], STAND_IN);
    let sidecar = stage.start_served(&["-orphan-grace", "1s"]);
    stays_unchanged(&target);
    rival(&stage);
    has_pairs(&sidecar, "east", "conflict", 1.0);
    stays_unchanged(&target);
    source.set_number(2);
    target.wait_for_number(2);
}

#[test]
fn unverified_remotes_deletion_is_obeyed_and_its_orphan_kept() {
    let (stage, source, target) = copied_unverified("known-unproven");
    let sidecar = start_west(&stage, &["-orphan-grace", "0s"]);
    let (second, copy) = stage.pair(&WIDGETS, "two");
    second.create_number(2);
    is_in_sync(&second, &copy);
    has_pairs(&sidecar, "west", "insync", 2.0);
    second.delete();
    second.wait_until_gone();
    assert!(copy.get().is_none());
    source.delete_by_force();
    has_pairs(&sidecar, "west", "held", 1.0);
    stays_unchanged(&target);
    assert_eq!(sidecar.count("nothing proves that the target is a copy"), 1, "{}", sidecar.log());
    let (_, ready) = sidecar.ask("/readyz");
    assert!(ready.contains("identity (west): "), "{ready}");
}

/// Its address leads to another cluster with the same object. Without its record, or without the right to read that,
/// the copy is another cluster's; with it the cluster is refused until a person edits the record.
#[test]
fn rebuilt_cluster_gets_the_copies_when_a_person_accepts_it() {
    let (stage, _, target) = copied("known-edited");
    let (old, new, copy) = (uid(&stage.remotes[0]), uid(&stage.remotes[1]), target.uid());
    stage.source_in(1, &WIDGETS, &stage.namespace, "one").create_number(5);
    stage.write("west.kubeconfig", &stage.remotes[1].kubeconfig());

    let own = stage.own.cluster.faults();
    let get = of_program(&stage.own, Action::Forbid).verb("get").resource("configmaps");
    let unread = own.add(get);
    let mut sidecar = start_at(&stage, &[]);
    sidecar.wait_for("known clusters are not recorded across restarts");
    has_pairs(&sidecar, "west", "conflict", 1.0);
    stays_unchanged(&target);
    assert_eq!(record(&stage, "west").as_ref(), Some(&old), "it is not replaced");
    sidecar.kill();
    own.remove(unread);

    stage.known_clusters().delete();
    sidecar = start_at(&stage, &[]);
    has_pairs(&sidecar, "west", "conflict", 1.0);
    stays_unchanged(&target);
    sidecar.kill();

    accept(&stage, "west", &old);
    sidecar = start_at(&stage, &[]);
    is_refused(&sidecar, "west", true);
    let (_, ready) = sidecar.ask("/readyz");
    assert!(ready.contains(&format!("{{\"data\":{{\"west\":\"{new} {old}\"}}}}")), "{ready}");
    stays_unchanged(&target);
    accept(&stage, "west", "what");
    eventually("it is not a record", || sidecar.ask("/readyz").1.contains("its record must be"));
    accept(&stage, "west", &format!("{new} {old}"));
    target.wait_for_number(5);
    is_refused(&sidecar, "west", false);
    assert_eq!(target.uid(), copy);
}

#[test]
fn records_live_in_memory_without_rights_to_the_configmap() {
    let (stage, source, target) = stage("known-memory");
    let rule = Rule::new(Action::Forbid).user(&stage.own.user()).resource("configmaps");
    stage.own.cluster.faults().add(rule);
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    assert_eq!(sidecar.warnings("known clusters are not recorded across restarts"), 1);
    assert_eq!(record(&stage, "west"), None);
    shows(&stage.remotes[1], &uid(&stage.remotes[0]));
    is_refused(&sidecar, "east", true);
    source.set_number(2);
    target.wait_for_number(2);
}

/// Which cluster answers is asked once more after the target was not found: another one has none of the copies.
#[test]
fn lost_target_of_another_cluster_releases_no_source() {
    let (stage, source, _) = copied("known-target");
    let sidecar = start_west(&stage, &["-probe-interval", "1h"]);
    has_pairs(&sidecar, "west", "insync", 1.0);
    shows(&stage.own, ANOTHER);
    let faults = stage.own.cluster.faults();
    let asked = ["get", "delete"].map(|verb| {
        faults.add(of_program(&stage.own, absent("widgets", "one")).verb(verb).resource("widgets"))
    });
    source.delete();
    eventually("the target is asked for", || asked.iter().any(|rule| faults.hits(*rule) > 0));
    stays("the source keeps its finalizer", || source.get().is_some());
}

/// The same of a source: another cluster has none of them.
#[test]
fn lost_source_of_another_cluster_deletes_no_copy() {
    let (stage, sidecar, source, target) = one("gone", &[]);
    let before = stage.settled();
    let rule = shows(stage.remote(), ANOTHER);
    source.delete_by_force();
    is_refused(&sidecar, "hub", true);
    stage.writes_no_more_than(before);
    assert!(target.get().is_some(), "another cluster's word proves nothing");
    stage.remote().cluster.faults().remove(rule);
    // The identity is read again and again, on the same connection.
    is_refused(&sidecar, "hub", false);
    target.wait_until_gone();
}
