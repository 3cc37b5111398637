//! The life cycle of remotes, namespaces and Secrets: what is taken away leaves nothing behind unsaid.

use std::process::Command;

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    sidecar::Sidecar,
    sync::{Place, Setting, Stage, WIDGETS},
};

use crate::support::{UNSEEN, is_in_sync, is_ready, of_program, one};

// --- Secrets ---

#[test]
fn secrets_that_may_not_be_listed_hold_up_nothing_else() {
    if !needs(Need::Embedded, "a list can be refused") {
        return;
    }
    let setting = Setting::safe(&[&WIDGETS]).secrets(&["token", "extra"]);
    let stage = Stage::pull("secrets-unlisted", setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    for name in ["token", "extra"] {
        stage.source_secret(name).create(&json!({"type": "Opaque"}));
    }
    let faults = stage.own.cluster.faults();
    let forbidden = of_program(&stage.own, Action::Forbid).verb("list").resource("secrets");
    let rule = faults.add(forbidden.name("extra"));
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    for name in ["token", "extra"] {
        stage.create_target_secret(name, name, Some(&target));
    }
    let uploaded = |name: &str| stage.source_secret(name).read()["data"]["data"].is_string();
    eventually("the other goes up", || uploaded("token").then_some(()));
    assert!(!uploaded("extra"));
    let remarks = sidecar.ask("/readyz").1;
    assert!(remarks.contains("secrets/extra (hub): "), "{remarks}");
    assert!(!remarks.contains("secrets/token") && !remarks.contains("widgets"), "{remarks}");
    let ready = |name: &str| is_ready(&sidecar, &format!("secrets/{name}"));
    assert_eq!((ready("token"), ready("extra")), (true, false));
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("secrets/extra (hub): "), "{log}");
    faults.remove(rule);
    eventually("it goes up too", || uploaded("extra").then_some(()));
    eventually("nothing is wrong", || ready("extra"));
}

// --- remotes ---

/// A source in the own cluster whose remote is in the registry, and its copy.
fn pushed(name: &str) -> (Stage, Place, Place) {
    let own = Cluster::embedded("management");
    let remotes = vec![("c1", Cluster::embedded("c1"))];
    let setting = Setting { namespace_suffix: String::new(), ..Setting::push(&[&WIDGETS]) };
    let stage = Stage::between(own, remotes, name, setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    stage.put_kubeconfig("c1", &stage.remote().kubeconfig());
    (stage, source, target)
}

fn start(stage: &Stage, more: &[&str]) -> Sidecar {
    stage.start_as(|command: &mut Command| {
        command.args(["-remote-selector", "cluster.x-k8s.io/cluster-name"]).args(more);
    })
}

#[test]
fn cleanup_releases_sources_of_a_removed_remote() {
    if !needs(Need::Embedded, "its own cluster has no other sources") {
        return;
    }
    let (stage, source, target) = pushed("cleanup");
    let mut sidecar = start(&stage, &[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    stage.delete_kubeconfig("c1");
    source.delete();
    assert!(source.is_claimed());
    let mut cleanup = start(&stage, &["-cleanup"]);
    assert_eq!(cleanup.wait().code(), Some(0), "{}", cleanup.log());
    source.wait_until_gone();
}

#[test]
fn cleanup_that_cannot_know_all_remotes_says_so() {
    if !needs(Need::Embedded, "a list can be refused") {
        return;
    }
    let (stage, source, target) = pushed("unknown");
    let mut sidecar = start(&stage, &[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    let faults = stage.own.cluster.faults();
    let rule = faults.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
    let mut cleanup = start(&stage, &["-cleanup"]);
    assert_eq!(cleanup.wait().code(), Some(1), "{}", cleanup.log());
    assert!(cleanup.log().contains("not cleaned: registry: "), "{}", cleanup.log());
    assert!(!source.is_claimed(), "what is known is cleaned");
    faults.remove(rule);
    let mut cleanup = start(&stage, &["-cleanup"]);
    assert_eq!(cleanup.wait().code(), Some(0), "{}", cleanup.log());
}

// --- namespaces ---

// --- once ---

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
