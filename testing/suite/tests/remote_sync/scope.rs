//! The scope of an instance: labels, namespaces and prefixes; and several instances next to each other.

use serde_json::json;
use suite::{
    needs::{Need, needs},
    stays,
    sync::{FINALIZER, Place, Setting, Stage, WIDGETS},
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
fn an_object_that_changes_its_instance_is_deleted_by_the_new_one() {
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

/// Two instances with a finalizer each divide the objects of one hub.
#[test]
fn two_instances_divide_the_work_by_selector_and_finalizer() {
    if !needs(Need::Embedded, "one scene has one account") {
        return;
    }
    let stage = Stage::pull("divided", Setting::safe(&[&WIDGETS]));
    let names = ["a", "b"];
    for (index, name) in names.into_iter().enumerate() {
        labelled(&stage.source(&WIDGETS, name), index as u64 + 1, name);
    }
    let second = "example.com/second";
    let _first = stage.start(&["-selector", "part=a"]);
    let _second = stage.start(&["-selector", "part=b", "-finalizer", second]);
    for name in names {
        is_in_sync(&stage.source(&WIDGETS, name), &stage.target(&WIDGETS, name));
    }
    assert_eq!(stage.source(&WIDGETS, "a").finalizers(), [FINALIZER]);
    assert_eq!(stage.source(&WIDGETS, "b").finalizers(), [second]);
    stage.stays_quiet();
    stage.source(&WIDGETS, "b").delete();
    stage.source(&WIDGETS, "b").wait_until_gone();
    assert!(stage.target(&WIDGETS, "b").get().is_none());
    assert!(stage.target(&WIDGETS, "a").get().is_some());
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
