//! Other modes of operation: a dry run, one pass, cleanup, pauses, other names.

use dev_apiserver::Action;
use serde_json::Value;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    sync::{BUDGETS, PAUSED, Setting, Stage, WIDGETS, words},
};

use crate::support::{UNSEEN, is_in_sync, is_told_once, of_program, one, one_budget};

// --- dry run ---

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
    let sidecar = stage.start(&["-dry-run"]);
    for (name, says) in
        [("one-remote-rs", "action=add_finalizer"), ("gone-remote-rs", "action=delete_target")]
    {
        eventually(&format!("{name}: {says}"), || {
            let log = sidecar.log();
            log.lines().any(|line| line.contains(name) && line.contains(says))
        });
    }
    pause(1500);
    assert_eq!(words(&stage.writes()[before..]), [""; 0]);
    assert!(gone.is_terminating() && copy.get().is_some());
    assert!(sidecar.log().lines().count() < 60, "no loop: {}", sidecar.log());
    source.set_number(2);
    stage.stays_quiet();
}

// --- once ---

#[test]
fn once_ends_with_0_when_all_is_in_sync() {
    let stage = Stage::pull("once", Setting::safe(&[&WIDGETS, &BUDGETS]));
    let names = ["a", "b", "c"];
    for name in names {
        stage.source(&WIDGETS, name).create_number(1);
    }
    stage.source(&BUDGETS, "a").create_number(1);
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    for name in names {
        is_in_sync(&stage.source(&WIDGETS, name), &stage.target(&WIDGETS, name));
    }
    is_in_sync(&stage.source(&BUDGETS, "a"), &stage.target(&BUDGETS, "a"));
    let before = stage.settled();
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(words(&stage.writes()[before..]), [""; 0]);
    // Deletions are part of it.
    stage.source(&WIDGETS, "b").delete();
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(stage.source(&WIDGETS, "b").get().is_none());
    assert!(stage.target(&WIDGETS, "b").get().is_none());
}

#[test]
fn once_waits_for_a_hub_that_is_away_for_its_time() {
    let stage = Stage::pull("once-away", Setting::safe(&[&WIDGETS]));
    stage.source(&WIDGETS, "one").create_number(1);
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
    is_in_sync(&stage.source(&WIDGETS, "one"), &stage.target(&WIDGETS, "one"));
}

#[test]
fn once_ends_an_orphan_whose_grace_fits_its_time() {
    if !needs(Need::Embedded, UNSEEN) {
        return;
    }
    let (stage, mut sidecar, source, target) = one("once-orphan", &WIDGETS, &[]);
    sidecar.kill();
    source.delete_by_force();
    // The grace exceeds its time: it reports the orphan instead of waiting.
    for times in [&["-wait-timeout", "2"][..], &[]] {
        let (code, log) = stage.run(&[&["-once", "-orphan-grace", "5m"][..], times].concat());
        assert_eq!(code, Some(0), "{log}");
        let mut left = log.lines().filter(|line| line.contains("ended without syncing it"));
        let left = left.next().unwrap_or_else(|| panic!("{log}"));
        assert!(left.contains("name=one") && left.contains("state=held"), "{left}");
        assert!(target.get().is_some());
    }
    let (code, log) = stage.run(&["-once", "-orphan-grace", "2s", "-wait-timeout", "20"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(target.get().is_none(), "{log}");
    assert!(!log.contains("ended without syncing it"), "{log}");
}

// --- cleanup ---

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
    source.create(&serde_json::json!({
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

#[test]
fn cleanup_ends_with_1_and_says_what_it_could_not_clean() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, mut sidecar, source, target) = one("cleanup-left", &WIDGETS, &[]);
    sidecar.kill();
    stage.remote().relay.set(Way::Closed);
    let (code, log) = stage.run(&["-cleanup"]);
    assert!(code.is_some_and(|code| code != 0), "{code:?} {log}");
    stage.remote().relay.set(Way::Open);
    let hub = stage.remote().cluster.faults();
    let refused = of_program(stage.remote(), Action::Forbid).verb("patch").resource("widgets");
    let rule = hub.add(refused);
    let (code, log) = stage.run(&["-cleanup"]);
    assert_eq!((code, source.is_claimed()), (Some(1), true), "{log}");
    let key = format!("widgets.sync.example.com {}/{} (hub): ", stage.namespace, source.name);
    assert!(log.contains("1 not cleaned: ") && log.contains(&key), "{log}");
    hub.remove(rule);
    // A hub may let its clusters see one namespace only; without being told of that it has seen nothing.
    let all = of_program(stage.remote(), Action::Forbid).verb("list").resource("widgets");
    hub.add(all.namespace(""));
    let (code, log) = stage.run(&["-cleanup"]);
    assert_eq!((code, source.is_claimed()), (Some(1), true), "{log}");
    // Others are faster once.
    let stale = Action::Answer { code: 409, body: None, retry_after: None };
    hub.add(of_program(stage.remote(), stale).verb("patch").times(1));
    let (code, log) = stage.run(&["-cleanup", "-source-namespace", &stage.namespace]);
    assert_eq!((code, source.is_claimed()), (Some(0), false), "{log}");
    assert!(target.get().is_some());
}

/// A remote of the registry: one that is gone, and a registry that cannot be read.
#[test]
fn cleanup_releases_sources_of_a_removed_remote() {
    if !needs(Need::Embedded, "a list can be refused") {
        return;
    }
    let own = Cluster::embedded("management");
    let remotes = vec![("c1", Cluster::embedded("c1"))];
    let setting = Setting { namespace_suffix: String::new(), ..Setting::push(&[&WIDGETS]) };
    let stage = Stage::between(own, remotes, "cleanup-registry", setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    stage.put_kubeconfig("c1", &stage.remote().kubeconfig());
    let start = |more: &[&str]| {
        stage.start_as(|command| {
            command.args(["-remote-selector", "cluster.x-k8s.io/cluster-name"]).args(more);
        })
    };
    let ends = |code: i32| {
        let mut cleanup = start(&["-cleanup"]);
        assert_eq!(cleanup.wait().code(), Some(code), "{}", cleanup.log());
        cleanup.log()
    };
    let mut sidecar = start(&[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    let faults = stage.own.cluster.faults();
    let rule = faults.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
    let log = ends(1);
    assert!(log.contains("not cleaned: registry: "), "{log}");
    assert!(!source.is_claimed(), "what is known is cleaned");
    faults.remove(rule);
    let mut sidecar = start(&[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    stage.delete_kubeconfig("c1");
    source.delete();
    assert!(source.is_claimed());
    ends(0);
    source.wait_until_gone();
}

// --- pauses ---

#[test]
fn a_pause_of_either_object_holds_everything() {
    let (stage, _sidecar, source, target) = one_budget("pause");
    source.annotate(PAUSED, Some("true"));
    stage.settled();
    target.set_health(4);
    source.set_number(2);
    stage.stays_quiet();
    target.annotate(PAUSED, Some("true"));
    source.annotate(PAUSED, None);
    stage.stays_quiet();
    target.annotate(PAUSED, None);
    source.wait_for_health(4);
    target.wait_for_number(2);

    source.annotate(PAUSED, Some("true"));
    stage.settled();
    source.delete();
    is_told_once(&source, "SyncHeld", "paused");
    stage.stays_quiet();
    assert!(target.get().is_some() && source.is_terminating());
    source.annotate(PAUSED, None);
    source.wait_until_gone();
    assert!(target.get().is_none());
}

// --- names ---

/// All names in the words of another organisation.
#[test]
fn another_finalizer_changes_all_names() {
    let (stage, source, target) = Stage::with_widget("prefix");
    let _sidecar = stage.start(&["-finalizer", "sync.example.org/sync-local"]);
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
