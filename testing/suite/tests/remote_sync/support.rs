//! Helpers of these tests: pairs in sync, faults for the program alone, parts of objects.

use dev_apiserver::{Action, Rule};
use serde_json::{Map, Value, json};
use suite::{
    cluster::resource,
    eventually,
    faults::answer,
    listing::list,
    sidecar::Sidecar,
    sync::{LOCAL_GENERATION, Place, REMOTE_GENERATION, Setting, Side, Stage, WIDGETS},
};

// --- faults ---

/// A refusal in the words of an API server; validation names causes.
pub(crate) fn refusal(code: u16, reason: &str, message: &str, causes: &Value) -> Action {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": {"causes": causes}});
    answer(code, body)
}

/// The server says that an object of which it knows the kind is not there.
pub(crate) fn absent(resource: &str, name: &str) -> Action {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "details": {"kind": resource, "name": name}});
    answer(404, body)
}

/// A fault for the program's requests only.
pub(crate) fn of_program(side: &Side, action: Action) -> Rule {
    Rule::new(action).user(&side.user())
}

/// Why a test needs servers of its own: what lost its finalizer is claimed again before a person could delete it.
pub(crate) const UNSEEN: &str = "an object that is claimed can go unseen";

// --- what the program says ---

/// How many pairs of widgets of this remote are in this state.
pub(crate) fn pairs(sidecar: &Sidecar, remote: &str, state: &str) -> f64 {
    let resource = WIDGETS.flag();
    let labels = format!("remote=\"{remote}\",resource=\"{resource}\",state=\"{state}\"");
    sidecar.metric(&format!("remote_sync_pairs{{{labels}}}")).unwrap_or_default()
}

/// Waits until it is this many.
#[track_caller]
pub(crate) fn has_pairs(sidecar: &Sidecar, remote: &str, state: &str, count: f64) {
    eventually(&format!("{remote} has {count} {state}"), || pairs(sidecar, remote, state) == count);
}

/// Waits until this many deletions are held.
#[track_caller]
pub(crate) fn is_held(sidecar: &Sidecar, number: f64) {
    let held = || sidecar.metric("remote_sync_deletions_held{remote=\"hub\"}");
    eventually(&format!("{number} deletions are held"), || held() == Some(number));
}

/// Whether this resource of the remote "hub" is listed and watched.
pub(crate) fn is_ready(sidecar: &Sidecar, resource: &str) -> bool {
    let labels = format!("remote=\"hub\",resource=\"{resource}\"");
    sidecar.metric(&format!("remote_sync_resource_ready{{{labels}}}")) == Some(1.0)
}

/// Waits until the remote "hub" is connected, or is not.
#[track_caller]
pub(crate) fn is_connected(sidecar: &Sidecar, connected: bool) {
    let metric = "remote_sync_cluster_connected{remote=\"hub\"}";
    let wanted = Some(f64::from(u8::from(connected)));
    eventually(&format!("{metric} is {wanted:?}"), || sidecar.metric(metric) == wanted);
}

/// Waits until this remote is refused, or is not.
#[track_caller]
pub(crate) fn is_refused(sidecar: &Sidecar, remote: &str, refused: bool) {
    let metric = format!("remote_sync_cluster_identity_refused{{remote=\"{remote}\"}}");
    let wanted = Some(f64::from(u8::from(refused)));
    eventually(&format!("{metric} is {wanted:?}"), || sidecar.metric(&metric) == wanted);
}

/// The Events about this object.
pub(crate) fn events(place: &Place) -> Vec<Value> {
    let events = resource("", "events", "Event");
    let namespace = place.namespace.clone().expect("a namespace");
    let all = list(&place.cluster.client, &events.collection(&namespace), "").expect("a list");
    all.into_iter().filter(|event| event["involvedObject"]["name"] == place.name.as_str()).collect()
}

/// Waits for an Event of this reason whose message holds `part`.
#[track_caller]
pub(crate) fn is_told(place: &Place, reason: &str, part: &str) -> Value {
    let is_it = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["reason"] == reason && message.contains(part)
    };
    eventually(&format!("an Event {reason}: {part}"), || events(place).into_iter().find(is_it))
}

// --- pairs ---

/// An object and its copy in sync, of the first of these kinds, and the program that keeps them so.
#[track_caller]
pub(crate) fn in_sync(
    name: &str,
    setting: Setting,
    more: &[&str],
) -> (Stage, Sidecar, Place, Place) {
    let stage = Stage::pull(name, setting);
    let (source, target) = stage.pair(stage.setting.kinds[0], "one");
    source.create_number(1);
    let sidecar = stage.start_served(more);
    is_in_sync(&source, &target);
    stage.settled();
    (stage, sidecar, source, target)
}

/// One widget in sync.
#[track_caller]
pub(crate) fn one(name: &str, more: &[&str]) -> (Stage, Sidecar, Place, Place) {
    in_sync(name, Setting::safe(&[&WIDGETS]), more)
}

/// This many widgets in sync, in a namespace that the program did not create.
pub(crate) fn many(
    name: &str,
    number: usize,
    more: &[&str],
) -> (Stage, Sidecar, Vec<(Place, Place)>) {
    let stage = Stage::pull(name, Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let pair = |index| stage.pair(&WIDGETS, &format!("w{index}"));
    let pairs: Vec<_> = (0..number).map(pair).collect();
    for (source, _) in &pairs {
        source.create_number(1);
    }
    let sidecar = stage.start_served(more);
    for (source, target) in &pairs {
        is_in_sync(source, target);
    }
    stage.settled();
    (stage, sidecar, pairs)
}

/// Waits until the copy has the source's content and the source says so.
#[track_caller]
pub(crate) fn is_in_sync(source: &Place, target: &Place) {
    let what = format!("{} is in step", source.target());
    eventually(&what, || {
        let (from, to) = (source.get()?, target.get()?);
        let same = source.kind.number(&from) == target.kind.number(&to);
        (same && published(&from, &to)).then_some(())
    });
}

/// Whether the source's annotations name the generations that were copied.
pub(crate) fn published(source: &Value, target: &Value) -> bool {
    let says = |key: &str, object: &Value| {
        let generation = object["metadata"]["generation"].as_u64().unwrap_or(0);
        let said = source["metadata"]["annotations"][key].as_str();
        // Kinds without generations have nothing to say.
        generation == 0 || said == Some(&generation.to_string())
    };
    says(REMOTE_GENERATION, source) && says(LOCAL_GENERATION, target)
}

/// Namespaces that were made go once they are empty.
pub(crate) const EMPTY: &str = "-namespace-policy=empty";

// --- objects ---

/// Of upstream's test, line 160 and 170: `data1` and `data2` under the key `data`.
pub(crate) const HASHES: [&str; 2] = [
    "4bc3db4c8600b8a668677befadd94408e27cdcac611dcb4d4f56e0d2dcb3e1c5",
    "1c67e1d274f4a7bedb1d1ee0f23f3c962e170d20e1f480c419a9c68f5efb3a0f",
];

/// The labels or annotations of an object, without the program's own.
pub(crate) fn map(object: &Value, what: &str) -> Value {
    let own = ["/source", "/managed-keys", "/sync-local-uid"];
    let all = object["metadata"][what].as_object().cloned().unwrap_or_default();
    let kept = all.into_iter().filter(|(key, _)| !own.iter().any(|end| key.ends_with(end)));
    Value::Object(kept.collect::<Map<_, _>>())
}
