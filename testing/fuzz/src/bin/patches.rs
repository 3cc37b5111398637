//! `source NUL target`, both objects in JSON: the patches that remote-sync writes for them.
//!
//! A target that was patched, replaced or created has the content, labels and annotations of its source, and
//! needs no second patch. A source shows that it was claimed, released or given a status. A patch applies to
//! the object that it was made for.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

fuzz::modules! {
    altered = "../../../../bins/remote-sync/src/sync/altered.rs",
    annotations = "../../../../bins/remote-sync/src/model/annotations.rs",
    desired = "../../../../bins/remote-sync/src/sync/desired.rs",
    digest = "../../../../bins/remote-sync/src/model/digest.rs",
    metadata = "../../../../bins/remote-sync/src/model/metadata.rs",
    mode = "../../../../bins/remote-sync/src/model/mode.rs",
    object = "../../../../bins/remote-sync/src/model/object.rs",
    patch = "../../../../bins/remote-sync/src/sync/patch.rs",
    rules = "../../../../bins/remote-sync/src/model/rules.rs",
    secret = "../../../../bins/remote-sync/src/model/secret.rs",
}

/// The modules at their paths in the program.
mod model {
    pub(crate) use crate::{annotations, digest, metadata, mode, object, rules, secret};
}

mod sync {
    pub(crate) use crate::{altered, patch};
}

use fuzz::{HUGE, bounded, expand, parts};
use serde_json::{Map, Value};
use shared::{client::USUAL_OBJECT, json, resource::Resource};

use crate::{
    annotations::{AnnotationKeys, Origin, Uid},
    desired::Desired,
    digest::Digester,
    mode::Mode,
    object::{Cached, Finalizers, ObjectReader, SourceObject, TargetObject},
    rules::FieldRules,
};

const FINALIZER: &str = "cloud.teleport.dev/sync-local";
const CLUSTER: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const OVERHEAD: usize = 64 << 10;

static WIDGETS: Resource = Resource::v1("example.com", "widgets", "Widget");

fuzz::target!(run);

/// An object in full and as remote-sync caches it.
struct Side<'a, R> {
    object: &'a Value,
    known: Cached<R>,
}

fn run(data: &[u8]) {
    let text = expand(data, HUGE);
    let objects = parts(&text).map(|text| json::parse(text.unwrap_or_default(), USUAL_OBJECT).ok());
    let [Some(source), Some(target)] = &objects else { return };
    for mode in [Mode::Compat, Mode::Safe] {
        let reader = ObjectReader {
            digester: Digester::default(),
            keys: AnnotationKeys::new("cloud.teleport.dev"),
            finalizer: FINALIZER.to_owned(),
            mode,
            rules: FieldRules::default(),
        };
        let (Some(known), Some(copy)) = (reader.source(source), reader.target(target)) else {
            continue;
        };
        let source = Side { object: source, known };
        let target = Side { object: target, known: copy };
        check_target(&reader, &source, &target, text.len());
        check_source(&reader, &source, &target);
    }
}

/// Checks the target after each kind of write.
fn check_target(
    reader: &ObjectReader,
    source: &Side<'_, SourceObject>,
    target: &Side<'_, TargetObject>,
    length: usize,
) {
    let Some(cluster) = Uid::parse(CLUSTER) else { return };
    let origin = Origin {
        cluster,
        namespace: "ns",
        name: "x",
        uid: source.known.uid,
        generation: source.known.value.state.generation.into(),
        finalizer: FINALIZER,
    };
    let desired = Desired { reader, source: source.object, origin };
    // Labels and annotations before, after and merged; the patch, with its paths and annotations.
    let limit =
        3 * (json::cost(source.object) + json::cost(target.object)) + 12 * length + OVERHEAD;
    let (known, body) = (&target.known, Some(target.object));
    let patch = bounded(length, limit, || desired.patch(known, body, true));
    let marks = bounded(length, limit, || desired.patch(known, None, false));
    let made = bounded(length, limit, || desired.created(&WIDGETS.object("ns", "x")));
    let replaced = bounded(length, limit, || desired.replaced(target.object.clone()));
    let metadata = are_valid_keys(&source.object["metadata"]);
    let same = |object: &Value| {
        let state = reader.target(object).expect("it is an object").value.state;
        assert_eq!(state.content, source.known.value.state.content, "{object}");
        if metadata {
            assert_eq!(state.metadata, source.known.value.state.metadata, "{object}");
        }
    };
    same(&replaced);
    same(&as_returned(made, target.object));
    if reader.mode == Mode::Safe {
        drop(marks.map(|marks| patched(target.object, &marks)));
        let patched = patch.map_or_else(|| target.object.clone(), |p| patched(target.object, &p));
        same(&patched);
        let known = reader.target(&patched).expect("it is an object");
        let again = desired.patch(&known, Some(&patched), false);
        assert!(again.is_none() || !metadata, "{again:?} after everything was written");
    }
}

/// Checks the source after each kind of write.
fn check_source(
    reader: &ObjectReader,
    source: &Side<'_, SourceObject>,
    target: &Side<'_, TargetObject>,
) {
    let known = &source.known;
    let claimed = match known.value.finalizers {
        Finalizers::Ours(_) => source.object.clone(),
        _ => patched(source.object, &patch::add_finalizer(known, FINALIZER)),
    };
    let claim = reader.source(&claimed).expect("it is an object");
    if let Finalizers::Ours(place) = claim.value.finalizers {
        let released = patched(&claimed, &patch::remove_finalizer(&claim, place, FINALIZER));
        let (before, after) = (&claimed["metadata"], &released["metadata"]);
        let count = |metadata: &Value| metadata["finalizers"].as_array().map_or(0, Vec::len);
        assert_eq!(count(before), count(after) + 1);
    }
    let record = patch::record_generations(known, &target.known, false, reader);
    let published = merged(source.object, &record);
    let published = reader.source(&published).expect("it is an object").value.generations;
    let generations = (known.value.state.generation, target.known.value.state.generation);
    assert_eq!((published.remote, published.local), (Some(generations.0), Some(generations.1)));
    assert!(reader.mode == Mode::Compat || published.uid == Some(target.known.uid));
    let status = &target.object["status"];
    // A missing field cannot be removed.
    if !status.is_null() || source.object.get("status").is_some() {
        let with = patched(source.object, &patch::status(known, status));
        let with = reader.source(&with).expect("it is an object").value.state.status;
        assert_eq!(with, target.known.value.state.status);
    }
}

/// Returns true if a server would accept the labels and annotations: no key has a comma or a bar.
fn are_valid_keys(metadata: &Value) -> bool {
    ["labels", "annotations"].iter().all(|field| match &metadata[*field] {
        Value::Object(map) => map.keys().all(|key| !key.is_empty() && !key.contains([',', '|'])),
        other => other.is_null(),
    })
}

/// The object as a server returns it.
fn as_returned(mut made: Value, like: &Value) -> Value {
    for field in ["uid", "resourceVersion"] {
        made["metadata"][field] = like["metadata"][field].clone();
    }
    made
}

/// Applies a JSON patch (RFC 6902), limited to the operations in use.
fn patched(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    for operation in patch.as_array().expect("a list") {
        let path = operation["path"].as_str().expect("a path");
        let (parent, last) = path.rsplit_once('/').expect("a part");
        let last = last.replace("~1", "/").replace("~0", "~");
        if operation["op"] == "test" {
            assert_eq!(object.pointer(path), Some(&operation["value"]), "{operation}");
            continue;
        }
        let value = operation["value"].clone();
        match (object.pointer_mut(parent), operation["op"].as_str()) {
            (Some(Value::Object(members)), Some("add")) => drop(members.insert(last, value)),
            (Some(Value::Array(items)), Some("add")) if last == "-" => items.push(value),
            (Some(Value::Object(members)), Some("remove")) => {
                assert!(members.remove(&last).is_some(), "{operation}");
            }
            (Some(Value::Array(items)), Some("remove")) => {
                items.remove(last.parse().expect("a place"));
            }
            _ => panic!("{operation} does not fit"),
        }
    }
    object
}

/// Applies a merge patch (RFC 7386).
fn merged(object: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut members = object.as_object().cloned().unwrap_or_else(Map::new);
    for (key, change) in changes {
        match change {
            Value::Null => drop(members.remove(key)),
            change => {
                let merged = merged(members.get(key).unwrap_or(&Value::Null), change);
                members.insert(key.clone(), merged);
            }
        }
    }
    members.into()
}
