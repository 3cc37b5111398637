//! What the program reports about single objects: `-explain`.

use serde_json::json;
use suite::{
    relay::Way,
    sync::{PAUSED, Place, Stage, WIDGETS, words},
};

use crate::support::is_in_sync;

/// What it prints about an object of this kind and name, and its exit code.
fn explain_named(stage: &Stage, kind: &str, object: &str) -> (Option<i32>, String) {
    let mut sidecar = stage.start_as(|command| {
        stage.add_remotes(command);
        command.args(["-explain", kind, object]);
    });
    let code = sidecar.wait().code();
    (code, format!("{}\n{}", sidecar.printed(), sidecar.log()))
}

/// The same of a widget.
fn explain(stage: &Stage, place: &Place) -> (Option<i32>, String) {
    let object = format!("{}/{}", place.namespace.as_deref().unwrap_or_default(), place.name);
    explain_named(stage, "widgets.sync.example.com", &object)
}

#[track_caller]
fn says(explained: &(Option<i32>, String), parts: &[&str]) {
    let (code, text) = explained;
    assert_eq!(*code, Some(0), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn explain_says_what_comes_next_and_why() {
    let (stage, source, target) = Stage::with_widget("explain");
    says(&explain(&stage, &source), &["next: add_finalizer, as the source must not go"]);
    assert_eq!(words(&stage.writes()), [""; 0], "it only reads");
    let mut sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    stage.settled();
    sidecar.kill();
    let before = stage.writes().len();
    let (code, text) = explain(&stage, &target);
    assert!(!text.contains("next:"), "{text}");
    says(&(code, text), &["remote hub: insync"]);
    source.set_number(2);
    let differs = ["next: update_target, as the contents differ"];
    says(&explain(&stage, &source), &differs);
    source.annotate(PAUSED, Some("true"));
    says(&explain(&stage, &source), &["paused"]);
    assert_eq!(stage.writes().len(), before);
}

#[test]
fn explain_names_what_is_in_the_way() {
    let (stage, source, target) = Stage::with_widget("explain-not");
    stage.create_target_namespace(&json!({}));
    target.create_number(7);
    says(&explain(&stage, &source), &["conflict: ", "-adopt"]);
    // Without a source there is nothing that could be in sync.
    let own = target.sibling(&WIDGETS, "own");
    own.create_number(1);
    let (code, text) = explain(&stage, &own);
    assert!(code == Some(0) && text.contains("nothing to do, there is no pair"), "{text}");
    let nobody = source.sibling(&WIDGETS, "nobody-remote-rs");
    let (code, text) = explain(&stage, &nobody);
    assert!(code == Some(3) && text.contains("neither a source nor a target"), "{code:?} {text}");
    let (code, text) = explain_named(&stage, "gadgets", "a/b");
    assert!(code == Some(2) && text.contains("-resource does not name gadgets"), "{text}");
    stage.remote().relay.set(Way::Closed);
    says(&explain(&stage, &target), &["nothing is done: the connection to cluster hub is down"]);
}
