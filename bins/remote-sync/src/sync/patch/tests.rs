//! Bodies of writes, and their effect on an object.

mod target;

use apiclient::resource::Resource;

use super::*;
use crate::model::{
    annotations::Uid,
    rules::{FieldPath, FieldRules},
};

const FINALIZER: &str = "cloud.teleport.dev/sync-local";
const SOURCE: &str = "25f5d25c-70fb-4bf8-ba96-530c4ffb0cbb";
const TARGET: &str = "9b60246b-e633-4982-a2eb-f6df262ae45c";
const HUB: &str = "hub=0f8fad5b-d9cb-469f-a165-70867728950e";
static BUDGETS: Resource = Resource::v1("policy", "poddisruptionbudgets", "PodDisruptionBudget");

fn reader() -> ObjectReader {
    let keys = AnnotationKeys::new("cloud.teleport.dev");
    ObjectReader { keys, finalizer: FINALIZER.into(), rules: FieldRules::default() }
}

/// A budget with this metadata.
fn budget(name: &str, uid: &str, metadata: &Value, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "team", "uid": uid, "resourceVersion": "221",
            "generation": 1},
        "spec": spec});
    let more = metadata.as_object().unwrap().clone();
    object["metadata"].as_object_mut().unwrap().extend(more);
    object
}

fn source(metadata: &Value) -> Value {
    budget("web-rs", SOURCE, metadata, &json!({"minAvailable": 3}))
}

fn target(metadata: &Value) -> Value {
    budget("web", TARGET, metadata, &json!({"minAvailable": 2}))
}

fn desired<'a>(reader: &'a ObjectReader, source: &'a Value) -> Desired<'a> {
    let uid = |text| Uid::parse(text).unwrap();
    let origin = Origin {
        cluster: HUB,
        namespace: "team",
        name: "web-rs",
        uid: uid(SOURCE),
        generation: 1,
        finalizer: FINALIZER,
    };
    Desired { reader, source, origin }
}

fn mark() -> String {
    format!("{HUB}/team/web-rs/{SOURCE}/1/{FINALIZER}")
}

/// Applies a JSON patch (RFC 6902) with the operations used here; fails as a whole.
fn patched(object: &Value, patch: &Value) -> Result<Value, String> {
    let mut object = object.clone();
    for operation in patch.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        let (parent, last) = path.rsplit_once('/').unwrap();
        let last = last.replace("~1", "/").replace("~0", "~");
        let old = object.pointer(path).cloned();
        let fail = || format!("{operation}");
        if operation["op"] == "test" {
            old.filter(|old| *old == operation["value"]).ok_or_else(fail)?;
            continue;
        }
        let value = operation["value"].clone();
        match (object.pointer_mut(parent).ok_or_else(fail)?, operation["op"].as_str()) {
            (Value::Object(members), Some("add")) => drop(members.insert(last, value)),
            (Value::Array(items), Some("add")) if last == "-" => items.push(value),
            (Value::Object(members), Some("remove")) => {
                members.remove(&last).ok_or_else(fail)?;
            }
            (Value::Array(items), Some("remove")) if old.is_some() => {
                items.remove(last.parse().map_err(|_| fail())?);
            }
            _ => return Err(fail()),
        }
    }
    Ok(object)
}

fn guards(uid: &str) -> [Value; 2] {
    [
        json!({"op": "test", "path": "/metadata/uid", "value": uid}),
        json!({"op": "add", "path": "/metadata/resourceVersion", "value": "221"}),
    ]
}

// --- the source ---

#[test]
fn finalizers_of_others_stay_where_they_are() {
    let reader = reader();
    for others in [vec![], vec!["example.com/a"], vec!["example.com/a", "example.com/b"]] {
        let before = match &*others {
            [] => source(&json!({})),
            others => source(&json!({"finalizers": others})),
        };
        let claim = add_finalizer(&reader.source(&before).unwrap(), FINALIZER);
        assert_eq!(claim.as_array().unwrap()[..2], guards(SOURCE));
        let finalizer_added = patched(&before, &claim).unwrap();
        let mut all = others.clone();
        all.push(FINALIZER);
        assert_eq!(finalizer_added["metadata"]["finalizers"], json!(all));
        // Somebody else was faster; a server checks the version first.
        let mut moved = finalizer_added.clone();
        moved["metadata"]["finalizers"].as_array_mut().unwrap().insert(0, json!("example.com/c"));
        let known = reader.source(&finalizer_added).unwrap();
        let release = release(&known, &reader);
        assert!(patched(&moved, &release).is_err());
        let released = patched(&finalizer_added, &release).unwrap();
        assert_eq!(released["metadata"]["finalizers"], json!(others));
    }
    let emptied = source(&json!({"finalizers": []}));
    let claim = add_finalizer(&reader.source(&emptied).unwrap(), FINALIZER);
    assert_eq!(patched(&emptied, &claim).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn what_the_source_was_given_goes_and_nothing_else() {
    let reader = reader();
    let all = json!({
        "finalizers": ["example.com/a", FINALIZER],
        "annotations": {
            "note": "mine", "cloud.teleport.dev/paused": "false",
            "cloud.teleport.dev/sync-remote-generation": "3",
            "cloud.teleport.dev/sync-local-generation": "4",
            "cloud.teleport.dev/sync-local-uid": TARGET,
        },
    });
    let before = source(&all);
    let kept = json!({"note": "mine", "cloud.teleport.dev/paused": "false"});
    let patch = release(&reader.source(&before).unwrap(), &reader);
    let after = patched(&before, &patch).unwrap();
    assert_eq!(after["metadata"]["annotations"], kept);
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/a"]));
}

#[test]
fn a_status_is_replaced_as_a_whole() {
    let reader = reader();
    let mut before = source(&json!({}));
    let known = reader.source(&before).unwrap();
    let expected = json!({"currentHealthy": 1});
    let up = status(&known, &expected);
    let [test, version] = guards(SOURCE);
    let add = json!({"op": "add", "path": "/status", "value": expected});
    assert_eq!(up, json!([test, version, add]));
    assert_eq!(patched(&before, &up).unwrap()["status"], expected);
    before["status"] = json!({"old": {"deep": true}});
    assert_eq!(patched(&before, &up).unwrap()["status"], expected);
    let none = patched(&before, &status(&known, &Value::Null)).unwrap();
    assert_eq!(none.get("status"), None);
}

#[test]
fn generations_are_published_in_annotations() {
    let (one, other) = (source(&json!({"generation": 3})), target(&json!({"generation": 2})));
    let reader = reader();
    let (one, other) = (reader.source(&one).unwrap(), reader.target(&other).unwrap());
    let expected = json!({"metadata": {"uid": SOURCE, "resourceVersion": "221", "annotations": {
        "cloud.teleport.dev/sync-local-generation": "2",
        "cloud.teleport.dev/sync-remote-generation": "3",
        "cloud.teleport.dev/sync-local-uid": TARGET}}});
    assert_eq!(record_generations(&one, &other, &reader), expected);
}

// --- next to the target ---

#[test]
fn a_namespace_is_marked_if_it_goes_with_its_targets() {
    let (reader, from) = (reader(), source(&json!({})));
    let origin = &desired(&reader, &from).origin;
    let mut expected =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    assert_eq!(namespace("team", None, &reader.keys), expected);
    expected["metadata"]["annotations"] = json!({"cloud.teleport.dev/source": mark()});
    assert_eq!(namespace("team", Some(origin), &reader.keys), expected);
}

#[test]
fn pointers_are_escaped() {
    assert_eq!(pointer(&["metadata", "annotations", "a/b~c"]), "/metadata/annotations/a~1b~0c");
}

// --- what a server did not keep ---

#[test]
fn the_first_that_is_missing_or_another_is_named() {
    for (sent, kept, expected) in [
        (json!({"spec": {"a": 1, "b": {"c": 2}}}), json!({"spec": {"a": 1}}), "dropped .spec.b"),
        (json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), "changed .spec.a"),
        (json!({"spec": {"a": {}}}), json!({"spec": {}}), "dropped .spec.a"),
        (json!({"spec": {"a": false}}), json!({"spec": {}}), "dropped .spec.a"),
        (json!({"spec": {"a": {"b": 1}}}), json!({"spec": {"a": "text"}}), "changed .spec.a"),
        (json!({"spec": [{"a": 1, "b": 2}]}), json!({"spec": [{"a": 1}]}), "dropped .spec[0].b"),
        (json!({"spec": [1, 2]}), json!({"spec": [1]}), "changed .spec"),
        (json!({"spec": [1, 2]}), json!({"spec": [2, 1, 3]}), "changed .spec"),
        (
            json!({"metadata": {"labels": {"a.b/c": "1", "d": "2"}}}),
            json!({"metadata": {"labels": {"d": "3"}}}),
            "dropped .metadata.labels['a.b/c']",
        ),
    ] {
        assert_eq!(altered(&sent, Some(&kept), "").as_deref(), Some(expected));
    }
}

#[test]
fn what_is_added_is_the_server_s_business() {
    let sent = json!({"spec": {"a": 1, "list": [{"x": 1}, {"y": 2}], "none": null, "n": 2.0}});
    let kept = json!({"spec": {"a": 1, "b": 2, "n": 2,
        "list": [{"i": 0}, {"x": 1, "d": true}, {"y": 2}]}, "status": {}});
    assert_eq!(altered(&sent, Some(&kept), ""), None);
    assert_eq!(altered(&json!({}), Some(&kept), ""), None);
    assert_eq!(altered(&sent, Some(&sent), ""), None);
}
