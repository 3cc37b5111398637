//! Events on the source object for people.

use serde_json::Value;
use suite::{
    cluster::resource,
    eventually,
    listing::list,
    stays,
    sync::{PAUSED, Place, WIDGETS},
};

use crate::support::one;

/// The Events about this object.
pub(crate) fn events(place: &Place) -> Vec<Value> {
    let events = resource("", "events", "Event");
    let namespace = place.namespace.clone().expect("a namespace");
    let all = list(&place.cluster.client, &events.collection(&namespace), "").expect("a list");
    all.into_iter().filter(|event| event["involvedObject"]["name"] == place.name.as_str()).collect()
}

/// Waits for an Event of this reason, and checks that it stays the only one.
#[track_caller]
pub(crate) fn is_told_once(place: &Place, reason: &str, part: &str) {
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
fn a_deletion_that_is_held_by_a_pause_is_reported() {
    let (stage, _sidecar, source, _) = one("event-pause", &WIDGETS, &[]);
    source.annotate(PAUSED, Some("true"));
    stage.settled();
    source.delete();
    is_told_once(&source, "SyncHeld", "paused");
}
