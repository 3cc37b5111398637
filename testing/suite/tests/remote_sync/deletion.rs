//! More of `smoke/deletion.rs`: finalizers of others, sources made again.

use apiclient::error::Error;
use suite::{
    eventually, stays,
    sync::{BUDGETS, Setting, Stage, WIDGETS, words},
};

use crate::support::{is_in_sync, one, one_budget};

const OTHER: &str = "example.com/other";

#[test]
fn a_finalizer_of_another_on_the_copy_is_waited_for() {
    let (stage, _sidecar, source, target) = one_budget("foreign");
    target.set_finalizers(&[OTHER]);
    let before = stage.settled();
    source.delete();
    stage.wrote_only_after(before, &["local delete poddisruptionbudgets one"]);
    assert!(source.is_claimed() && target.is_terminating());
    target.set_finalizers(&[]);
    source.wait_until_gone();
    let removed = "hub patch poddisruptionbudgets one-remote-rs";
    stage.wrote_only_after(before, &["local delete poddisruptionbudgets one", removed]);
}

#[test]
fn a_copy_that_is_gone_already_frees_its_source() {
    let (stage, mut sidecar, source, target) = one("gone-already", &WIDGETS, &[]);
    sidecar.kill();
    source.delete();
    target.delete();
    target.wait_until_gone();
    let before = stage.settled();
    let _sidecar = stage.start(&[]);
    source.wait_until_gone();
    stage.wrote_only_after(before, &["hub patch widgets one-remote-rs"]);
}

/// Deleted and made again at once: the copy of the old one goes, that of the new one stays.
#[test]
fn a_source_that_is_deleted_and_made_again() {
    let (stage, _sidecar, source, target) = one("again", &WIDGETS, &[]);
    let old = target.uid();
    source.delete();
    eventually("it is made again", || {
        let mut object = WIDGETS.content(5);
        object["apiVersion"] = "sync.example.com/v1".into();
        object["kind"] = "Widget".into();
        object["metadata"]["name"] = source.name.clone().into();
        match source.cluster.client.create(&source.target().siblings(), &object) {
            Err(Error::AlreadyExists(_)) => None,
            answer => Some(answer.unwrap_or_else(|error| panic!("{error}"))),
        }
    });
    target.wait_for_number(5);
    is_in_sync(&source, &target);
    assert_ne!(target.uid(), old);
    stage.stays_quiet();
}

#[test]
fn a_new_source_waits_for_the_end_of_its_old_copy() {
    let setting = Setting::safe(&[&BUDGETS]);
    let stage = Stage::pull("still-going", setting);
    stage.create_target_namespace(&serde_json::json!({}));
    let (source, target) = stage.pair(&BUDGETS, "one");
    source.create_number(1);
    let _sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    let old = target.uid();
    target.set_finalizers(&[OTHER]);
    // The program has seen it, or its DELETE would be refused once.
    stage.settled();
    source.delete();
    eventually("the copy is going", || target.is_terminating().then_some(()));
    source.delete_by_force();
    source.create_number(2);
    source.wait("a claim", |_| source.is_claimed());
    assert!(target.is_terminating());
    target.set_finalizers(&[]);
    let new = target.wait("a new one", |object| object["metadata"]["uid"] != old);
    is_in_sync(&source, &target);
    stage.settled();
    stays("the new one is there", || target.uid() == new["metadata"]["uid"]);
    let writes = stage.writes();
    let deletions = words(&writes).iter().filter(|it| it.contains(" delete ")).count();
    assert_eq!(deletions, 1, "{:?}", words(&writes));
}
