//! Order and load: what is urgent comes first, what is about one object stops no other, and several instances
//! divide the rest.

use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Kind, Place, Setting, Stage, WIDGETS, load::nth},
};

use crate::support::is_in_sync;

/// A connection that is made anew begins with a list, and on a busy machine a probe may fail.
const UNDOUBTED: [&str; 2] = ["-timeout", "40s"];

/// An edit at the end of a long start comes next, and the start goes on.
#[test]
fn an_edit_is_served_before_the_backlog_of_a_start() {
    if !needs(Need::Embedded, "the sources are put there at once") {
        return;
    }
    const ALL: usize = 150;
    let stage = Stage::pull("backlog", Setting::safe(&[&WIDGETS]));
    stage.put_sources(0, 0..ALL);
    let sidecar = stage.start(&UNDOUBTED);
    let created = || stage.asked(&stage.own, "create", "widgets");
    eventually("it has begun", || (created() > 5).then_some(()));
    stage.change_specs(0, ALL - 1..ALL, 7);
    let target = |index| stage.target(&WIDGETS, &nth(index));
    eventually("the edit is there", || target(ALL - 1).get().is_some().then_some(()));
    let before = created();
    assert!(before < ALL / 2, "{before} others came first\n{}", sidecar.log());
    // One after the other, as each copy takes two writes of 20 a second.
    eventually("the start goes on", || (created() > before + 10).then_some(()));
}

/// What nobody can copy at present takes no room from what can be.
#[test]
fn documents_of_a_remote_that_is_away_make_room_for_others() {
    if !needs(Need::Embedded, "there are three servers") {
        return;
    }
    let remotes = ["live", "dead"].map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting::push(&[&WIDGETS]);
    let stage = Stage::between(Cluster::embedded("own"), remotes, "documents", setting);
    let place = |remote, name: &str| stage.source_in(remote, &WIDGETS, &stage.namespace, name);
    let target = stage.target_in(0, &WIDGETS, &stage.namespace, "one");
    place(0, "one").create_number(1);
    let sidecar = stage.start_served(&[]);
    is_in_sync(&place(0, "one"), &target);
    stage.remotes[1].relay.set(Way::Closed);
    eventually("one is away", || {
        let connected = sidecar.metric("remote_sync_cluster_connected{remote=\"dead\"}");
        (connected == Some(0.0)).then_some(())
    });
    let mut object = WIDGETS.content(1);
    object["metadata"] = json!({"annotations": {"note": "x".repeat(30 << 10)}});
    for index in 0..150 {
        place(1, &nth(index)).create(&object);
    }
    let parked = || sidecar.metric("remote_sync_queue_depth{remote=\"dead\",state=\"parked\"}");
    eventually("all of it waits", || (parked() == Some(150.0)).then_some(()));
    let before = stage.asked(&stage.own, "get", "widgets");
    place(0, "one").set_number(2);
    target.wait_for_number(2);
    assert_eq!(stage.asked(&stage.own, "get", "widgets"), before, "its document was kept");
    let in_sync =
        "remote_sync_pairs{remote=\"live\",resource=\"widgets.sync.example.com\",state=\"insync\"}";
    eventually("each remote's sources are counted", || {
        (sidecar.metric(in_sync) == Some(1.0)).then_some(())
    });
}

const PARTS: [&str; 3] = ["a", "b", "c"];

/// Three remotes, each the part of one instance, and their pairs.
fn parts() -> (Stage, Vec<(Place, Place)>) {
    let own = Cluster::embedded("management");
    let remotes = PARTS.map(|name| (name, Cluster::embedded(name))).into();
    let setting = Setting {
        namespace_suffix: "-{cluster}".into(),
        suffix: String::new(),
        ..Setting::safe(&[&WIDGETS])
    };
    let stage = Stage::between(own, remotes, "parts", setting);
    let namespace = stage.namespace.clone();
    let pairs = (0..3).map(|remote| {
        if remote > 0 {
            stage.remotes[remote].cluster.create_namespace(&namespace);
        }
        stage.put_kubeconfig(PARTS[remote], &stage.remotes[remote].kubeconfig());
        assign(&stage, PARTS[remote], PARTS[remote]);
        let source = stage.source_in(remote, &WIDGETS, &namespace, "one");
        source.create_number(1);
        (source, stage.target_in(remote, &WIDGETS, &namespace, "one"))
    });
    let pairs = pairs.collect();
    (stage, pairs)
}

/// Gives a remote to an instance.
fn assign(stage: &Stage, remote: &str, part: &str) {
    let kind: &'static Kind = suite::sync::secrets();
    let name = format!("{remote}-kubeconfig");
    let secret = Place::new(&stage.own.cluster, kind, &stage.own.home, &name);
    secret.merge(&json!({"metadata": {"labels": {"part": part}}}));
}

fn remotes_of(sidecar: &Sidecar) -> Vec<String> {
    let state: serde_json::Value = serde_json::from_str(&sidecar.ask("/debug/state").1).unwrap();
    state["remotes"].as_object().unwrap().keys().cloned().collect()
}

/// By the remotes' Secrets: no flag but the selector differs, and each remote may move.
#[test]
fn three_instances_divide_the_remotes_and_one_takes_over() {
    if !needs(Need::Embedded, "there are four servers") {
        return;
    }
    let (stage, pairs) = parts();
    let start = |part: &str| {
        let selector = format!("part={part}");
        stage.start_as(|command| {
            command.args(["-remote-selector", &selector]);
        })
    };
    let mut instances = PARTS.map(start);
    for ((source, target), (part, instance)) in pairs.iter().zip(PARTS.iter().zip(&instances)) {
        is_in_sync(source, target);
        assert_eq!(remotes_of(instance), [*part]);
    }
    stage.stays_quiet();
    instances[1].kill();
    for (source, _) in &pairs {
        source.set_number(2);
    }
    for index in [0, 2] {
        pairs[index].1.wait_for_number(2);
    }
    stays("nobody else serves it", || pairs[1].1.number() == Some(1));
    let uid = pairs[1].1.uid();
    assign(&stage, "b", "c");
    pairs[1].1.wait_for_number(2);
    is_in_sync(&pairs[1].0, &pairs[1].1);
    assert_eq!((remotes_of(&instances[2]), pairs[1].1.uid()), (vec!["b".into(), "c".into()], uid));
    let back = start("b");
    back.wait_for_code("/readyz", 200);
    stage.stays_quiet();
    pairs[1].0.delete();
    pairs[1].0.wait_until_gone();
    assert!(pairs[1].1.get().is_none() && pairs[0].1.get().is_some());
}
