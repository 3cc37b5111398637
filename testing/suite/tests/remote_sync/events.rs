//! Events on the source object for people.

use serde_json::Value;
use suite::{
    cluster::resource,
    eventually,
    listing::list,
    needs::{Need, needs},
    stays,
    sync::{PAUSED, Place, Setting, WIDGETS},
};

use crate::support::{immutable, in_sync, of_program, one};

/// The Events about this object.
pub(crate) fn events(place: &Place) -> Vec<Value> {
    let events = resource("", "events", "Event");
    let namespace = place.namespace.clone().expect("a namespace");
    let all = list(&place.cluster.client, &events.collection(&namespace), "").expect("a list");
    all.into_iter().filter(|event| event["involvedObject"]["name"] == place.name.as_str()).collect()
}

/// Waits for an Event of this reason, and checks that it stays the only one.
#[track_caller]
fn is_told_once(place: &Place, reason: &str, part: &str) {
    let found = eventually(&format!("an Event {reason}"), || {
        events(place).into_iter().find(|event| event["reason"] == reason)
    });
    let message = found["message"].as_str().unwrap_or_default();
    assert!(message.contains(part), "{message}");
    assert_eq!(found["type"], "Warning");
    assert_eq!(found["involvedObject"]["uid"], place.uid());
    stays("it is told once", || events(place).len() == 1);
}

#[test]
fn a_rejected_object_is_reported_once() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, _sidecar, source, _) = one("event-refused", &WIDGETS, &[]);
    stage
        .own
        .cluster
        .faults()
        .add(of_program(&stage.own, immutable()).verb("patch").resource("widgets"));
    source.set_number(2);
    is_told_once(&source, "SyncFailed", "immutable");
}

#[test]
fn a_deletion_that_is_held_by_a_pause_is_reported() {
    let (stage, _sidecar) = in_sync("event-pause", Setting::safe(&[&WIDGETS]), &[]);
    let source = stage.source(&WIDGETS, "one");
    source.annotate(PAUSED, Some("true"));
    stage.settled();
    source.delete();
    is_told_once(&source, "SyncHeld", "paused");
}
