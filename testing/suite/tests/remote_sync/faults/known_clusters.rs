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

use crate::support::{has_pairs, is_in_sync, is_refused, of_program};

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
fn copied(name: &str) -> (Stage, Place, Place) {
    let (stage, source, target) = stage(name);
    copy(&stage, &source, &target);
    (stage, source, target)
}

pub(crate) fn copy(stage: &Stage, source: &Place, target: &Place) {
    let _sidecar = start_west(stage, 0, &[]);
    is_in_sync(source, target);
}

/// Starts it with this remote as "west": another one is there where west was rebuilt, with the same objects.
fn start_west(stage: &Stage, remote: usize, more: &[&str]) -> Sidecar {
    let file = stage.write("west.kubeconfig", &stage.remotes[remote].kubeconfig());
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

#[test]
fn unverified_remote_loses_no_copy_to_another() {
    for has_rival in [false, true] {
        let (stage, source, target) = copied_unverified("known-unverified");
        shows(&stage.remotes[1], STAND_IN);
        if has_rival {
            rival(&stage);
        }
        let sidecar = stage.start_served(&["-orphan-grace", "1s"]);
        if has_rival {
            has_pairs(&sidecar, "east", "conflict", 1.0);
        }
        stays_unchanged(&target);
        source.set_number(2);
        target.wait_for_number(2);
    }
}

#[test]
fn unverified_remotes_orphan_is_kept_and_said_once() {
    let (stage, source, target) = copied_unverified("known-unproven");
    let sidecar = start_west(&stage, 0, &["-orphan-grace", "0s"]);
    has_pairs(&sidecar, "west", "insync", 1.0);
    source.delete_by_force();
    has_pairs(&sidecar, "west", "held", 1.0);
    stays_unchanged(&target);
    assert_eq!(sidecar.count("nothing proves that the target is a copy"), 1, "{}", sidecar.log());
    let (_, ready) = sidecar.ask("/readyz");
    assert!(ready.contains("identity (west): "), "{ready}");
}

#[test]
fn unverified_remotes_deletion_is_obeyed() {
    let (stage, source, target) = copied_unverified("known-deleted");
    let _sidecar = start_west(&stage, 0, &[]);
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none());
}

/// A copy of a remote that does not let anybody read its kube-system.
fn copied_unverified(name: &str) -> (Stage, Place, Place) {
    let (stage, source, target) = stage(name);
    hides(&stage.remotes[0]);
    copy(&stage, &source, &target);
    assert_eq!(record(&stage, "west").as_deref(), Some("unverified"));
    let mark = target.annotation(SOURCE).unwrap_or_default();
    assert!(mark.starts_with("west=unverified/"), "{mark}");
    (stage, source, target)
}

#[test]
fn edited_record_accepts_a_cluster_while_the_program_runs() {
    let (stage, _, target) = copied("known-edited");
    let (old, new, copy) = (uid(&stage.remotes[0]), uid(&stage.remotes[1]), target.uid());
    rival(&stage);
    let sidecar = start_west(&stage, 1, &[]);
    is_refused(&sidecar, "west", true);
    let (_, ready) = sidecar.ask("/readyz");
    assert!(ready.contains(&format!("{{\"data\":{{\"west\":\"{new} {old}\"}}}}")), "{ready}");
    stays_unchanged(&target);
    accept(&stage, "west", "what");
    let told = || sidecar.ask("/readyz").1.contains("its record must be");
    eventually("it is not a record", told);
    accept(&stage, "west", &format!("{new} {old}"));
    target.wait_for_number(666);
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

/// A cluster without a record leaves the copies of another; a record that cannot be read is not replaced.
#[test]
fn cluster_whose_record_is_lost_or_unreadable_takes_no_copy() {
    for is_lost in [true, false] {
        let (stage, _, target) = copied("known-unread");
        let recorded = record(&stage, "west");
        rival(&stage);
        if is_lost {
            stage.known_clusters().delete();
        } else {
            let forbid = Rule::new(Action::Forbid).user(&stage.own.user());
            stage.own.cluster.faults().add(forbid.verb("get").resource("configmaps"));
        }
        let sidecar = start_west(&stage, 1, &[]);
        has_pairs(&sidecar, "west", "conflict", 1.0);
        stays_unchanged(&target);
        if !is_lost {
            assert_eq!(sidecar.warnings("known clusters are not recorded across restarts"), 1);
            assert_eq!(record(&stage, "west"), recorded);
        }
    }
}

/// Which cluster answers is asked once more after the target was not found: another one has none of the copies.
#[test]
fn lost_target_of_another_cluster_releases_no_source() {
    let (stage, source, target) = stage("known-target");
    let mut sidecar = start_west(&stage, 0, &[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    let sidecar = start_west(&stage, 0, &["-probe-interval", "1h"]);
    has_pairs(&sidecar, "west", "insync", 1.0);
    shows(&stage.own, "0d6ff0b4-3b39-4b5b-9f5c-000000000002");
    let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "widgets \"one\" not found", "details": {"name": "one", "group": "sync.example.com", "kind": "widgets"}});
    for verb in ["get", "delete"] {
        let missing = of_program(&stage.own, answer(404, &missing));
        stage.own.cluster.faults().add(missing.verb(verb).resource("widgets"));
    }
    source.delete();
    stays("the source keeps its finalizer", || source.get().is_some());
}
