//! The content of copies, and edits by others.

use apiclient::resource::Resource as Served;
use dev_apiserver::{Action, Resource};
use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    real,
    sync::{FINALIZER, LOCAL_GENERATION, Place, REMOTE_GENERATION, Setting, Stage, WIDGETS, words},
};

use crate::support::{is_in_sync, of_program, one_budget};

const OTHER: &str = "example.com/other";

// --- finalizers of others ---

#[test]
fn anothers_finalizer_added_meanwhile_stays() {
    let setting = Setting::safe(&[&WIDGETS]);
    let stage = Stage::pull("finalizers", setting);
    let source = stage.source(&WIDGETS, "one");
    source.create_number(1);
    // Where it can be arranged, the other one comes between its read and its write.
    let held = hold_patches(&stage);
    let _sidecar = stage.start(&[]);
    if let Some(rule) = held {
        let hub = stage.remote().cluster.faults();
        eventually("the claim is under way", || (hub.hits(rule) > 0).then_some(()));
    }
    source.alter(|object| {
        let list = &mut object["metadata"]["finalizers"];
        match list.as_array_mut() {
            Some(list) => list.push(json!(OTHER)),
            None => *list = json!([OTHER]),
        }
    });
    is_in_sync(&source, &stage.target(&WIDGETS, "one"));
    let mut finalizers = source.finalizers();
    finalizers.sort();
    assert_eq!(finalizers, [FINALIZER, OTHER]);
}

/// The next patch of the program's on the hub takes half a second.
fn hold_patches(stage: &Stage) -> Option<u64> {
    let delay = Action::Delay { milliseconds: 500 };
    let rule = of_program(stage.remote(), delay).verb("patch").times(1);
    (!real()).then(|| stage.remote().cluster.faults().add(rule))
}

// --- edits on either side ---

/// The number in the spec that is written, whole or as a JSON patch.
fn available(body: &Value) -> Option<u64> {
    let operations = body.as_array().into_iter().flatten();
    let patched = operations.filter(|one| one["path"] == "/spec").map(|one| &one["value"]).next();
    patched.unwrap_or(&body["spec"])["minAvailable"].as_u64()
}

#[test]
fn of_quick_edits_the_last_counts() {
    let (stage, _sidecar, source, target) = one_budget("quick");
    let before = stage.settled();
    for number in 2..8 {
        source.set_number(number);
    }
    target.wait_for_number(7);
    is_in_sync(&source, &target);
    assert_eq!(source.annotation(REMOTE_GENERATION), source.generation());
    stage.settled();
    let writes = stage.writes().split_off(before);
    let copied: Vec<_> = writes.iter().filter(|one| one.words.starts_with("local")).collect();
    let accepted = copied.iter().filter(|one| one.code == 200).count();
    assert!((1..=6).contains(&accepted), "{:?}", words(&writes));
    if !real() {
        let numbers: Vec<_> = copied.iter().filter_map(|one| available(&one.body)).collect();
        assert_eq!((numbers.len(), numbers.last()), (copied.len(), Some(&7)));
        assert!(numbers.is_sorted(), "no change is undone: {numbers:?}");
    }
}

#[test]
fn an_edit_of_the_sources_status_is_undone() {
    let (stage, _sidecar, source, target) = one_budget("status-edited");
    target.set_health(3);
    source.wait_for_health(3);
    source.set_health(9);
    source.wait_for_health(3);
    assert_eq!(target.healthy(), Some(3));
    stage.stays_quiet();
}

// --- servers that change what is written ---

/// The target's server adds something to whatever is written.
fn defaulting(stage: &Stage) {
    let Served { group, version, plural, kind } = &WIDGETS.resource;
    let resource = Resource::custom(group, version, plural, kind, true)
        .with_default("added", json!("by the server"));
    stage.own.cluster.server().register(resource);
}

#[test]
fn an_altering_server_gets_one_write_per_generation() {
    if !needs(Need::Embedded, "there is a server that adds to what is written") {
        return;
    }
    let stage = Stage::pull("altering", Setting::safe(&[&WIDGETS]));
    defaulting(&stage);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    let mut sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    assert_eq!(target.read()["spec"]["added"], "by the server");
    stage.stays_quiet();
    let before = stage.settled();
    source.set_number(2);
    is_in_sync(&source, &target);
    let update = "local patch widgets one";
    stage.wrote_only_after(before, &[update, "hub patch widgets one-remote-rs"]);
    sidecar.kill();
    restarted(&stage, &target);
}

/// No annotation says what the server adds: the next process writes once, which changes nothing.
fn restarted(stage: &Stage, target: &Place) {
    let before = stage.settled();
    let _sidecar = stage.start(&[]);
    stage.source(&WIDGETS, "other").create_number(1);
    stage.target(&WIDGETS, "other").wait_for_number(1);
    stage.settled();
    let writes = stage.writes();
    let again = words(&writes[before..]).iter().filter(|words| words.ends_with(" one")).count();
    assert!(again <= 1, "{:?}", words(&writes[before..]));
    assert_eq!(target.number(), Some(2));
}

#[test]
fn a_deleted_copy_is_created_again() {
    let (stage, _sidecar, source, target) = one_budget("deleted-copy");
    source.set_number(2);
    is_in_sync(&source, &target);
    assert_eq!(source.annotation(LOCAL_GENERATION).as_deref(), Some("2"));
    let uid = target.uid();
    target.delete();
    target.wait("a new one", |object| object["metadata"]["uid"] != uid);
    is_in_sync(&source, &target);
    assert_eq!(source.annotation(LOCAL_GENERATION).as_deref(), Some("1"));
    assert_eq!(target.number(), Some(2));
    stage.stays_quiet();
}
