//! Other modes of operation: a dry run, one pass, cleanup.

use serde_json::{Value, json};
use suite::{
    eventually, pause,
    relay::Way,
    sync::{BUDGETS, Setting, Stage, WIDGETS, words},
};

use crate::support::{has_pairs, is_held, is_in_sync};

#[test]
fn a_dry_run_writes_nothing_and_says_what_it_would() {
    let stage = Stage::pull("dry", Setting::safe(&[&WIDGETS]));
    let [source, gone] = ["one", "gone"].map(|name| stage.source(&WIDGETS, name));
    gone.create_number(1);
    let mut sidecar = stage.start(&[]);
    let copy = stage.target(&WIDGETS, "gone");
    is_in_sync(&gone, &copy);
    sidecar.kill();
    gone.delete();
    source.create_number(1);
    let before = stage.settled();
    let sidecar = stage.start_served(&["-dry-run", "-max-deletions", "1/10m"]);
    for (name, says) in
        [("one-remote-rs", "written: add_finalizer"), ("gone-remote-rs", "written: delete_target")]
    {
        eventually(&format!("{name}: {says}"), || {
            let log = sidecar.log();
            log.lines().any(|line| line.contains(name) && line.contains(says))
        });
    }
    has_pairs(&sidecar, "hub", "held", 2.0);
    is_held(&sidecar, 1.0);
    // The deletion has its token: no later pass waits for one.
    gone.annotate("note", Some("x"));
    pause(1500);
    assert!(sidecar.ask("/readyz").1.contains("2 pairs are held: dry run"));
    assert_eq!(words(&stage.writes()[before..]), [""; 0]);
    assert!(gone.is_terminating() && copy.get().is_some());
    assert!(sidecar.log().lines().count() < 60, "no loop: {}", sidecar.log());
    source.set_number(2);
    stage.stays_quiet();
}

#[test]
fn once_waits_for_a_hub_ends_in_sync_and_writes_nothing_again() {
    let stage = Stage::pull("once", Setting::safe(&[&WIDGETS, &BUDGETS]));
    let pairs = [(&WIDGETS, "a"), (&WIDGETS, "b"), (&BUDGETS, "a")];
    let pairs = pairs.map(|(kind, name)| stage.pair(kind, name));
    for (source, _) in &pairs {
        source.create_number(1);
    }
    stage.remote().relay.set(Way::Closed);
    for times in [&["-wait-timeout", "2"][..], &[]] {
        let (code, log) = stage.run(&[&["-once"], times].concat());
        assert_eq!(code, Some(1), "{log}");
    }
    assert_eq!(words(&stage.writes()), [""; 0]);
    let mut sidecar = stage.start(&["-once", "-wait-timeout", "30"]);
    pause(1500);
    assert!(sidecar.alive(), "{}", sidecar.log());
    stage.remote().relay.set(Way::Open);
    assert_eq!(sidecar.wait().code(), Some(0), "{}", sidecar.log());
    for (source, target) in &pairs {
        is_in_sync(source, target);
    }
    let before = stage.settled();
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(words(&stage.writes()[before..]), [""; 0]);
    // Deletions are part of it.
    pairs[1].0.delete();
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(pairs[1].0.get().is_none() && pairs[1].1.get().is_none());
}

/// The annotations of an object that are the program's.
fn traces(object: &Value) -> Vec<String> {
    let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
    all.map(|(key, _)| key.clone()).filter(|key| key.starts_with("cloud.teleport.dev/")).collect()
}

#[test]
fn cleanup_leaves_the_objects_and_nothing_of_its_own() {
    let setting = Setting::safe(&[&WIDGETS]);
    let stage = Stage::pull("cleanup", setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create(&json!({
        "metadata": {"finalizers": ["example.com/other"], "annotations": {"note": "x"}},
        "spec": {"size": 1},
    }));
    // On servers that others share, too, it is only about its own.
    let own = format!("-finalizer=cloud.teleport.dev/{}", stage.namespace);
    let mut sidecar = stage.start(&[&own]);
    is_in_sync(&source, &target);
    assert_eq!(sidecar.terminate().0, Some(0));
    let uids = [source.uid(), target.uid()];
    let (code, log) = stage.run(&["-cleanup", &own]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(source.finalizers(), ["example.com/other"]);
    assert_eq!((traces(&source.read()), traces(&target.read())), (vec![], vec![]), "{log}");
    assert_eq!(source.annotation("note").as_deref(), Some("x"));
    assert_eq!([source.uid(), target.uid()], uids);
    assert_eq!(target.number(), Some(1));
    // Again there is nothing to do.
    let before = stage.settled();
    assert_eq!(stage.run(&["-cleanup", &own]).0, Some(0));
    assert_eq!(words(&stage.writes()[before..]), [""; 0]);
}
