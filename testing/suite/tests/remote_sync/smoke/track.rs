//! Bookkeeping on the source: `-track`.

use serde_json::{Value, json};
use suite::{
    sync::{Place, SOURCE, Setting, Stage, WIDGETS},
    throughout,
};

pub(crate) const TARGET: [&str; 2] = ["-track", "target"];

/// Nothing of the program's is on the source.
pub(crate) fn is_bare(source: &Place) -> bool {
    let text = source.read()["metadata"].to_string();
    // The embedded server says in managedFields who wrote a status; a real one does, too.
    let fields: Value = source.read()["metadata"]["managedFields"].take();
    !text.replace(&fields.to_string(), "").contains("cloud.teleport.dev")
}

pub(crate) fn one(name: &str) -> (Stage, Place, Place) {
    let stage = Stage::pull(name, Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    (stage, source, target)
}

#[test]
fn track_target_takes_one_write_each_way() {
    let (stage, source, target) = one("track-target");
    let _sidecar = stage.start_served(&TARGET);
    stage.wrote_only(&["local create widgets one"]);
    assert!(target.annotation(SOURCE).is_some());
    let before = stage.settled();
    target.set_health(7);
    source.wait_for_health(7);
    stage.wrote_only_after(before, &["hub patch widgets/status one-remote-rs"]);
    let before = stage.settled();
    source.set_number(2);
    target.wait_for_number(2);
    stage.wrote_only_after(before, &["local patch widgets one"]);
    assert!(is_bare(&source), "{}", source.read());
}

#[test]
fn track_target_deletes_after_the_grace() {
    let (stage, source, target) = one("track-deletion");
    let _sidecar = stage.start_served(&[&TARGET[..], &["-orphan-grace", "3s"]].concat());
    target.wait_for_number(1);
    let before = stage.settled();
    source.delete();
    source.wait_until_gone();
    throughout(2000, "it is there for its grace", || target.get().is_some());
    target.wait_until_gone();
    stage.wrote_only_after(before, &["local delete widgets one"]);
}
