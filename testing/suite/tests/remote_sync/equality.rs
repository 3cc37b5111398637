//! What counts as equal: contents, whatever generations say; rules for fields, labels and annotations; and writers
//! that fight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    sidecar::Sidecar,
    stays,
    sync::{
        CLASSES, FINALIZER, Kind, Place, SETTINGS, Setting, Stage, WIDGETS, any_content, reshape,
        words,
    },
};

use crate::{
    events::events,
    support::{annotations, immutable, in_sync, is_in_sync, labels, of_program, one},
};

/// How many pairs of a kind are in a state.
fn count(sidecar: &Sidecar, kind: &Kind, state: &str) -> Option<u64> {
    let labels = format!("remote=\"hub\",resource=\"{}\"", kind.flag());
    let metric = format!("remote_sync_pairs{{{labels},state=\"{state}\"}}");
    sidecar.metric(&metric).map(|count| count as u64)
}

#[track_caller]
fn is_told(sidecar: &Sidecar, kind: &Kind, state: &str) {
    eventually(&format!("one is {state}"), || (count(sidecar, kind, state)? == 1).then_some(()));
}

// --- labels and annotations ---

#[test]
fn labels_removed_at_the_source_go_from_an_adopted_copy() {
    let stage = Stage::pull("adopted-labels", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "web");
    let mut object = WIDGETS.content(1);
    object["metadata"] = json!({"labels": {"a": "1", "b": "2"}, "annotations": {"note": "x"}});
    target.create(&object);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    for key in ["sync-remote-generation", "sync-local-generation"] {
        object["metadata"]["annotations"][format!("cloud.teleport.dev/{key}")] = json!("1");
    }
    source.create(&object);
    let _sidecar = stage.start(&[]);
    let (other, _) = stage.pair(&WIDGETS, "other");
    other.create_number(1);
    is_in_sync(&other, &stage.target(&WIDGETS, "other"));
    source.merge(&json!({"metadata": {"labels": {"b": null}, "annotations": {"note": null}}}));
    let copy = target.wait("one label less", |it| it["metadata"]["labels"].get("b").is_none());
    assert_eq!((labels(&copy), annotations(&copy)), (json!({"a": "1"}), json!({})));
}

// --- fields beside the spec ---

#[test]
fn a_field_beside_the_spec_goes_with_the_sources() {
    let (stage, _sidecar, source, target) = one("beside-spec", &WIDGETS, &[]);
    source.merge(&json!({"operation": {"sync": true}}));
    target.wait("the operation", |it| it["operation"]["sync"] == true);
    is_in_sync(&source, &target);
    stage.settled();
    source.merge(&json!({"operation": null}));
    target.wait("no operation", |it| it.get("operation").is_none());
    assert_eq!(target.number(), Some(1));
    // A kind without a spec.
    let (_stage, _sidecar, source, target) = one("data", &SETTINGS, &[]);
    source.merge(&json!({"more": {"a": "1"}}));
    target.wait("more", |it| it["more"]["a"] == "1");
    source.alter(|it| drop(it.as_object_mut().expect("an object").remove("more")));
    target.wait("no more", |it| it.get("more").is_none());
}

/// As Argo CD does with the operation that it was asked for.
#[test]
fn an_ignored_field_that_was_consumed_is_not_put_back() {
    let rule = format!("{}:/operation", WIDGETS.flag());
    let stage = Stage::pull("consumed", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create(&json!({"spec": {"size": 1}, "operation": {"sync": true}}));
    let _sidecar = stage.start(&["-ignore-field", &rule]);
    is_in_sync(&source, &target);
    assert_eq!(target.read()["operation"]["sync"], true, "a new copy has it");
    target.merge(&json!({"operation": null}));
    stays("it is not put back", || target.read().get("operation").is_none());
    source.set_number(2);
    is_in_sync(&source, &target);
    assert_eq!(target.read().get("operation"), None);
    target.merge(&json!({"operation": {"own": true}}));
    source.merge(&json!({"spec": {"size": 3}, "operation": null}));
    target.wait_for_number(3);
    assert_eq!(target.read()["operation"], json!({"own": true}));
}

// --- fights ---

/// Sets the target's content to 7 whenever it is not, until the flag is raised.
fn opponent(target: &Place, stop: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (target, stop) = (target.clone(), stop.clone());
    thread::spawn(move || {
        while !stop.load(Relaxed) {
            if target.number() != Some(7) {
                target.set_number(7);
            }
            pause(5);
        }
    })
}

#[test]
fn two_fighting_writers_are_slowed_down() {
    let (stage, _sidecar, source, target) = one("fight", &WIDGETS, &["-qps", "0"]);
    let (before, stop) = (stage.settled(), Arc::new(AtomicBool::new(false)));
    let opponent = opponent(&target, &stop);
    let updates = || {
        let writes = stage.writes().split_off(before);
        writes.iter().filter(|one| one.words.starts_with("local")).count()
    };
    eventually("they fight", || (updates() >= 8).then_some(()));
    let fought = updates();
    stays("it is slow", || updates() <= fought + 3);
    // An edit of the source does not wait. The other one gives in.
    stop.store(true, Relaxed);
    opponent.join().expect("the other writer");
    source.set_number(2);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
}

// --- contents that the target's server changes ---

/// A schema that knows these fields of the spec, and whatever else there is.
fn knows(fields: Value) -> Value {
    let mut schema = any_content();
    schema["properties"] = json!({"spec": {"type": "object", "properties": fields}});
    schema
}

#[test]
fn a_dropped_field_is_told_and_arrives_once_known() {
    if !needs(Need::Embedded, "its kinds belong to one test") {
        return;
    }
    let stage = Stage::pull("dropped", Setting::safe(&[&WIDGETS]));
    let number = json!({"type": "integer"});
    reshape(&stage.own.cluster, &WIDGETS, &knows(json!({"size": number})));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create(&json!({"spec": {"size": 1, "newField": "important"}}));
    let mut sidecar = stage.start_served(&["-resync", "0"]);
    is_in_sync(&source, &target);
    assert_eq!(target.read()["spec"], json!({"size": 1}));
    is_told(&sidecar, &WIDGETS, "failing");
    let told = "dropped .spec.newField";
    sidecar.wait_for(told);
    assert!(!sidecar.log().contains("important"));
    eventually("an Event", || {
        let all = events(&source);
        let text = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
        all.iter().any(|event| text(event).contains(told)).then_some(())
    });
    // Another process tries it once more, and tells it again.
    let early = stage.settled();
    stays("it is not hammered", || stage.writes().len() <= early + 1);
    sidecar.kill();
    let before = stage.settled();
    sidecar = stage.start_served(&["-resync", "1s"]);
    is_told(&sidecar, &WIDGETS, "failing");
    let writes = stage.writes();
    assert!(words(&writes[before..]).iter().all(|it| it.starts_with("local patch widgets one")));
    assert!(words(&writes[before..]).len() < 8, "once in each resync: {:?}", words(&writes));
    let fields = json!({"size": number, "newField": {"type": "string"}});
    reshape(&stage.own.cluster, &WIDGETS, &knows(fields));
    target.wait("the field", |it| it["spec"]["newField"] == "important");
    is_told(&sidecar, &WIDGETS, "insync");
    stage.settled();
}

/// As versions left it that took the generations for a proof.
#[test]
fn a_field_dropped_earlier_arrives_at_the_next_start() {
    if !needs(Need::Embedded, "its kinds belong to one test") {
        return;
    }
    let (stage, mut sidecar, source, target) = one("earlier", &WIDGETS, &[]);
    sidecar.kill();
    source.merge(&json!({"spec": {"newField": "important"}}));
    let generation = source.generation().expect("a generation");
    source.annotate("cloud.teleport.dev/sync-remote-generation", Some(&generation));
    let _sidecar = stage.start(&[]);
    target.wait("the field", |it| it["spec"]["newField"] == "important");
    is_in_sync(&source, &target);
}

#[test]
fn an_edit_without_a_new_generation_is_copied() {
    let (stage, mut sidecar) = in_sync("no-generation", Setting::safe(&[&CLASSES]), &[]);
    let (source, target) = stage.pair(&CLASSES, "one");
    source.set_number(2);
    target.wait_for_number(2);
    target.set_number(9);
    target.wait_for_number(2);
    stage.settled();
    sidecar.kill();
    source.set_number(3);
    let before = stage.settled();
    let _sidecar = stage.start(&[]);
    target.wait_for_number(3);
    stage.wrote_only_after(before, &["local patch priorityclasses one"]);
}

// --- what cannot be changed ---

/// A volume's name in its claim, a Service's address.
#[test]
fn what_the_targets_side_added_for_good_is_no_difference() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, sidecar, _source, target) = one("added", &WIDGETS, &[]);
    let (uid, own) = (target.uid(), stage.own.cluster.faults());
    let rule = own.add(of_program(&stage.own, immutable()).verb("patch").resource("widgets"));
    target.merge(&json!({"spec": {"volumeName": "pv-1"}}));
    eventually("it is refused", || (own.hits(rule) > 0).then_some(()));
    stage.settled();
    assert_eq!((target.uid(), &target.read()["spec"]["volumeName"]), (uid, &json!("pv-1")));
    assert_eq!(count(&sidecar, &WIDGETS, "insync"), Some(1));
    stage.stays_quiet();
}
