//! Bodies of writes: pure. Patches carry uid and resourceVersion, so that they apply to exactly the object that
//! was observed, or fail.

use serde_json::{Value, json};

use crate::model::{
    annotations::{AnnotationKeys, Origin},
    object::{Cached, Finalizers, ObjectReader, SourceObject, TargetObject},
};

/// The operation of a JSON patch (RFC 6902) that adds this, or puts it in the place of what is there.
pub(crate) fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({"op": "add", "path": path, "value": value.into()})
}

pub(crate) fn remove(path: &str) -> Value {
    json!({"op": "remove", "path": path})
}

/// The operation that fails where something else is there.
fn test(path: &str, value: &str) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// A JSON patch that starts with the preconditions; an outdated version is rejected with 409, another object of
/// the same name with 422.
pub(crate) fn guarded<R>(cached: &Cached<R>) -> Vec<Value> {
    vec![
        test("/metadata/uid", &cached.uid.to_string()),
        add("/metadata/resourceVersion", cached.version.to_string()),
    ]
}

/// JSON patch that appends our finalizer.
pub(crate) fn add_finalizer(source: &Cached<SourceObject>, finalizer: &str) -> Value {
    let mut patch = guarded(source);
    patch.push(match source.value.finalizers {
        Finalizers::None => add("/metadata/finalizers", vec![finalizer]),
        _ => add("/metadata/finalizers/-", finalizer),
    });
    patch.into()
}

/// JSON patch that removes our finalizer and what was recorded on the source, and leaves the rest alone.
pub(crate) fn release(source: &Cached<SourceObject>, reader: &ObjectReader) -> Value {
    let mut patch = guarded(source);
    let records = reader.keys.records().into_iter().zip(source.value.generations.records());
    patch.extend(records.filter(|(_, there)| *there).map(|(key, _)| without_annotation(key)));
    if let Finalizers::Ours(place) = source.value.finalizers {
        let path = format!("/metadata/finalizers/{place}");
        patch.extend([test(&path, &reader.finalizer), remove(&path)]);
    }
    patch.into()
}

/// JSON patch that replaces the status.
pub(crate) fn status(source: &Cached<SourceObject>, status: &Value) -> Value {
    let mut patch = guarded(source);
    patch.push(match status {
        Value::Null => remove("/status"),
        status => add("/status", status.clone()),
    });
    patch.into()
}

/// Merge patch that records which generations belong together.
pub(crate) fn record_generations(
    source: &Cached<SourceObject>,
    target: &Cached<TargetObject>,
    reader: &ObjectReader,
) -> Value {
    let keys = &reader.keys;
    let annotations = json!({
        &keys.remote_generation: source.value.state.generation.to_string(),
        &keys.local_generation: target.value.state.generation.to_string(),
        &keys.local_uid: target.uid.to_string(),
    });
    // The same preconditions.
    let (uid, version) = (source.uid.to_string(), source.version.to_string());
    json!({"metadata": {"annotations": annotations, "uid": uid, "resourceVersion": version}})
}

/// JSON patch operation that removes an annotation, which is there.
pub(crate) fn without_annotation(key: &str) -> Value {
    remove(&pointer(&["metadata", "annotations", key]))
}

/// A Namespace for targets; marked if it is to be deleted with them.
pub(crate) fn namespace(name: &str, origin: Option<&Origin<'_>>, keys: &AnnotationKeys) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    if let Some(origin) = origin {
        body["metadata"]["annotations"] = json!({&keys.source: origin.to_string()});
    }
    body
}

/// A JSON pointer (RFC 6901).
pub(crate) fn pointer(path: &[&str]) -> String {
    path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

#[cfg(test)]
mod tests;
