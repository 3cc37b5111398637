//! `-cleanup` that cannot read or write everything.

use dev_apiserver::Action;
use suite::{faults::code, relay::Way};

use crate::{
    faults::{push, registry},
    support::{is_in_sync, of_program, one},
};

#[test]
fn cleanup_ends_with_1_and_says_what_it_could_not_clean() {
    let (stage, mut sidecar, source, target) = one("cleanup-left", &[]);
    sidecar.kill();
    stage.remote().relay.set(Way::Closed);
    let (exit, log) = stage.run(&["-cleanup"]);
    assert!(exit.is_some_and(|code| code != 0), "{exit:?} {log}");
    stage.remote().relay.set(Way::Open);
    let hub = stage.remote().cluster.faults();
    // A hub may let its clusters list one namespace only; without being told of that it has seen nothing.
    let all = of_program(stage.remote(), Action::Forbid).verb("list").resource("widgets");
    hub.add(all.namespace(""));
    let (exit, log) = stage.run(&["-cleanup"]);
    assert_eq!((exit, source.is_claimed()), (Some(1), true), "{log}");

    let narrow = ["-cleanup", "-source-namespace", &stage.namespace];
    let patch = of_program(stage.remote(), Action::Forbid).verb("patch").resource("widgets");
    let rule = hub.add(patch);
    let (exit, log) = stage.run(&narrow);
    assert_eq!((exit, source.is_claimed()), (Some(1), true), "{log}");
    let key = format!("widgets.sync.example.com {}/{} (hub): ", stage.namespace, source.name);
    assert!(log.contains("1 not cleaned: ") && log.contains(&key), "{log}");
    hub.remove(rule);
    // Others are faster once.
    hub.add(of_program(stage.remote(), code(409)).verb("patch").times(1));
    let (exit, log) = stage.run(&narrow);
    assert_eq!((exit, source.is_claimed()), (Some(0), false), "{log}");
    assert!(target.get().is_some());
}

#[test]
fn cleanup_releases_sources_of_removed_and_unknown_remotes() {
    let (stage, [(source, target), _]) = push::stage("cleanup");
    registry::put(&stage, 0);
    let mut sidecar = registry::start(&stage, &[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    let faults = stage.own.cluster.faults();
    let list = of_program(&stage.own, Action::Forbid).verb("list").resource("secrets");
    let rule = faults.add(list);
    let mut cleanup = registry::start(&stage, &["-cleanup"]);
    assert_eq!(cleanup.wait().code(), Some(1), "{}", cleanup.log());
    assert!(cleanup.log().contains("not cleaned: registry: "), "{}", cleanup.log());
    assert!(!source.is_claimed(), "what is known is cleaned");
    faults.remove(rule);

    let mut sidecar = registry::start(&stage, &[]);
    is_in_sync(&source, &target);
    sidecar.kill();
    stage.delete_kubeconfig("east");
    source.delete();
    assert!(source.is_claimed());
    let mut cleanup = registry::start(&stage, &["-cleanup"]);
    assert_eq!(cleanup.wait().code(), Some(0), "{}", cleanup.log());
    source.wait_until_gone();
}
