//! The scope of an instance: labels, namespaces and prefixes; and several instances next to each other.

use serde_json::json;
use suite::{
    needs::{Need, needs},
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{FINALIZER, Place, REGIONS, Setting, Stage, WIDGETS},
};

use crate::support::is_in_sync;

fn labelled(place: &Place, number: u64, label: &str) {
    let mut object = WIDGETS.content(number);
    object["metadata"] = json!({"labels": {"part": label}});
    place.create(&object);
}

#[test]
fn a_selector_leaves_the_others_alone() {
    let stage = Stage::pull("selector", Setting::safe(&[&WIDGETS]));
    let (mine, others) = (stage.source(&WIDGETS, "mine"), stage.source(&WIDGETS, "others"));
    labelled(&mine, 1, "a");
    labelled(&others, 2, "b");
    let _sidecar = stage.start(&["-selector", "part=a"]);
    is_in_sync(&mine, &stage.target(&WIDGETS, "mine"));
    stage.settled();
    assert!(stage.target(&WIDGETS, "others").get().is_none() && others.finalizers().is_empty());
    // It is selected from now on.
    others.merge(&json!({"metadata": {"labels": {"part": "a"}}}));
    is_in_sync(&others, &stage.target(&WIDGETS, "others"));
}

/// What leaves the selection is not gone: its copy stays.
#[test]
fn an_object_that_is_no_longer_selected_keeps_its_copy() {
    let stage = Stage::pull("unselected", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    labelled(&source, 1, "a");
    let _sidecar = stage.start(&["-selector", "part=a"]);
    is_in_sync(&source, &target);
    let uid = target.uid();
    source.merge(&json!({"metadata": {"labels": {"part": "b"}}}));
    source.set_number(2);
    stays("the copy is as it was", || (target.uid(), target.number()) == (uid.clone(), Some(1)));
    source.merge(&json!({"metadata": {"labels": {"part": "a"}}}));
    target.wait_for_number(2);
    assert_eq!(target.uid(), uid);
}

/// A label moves an object from one instance to another: the first lets go of it, so that nothing hangs.
#[test]
fn a_source_that_changes_instance_is_deleted_by_the_new_one() {
    let stage = Stage::pull("relabel", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    stage.create_target_namespace(&json!({}));
    labelled(&source, 1, "a");
    let instance = |part: &str| {
        let (selector, finalizer) = (format!("part={part}"), format!("example.com/{part}"));
        stage.start(&["-selector", &selector, "-finalizer", &finalizer])
    };
    let _instances = [instance("a"), instance("b")];
    target.wait_for_number(1);
    let uid = target.uid();
    source.merge(&json!({"metadata": {"labels": {"part": "b"}}}));
    suite::eventually("it has changed hands", || {
        (source.finalizers() == ["example.com/b"]).then_some(())
    });
    source.set_number(2);
    target.wait_for_number(2);
    assert_eq!(target.uid(), uid);
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none());
}

#[test]
fn only_the_given_namespaces_are_watched() {
    let stage = Stage::pull("scoped", Setting::safe(&[&WIDGETS]));
    let hub = &stage.remote().cluster;
    let [near, far] = ["near", "far"].map(|part| format!("{}-{part}", stage.namespace));
    for namespace in [&near, &far] {
        hub.create_namespace(namespace);
        stage.source_in(0, &WIDGETS, namespace, "one").create_number(1);
    }
    let _sidecar = stage.start(&["-source-namespace", &near]);
    let place = |namespace: &str| stage.target_in(0, &WIDGETS, namespace, "one");
    is_in_sync(&stage.source_in(0, &WIDGETS, &near, "one"), &place(&near));
    stage.settled();
    assert!(place(&far).get().is_none());
    let far = stage.source_in(0, &WIDGETS, &far, "one");
    assert!(far.finalizers().is_empty());
}

/// A forgotten -finalizer: each instance keeps to what it selects, and says what it has met.
#[test]
fn two_instances_with_one_finalizer_do_not_fight() {
    if !needs(Need::Embedded, "one scene has one account") {
        return;
    }
    let stage = Stage::pull("forgotten", Setting::safe(&[&WIDGETS]));
    for (index, name) in ["red", "blue"].into_iter().enumerate() {
        labelled(&stage.source(&WIDGETS, name), index as u64 + 1, name);
    }
    let instances =
        ["red", "blue"].map(|name| stage.start_served(&["-selector", &format!("part={name}")]));
    for name in ["red", "blue"] {
        is_in_sync(&stage.source(&WIDGETS, name), &stage.target(&WIDGETS, name));
    }
    suite::eventually("each says whose the other's are", || {
        let told = |it: &Sidecar| it.ask("/debug/state").1.contains("needs its own -finalizer");
        instances.iter().all(told).then_some(())
    });
    stage.settled();
    stage.forget_requests();
    let (source, target) = stage.pair(&WIDGETS, "red");
    for number in 1..=20 {
        target.set_health(number);
        suite::eventually("the status is up", || (source.healthy() == Some(number)).then_some(()));
    }
    stage.settled();
    assert_eq!(stage.counted().1, 20, "writes");
    assert_eq!(source.finalizers(), [FINALIZER]);
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none() && stage.target(&WIDGETS, "blue").get().is_some());
}

/// Outside of namespaces there is one list, however many namespaces are named.
#[test]
fn a_cluster_scoped_kind_is_listed_once() {
    if !needs(Need::Embedded, "an object is taken away in spite of its finalizer") {
        return;
    }
    let stage = Stage::pull("regions", Setting::safe(&[&REGIONS]));
    for name in ["a", "b"] {
        stage.source(&REGIONS, name).create_number(1);
    }
    let sidecar = stage.start_served(&[
        "-source-namespace",
        &format!("{}-x", stage.namespace),
        "-source-namespace",
        &format!("{}-y", stage.namespace),
        "-orphan-grace",
        "0s",
    ]);
    for name in ["a", "b"] {
        is_in_sync(&stage.source(&REGIONS, name), &stage.target(&REGIONS, name));
    }
    stage.settled();
    let hub = stage.remote();
    let lists = hub.cluster.server().requests().into_iter().filter(|request| {
        request.user == hub.user()
            && request.verb == "watch"
            && *request.resource == *REGIONS.resource.plural
    });
    assert_eq!(lists.count(), 1, "watches");
    // It vanishes while the hub is away.
    hub.relay.set(Way::Closed);
    suite::eventually("the hub is away", || {
        let connected = sidecar.metric("remote_sync_cluster_connected{remote=\"hub\"}");
        (connected == Some(0.0)).then_some(())
    });
    stage.source(&REGIONS, "a").delete_by_force();
    hub.relay.set(Way::Open);
    suite::eventually("it is in no list", || {
        let state = sidecar.ask("/debug/state").1;
        state.contains("\"sources\": 1").then_some(())
    });
    suite::eventually("and its copy goes", || {
        stage.target(&REGIONS, "a").get().is_none().then_some(())
    });
    assert!(stage.target(&REGIONS, "b").get().is_some());
}

/// All names in the words of another organisation.
#[test]
fn another_prefix_changes_all_names() {
    let (stage, source, target) = Stage::with_widget("prefix");
    let _sidecar = stage.start(&["-annotation-prefix", "sync.example.org"]);
    target.wait_for_number(1);
    source.wait_for_annotation("sync.example.org/sync-remote-generation", "1");
    assert_eq!(source.finalizers(), ["sync.example.org/sync-local"]);
    let all = format!("{}{}{}", source.read(), target.read(), stage.target_namespace().read());
    assert!(!all.contains("teleport"), "{all}");
    source.annotate("sync.example.org/paused", Some("true"));
    stage.settled();
    source.set_number(2);
    stage.stays_quiet();
}
