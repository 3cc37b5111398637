//! Namespaces of copies: who owns them, and when they are deleted.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    pause,
    sync::{Place, SETTINGS, SOURCE, Setting, Stage, WIDGETS, words},
};

use crate::support::{EMPTY, is_in_sync, of_program};

/// A widget in sync, in a namespace that was made for it.
fn in_own_namespace(name: &str) -> (Stage, suite::sidecar::Sidecar, Place, Place) {
    let stage = Stage::pull(name, Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "test");
    source.create_number(1);
    let sidecar = stage.start(&[EMPTY]);
    is_in_sync(&source, &target);
    stage.settled();
    (stage, sidecar, source, target)
}

#[test]
fn a_made_namespace_goes_once_it_is_empty() {
    let (stage, _sidecar, source, _target) = in_own_namespace("owned-safe");
    let namespace = stage.target_namespace();
    let before = stage.settled();
    source.delete();
    source.wait_until_gone();
    namespace.wait_until_gone();
    let delete = format!("local delete namespaces {}", namespace.name);
    stage.wrote_only_after(
        before,
        &["local delete widgets test", &delete, "hub patch widgets test-remote-rs"],
    );
}

#[test]
fn a_made_namespace_stays_by_default() {
    let (stage, source, _target) = Stage::with_widget("stays");
    let _sidecar = stage.start(&[]);
    source.wait("a claim", |_| source.is_claimed());
    stage.settled();
    source.delete();
    source.wait_until_gone();
    stage.stays_quiet();
    assert!(!stage.target_namespace().is_terminating());
}

/// What others put into it is theirs, of whatever kind.
#[test]
fn a_namespace_with_something_in_it_stays() {
    let (stage, sidecar, source, target) = in_own_namespace("not-empty");
    let theirs = stage.target_secret("theirs");
    theirs.create(&json!({"type": "Opaque"}));
    let uid = theirs.uid();
    source.delete();
    source.wait_until_gone();
    sidecar.wait_for("namespace kept");
    stage.stays_quiet();
    assert!(target.get().is_none());
    assert_eq!(theirs.uid(), uid);
    assert!(!stage.target_namespace().is_terminating());
}

#[test]
fn a_dry_run_ends_with_the_namespace() {
    let (stage, mut sidecar, source, target) = in_own_namespace("dry-namespace");
    sidecar.kill();
    source.delete();
    target.delete();
    let sidecar = stage.start(&[EMPTY, "-dry-run"]);
    sidecar.wait_for("action=delete_namespace");
    stage.stays_quiet();
    assert_eq!(sidecar.count("action=remove_finalizer"), 0, "{}", sidecar.log());
}

/// Each of two instances has its kind, and one of them made the namespace.
#[test]
fn a_namespace_with_another_instances_copy_stays() {
    if !needs(Need::Embedded, "each start grants the rights of its own flags alone") {
        return;
    }
    let mut stage = Stage::pull("two", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "web");
    source.create_number(1);
    let _widgets = stage.start(&[EMPTY, "-finalizer=cloud.teleport.dev/w"]);
    is_in_sync(&source, &target);
    stage.setting.kinds = vec![&SETTINGS];
    let (other, copy) = stage.pair(&SETTINGS, "db");
    other.create_number(1);
    let _settings = stage.start(&[EMPTY, "-finalizer=cloud.teleport.dev/s"]);
    is_in_sync(&other, &copy);
    let uid = copy.uid();
    source.delete();
    source.wait_until_gone();
    stage.stays_quiet();
    assert_eq!(copy.uid(), uid);
    assert!(!stage.target_namespace().is_terminating());
}

/// Whoever it was made for: the last one takes it along.
#[test]
fn a_namespace_goes_with_the_last_copy_in_it() {
    let (stage, _sidecar, source, _target) = in_own_namespace("last-one");
    let (second, copy) = stage.pair(&WIDGETS, "second");
    second.create_number(2);
    is_in_sync(&second, &copy);
    source.delete();
    source.wait_until_gone();
    assert!(!stage.target_namespace().is_terminating());
    second.delete();
    second.wait_until_gone();
    stage.target_namespace().wait_until_gone();
}

/// An empty table is no proof: right after a start the other kind may not have been listed yet.
#[test]
fn an_owned_namespace_stays_while_its_content_is_unknown() {
    if !needs(Need::Embedded, "a list can be refused") {
        return;
    }
    let stage = Stage::pull("unlisted", Setting::safe(&[&WIDGETS, &SETTINGS]));
    let (source, target) = stage.pair(&WIDGETS, "owner");
    source.create_number(1);
    let sidecar = stage.start(&[EMPTY]);
    is_in_sync(&source, &target);
    let (other, copy) = stage.pair(&SETTINGS, "other");
    other.create_number(1);
    is_in_sync(&other, &copy);
    drop(sidecar);
    let plural = &SETTINGS.resource.plural;
    for side in stage.sides() {
        side.cluster.faults().add(of_program(side, code(503)).verb("list").resource(plural));
    }
    source.delete();
    let sidecar = stage.start(&[EMPTY]);
    sidecar.wait_for("namespace kept");
    assert!(!stage.target_namespace().is_terminating());
    assert!(copy.get().is_some());
    stage.sides().for_each(|side| side.cluster.faults().heal());
    target.wait_until_gone();
    source.wait_until_gone();
    assert!(!stage.target_namespace().is_terminating());
    assert!(copy.get().is_some());
}

#[test]
fn a_namespace_that_is_going_is_waited_for() {
    let (stage, _sidecar, source, target) = in_own_namespace("going");
    let namespace = stage.target_namespace();
    let keeper = target.sibling(&suite::sync::CONFIGS, "keeper");
    keeper.create(&json!({"metadata": {"finalizers": ["example.com/other"]}}));
    namespace.delete();
    target.wait_until_gone();
    pause(1500);
    let tries = stage.writes().iter().filter(|one| one.words.starts_with("local create")).count();
    assert!(tries < 6, "no hot loop: {:?}", words(&stage.writes()));
    keeper.set_finalizers(&[]);
    is_in_sync(&source, &target);
    assert!(
        namespace
            .annotation(SOURCE)
            .is_some_and(|mark| mark.contains(&format!("/{}/", source.name)))
    );
}

/// Someone else makes the namespace between our look and our write.
#[test]
fn a_namespace_that_is_there_already_is_no_failure() {
    if !needs(Need::Embedded, "a write can be held") {
        return;
    }
    let stage = Stage::pull("made-meanwhile", Setting::safe(&[&WIDGETS]));
    let delay = of_program(&stage.own, Action::Delay { milliseconds: 500 });
    let rule = stage.own.cluster.faults().add(delay.verb("create").resource("namespaces").times(1));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    let _sidecar = stage.start(&[EMPTY]);
    let own = stage.own.cluster.faults();
    eventually("it makes the namespace", || (own.hits(rule) > 0).then_some(()));
    stage.create_target_namespace(&json!({}));
    is_in_sync(&source, &target);
    assert_eq!(stage.target_namespace().annotation(SOURCE), None);
}

#[test]
fn names_that_cannot_be_mapped_are_left_alone() {
    // Without a dash, so that an object can be called just that.
    let setting = Setting { suffix: "rs".into(), ..Setting::safe(&[&WIDGETS]) };
    let stage = Stage::pull("unmapped", setting);
    let good = stage.source(&WIDGETS, "good");
    for name in ["rs", "another-suffix"] {
        good.sibling(&WIDGETS, name).create_number(1);
    }
    // As long as a namespace may be; its copy's would be longer.
    let long = format!("{}-{}", stage.namespace, "x".repeat(62 - stage.namespace.len()));
    stage.remote().cluster.create_namespace(&long);
    stage.source_in(0, &WIDGETS, &long, "one").create_number(1);
    let elsewhere = stage.remote().cluster.new_namespace("elsewhere");
    stage.source_in(0, &WIDGETS, &elsewhere, "one").create_number(1);
    good.create_number(1);
    let sidecar = stage.start_served(&[]);
    is_in_sync(&good, &stage.target(&WIDGETS, "good"));
    // One has no name, one no namespace; the two others are not ours to count.
    let pairs = |state: &str| {
        let labels = "remote=\"hub\",resource=\"widgets.sync.example.com\"";
        sidecar.metric(&format!("remote_sync_pairs{{{labels},state=\"{state}\"}}"))
    };
    eventually("two cannot be mapped", || {
        (pairs("failing"), pairs("insync")) == (Some(2.0), Some(1.0))
    });
    eventually("both are told", || sidecar.warnings("failing") == 2);
    let namespace = format!("local create namespaces {}-local-ns", stage.namespace);
    let (remote, local) = ("hub patch widgets goodrs", "local create widgets good");
    stage.wrote_only(&[remote, local, &namespace, local, remote]);
}
