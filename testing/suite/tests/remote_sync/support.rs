//! Helpers of these tests: pairs in sync, faults for the program alone, parts of objects.

use dev_apiserver::{Action, Rule};
use serde_json::{Map, Value, json};
use suite::{
    cluster::resource,
    eventually,
    faults::answer,
    listing::list,
    sidecar::Sidecar,
    stays,
    sync::{
        BUDGETS, Kind, LOCAL_GENERATION, Place, REMOTE_GENERATION, Setting, Side, Stage, WIDGETS,
    },
};

/// A refusal in the words of the API server's validation.
pub(crate) fn immutable() -> Action {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 422,
        "message": "Widget.sync.example.com \"one\" is invalid: spec.size: Invalid value: field is immutable",
        "reason": "Invalid",
        "details": {"name": "one", "group": "sync.example.com", "kind": "Widget", "causes": [{
            "reason": "FieldValueInvalid", "message": "Invalid value: field is immutable", "field": "spec.size",
        }]},
    });
    answer(422, body)
}

/// A fault for the program's requests only.
pub(crate) fn of_program(side: &Side, action: Action) -> Rule {
    Rule::new(action).user(&side.user())
}

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

/// Whether this resource of the remote "hub" is listed and watched.
pub(crate) fn is_ready(sidecar: &Sidecar, resource: &str) -> bool {
    let labels = format!("remote=\"hub\",resource=\"{resource}\"");
    sidecar.metric(&format!("remote_sync_resource_ready{{{labels}}}")) == Some(1.0)
}

/// Waits until this remote is refused, or is not.
#[track_caller]
pub(crate) fn is_refused(sidecar: &Sidecar, remote: &str, refused: bool) {
    let metric = format!("remote_sync_cluster_identity_refused{{remote=\"{remote}\"}}");
    eventually("it is refused, or not", || {
        sidecar.metric(&metric) == Some(f64::from(u8::from(refused)))
    });
}

// --- pairs ---

/// A source and its copy of this kind, in sync, and the program that keeps them so.
#[track_caller]
pub(crate) fn in_sync(name: &str, setting: Setting, more: &[&str]) -> (Stage, Sidecar) {
    let stage = Stage::pull(name, setting);
    for kind in &stage.setting.kinds {
        stage.source(kind, "one").create_number(1);
    }
    let sidecar = stage.start_served(more);
    for kind in &stage.setting.kinds {
        is_in_sync(&stage.source(kind, "one"), &stage.target(kind, "one"));
    }
    stage.settled();
    (stage, sidecar)
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
fn published(source: &Value, target: &Value) -> bool {
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

/// One budget in sync.
#[track_caller]
pub(crate) fn one_budget(name: &str) -> (Stage, Sidecar, Place, Place) {
    let setting = Setting::safe(&[&BUDGETS]);
    let (stage, sidecar) = in_sync(name, setting, &[]);
    let (source, target) = stage.pair(&BUDGETS, "one");
    (stage, sidecar, source, target)
}

/// One object of this kind in sync.
#[track_caller]
pub(crate) fn one(
    name: &str,
    kind: &'static Kind,
    more: &[&str],
) -> (Stage, Sidecar, Place, Place) {
    let (stage, sidecar) = in_sync(name, Setting::safe(&[kind]), more);
    let (source, target) = (stage.source(kind, "one"), stage.target(kind, "one"));
    (stage, sidecar, source, target)
}

/// This many widgets in sync, in a namespace that the program did not create.
pub(crate) fn many(
    name: &str,
    number: usize,
    more: &[&str],
) -> (Stage, Sidecar, Vec<(Place, Place)>) {
    let stage = Stage::pull(name, Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let pairs: Vec<_> =
        (0..number).map(|index| stage.pair(&WIDGETS, &format!("w{index}"))).collect();
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

// --- Events ---

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

pub(crate) fn labels(object: &Value) -> Value {
    map(object, "labels")
}

pub(crate) fn annotations(object: &Value) -> Value {
    map(object, "annotations")
}

/// Why a test needs servers of its own: what lost its finalizer is claimed again before a person could delete it.
pub(crate) const UNSEEN: &str = "an object that is claimed can go unseen";
