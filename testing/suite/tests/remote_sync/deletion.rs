//! More of `smoke/deletion.rs`: finalizers of others, sources and copies that are made again.

use apiclient::error::Error;
use suite::{
    eventually,
    sync::{LOCAL_GENERATION, WIDGETS},
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

/// The copy of the old source goes, the copy of the new one stays.
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
