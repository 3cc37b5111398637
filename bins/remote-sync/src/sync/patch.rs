//! The desired target of a source, and bodies of writes. Pure. Patches carry uid and resourceVersion: they apply to
//! exactly the observed object, or fail.

use apiclient::resource::Target;
use serde_json::{Map, Value, json};

use crate::model::{
    annotations::{AnnotationKeys, ManagedKeys, Origin},
    object::{Cached, Finalizers, ObjectReader, SourceObject, TargetObject, members},
    rules::is_content,
};

pub(crate) struct Desired<'a> {
    pub(crate) reader: &'a ObjectReader,
    pub(crate) source: &'a Value,
    pub(crate) origin: Origin<'a>,
}

impl Desired<'_> {
    /// Returns the body that creates the target.
    pub(crate) fn created(&self, place: &Target<'_>) -> Value {
        let mut annotations = self.copied_annotations();
        annotations.extend(self.origin_annotations());
        let mut metadata = self.metadata(annotations);
        metadata.insert("name".into(), place.name.into());
        metadata.extend(place.namespace.map(|namespace| ("namespace".into(), namespace.into())));
        let mut object = self.content();
        object.insert("apiVersion".into(), place.resource.api_version().into());
        object.insert("kind".into(), place.resource.kind.as_ref().into());
        object.insert("metadata".into(), metadata.into());
        object.into()
    }

    /// Returns the JSON patch that updates the target with the document `body`: labels, annotations with the mark, and
    /// its content if `content`.
    pub(crate) fn patch(
        &self,
        target: &Cached<TargetObject>,
        body: &Value,
        content: bool,
    ) -> Value {
        let mut patch = guarded(target);
        if content {
            self.patch_content(body, &mut patch);
        }
        let keys = &body["metadata"]["annotations"][&self.reader.keys.managed_keys];
        let keys = keys.as_str().map(ManagedKeys::parse).unwrap_or_default();
        let labels = merged(old(body, "labels"), &keys.labels, self.labels());
        if old(body, "labels").map_or(!labels.is_empty(), |old| *old != labels) {
            patch.push(add("/metadata/labels", labels));
        }
        let mut annotations =
            merged(old(body, "annotations"), &keys.annotations, self.copied_annotations());
        annotations.extend(self.origin_annotations());
        patch.push(add("/metadata/annotations", annotations));
        patch.into()
    }

    /// Describes what the target's server did not keep of this write, according to its response.
    pub(crate) fn altered(&self, answer: &Value) -> Option<String> {
        let mut sent = self.updated_content(answer);
        let metadata = self.metadata(self.copied_annotations());
        sent.insert("metadata".into(), metadata.into());
        let altered = altered(&sent.into(), Some(answer), "")?;
        Some(format!("the target's server {altered}"))
    }

    fn patch_content(&self, body: &Value, patch: &mut Vec<Value>) {
        let content = self.updated_content(body);
        for (key, value) in &content {
            if body.get(key) != Some(value) {
                patch.push(add(&pointer(&[key]), value.clone()));
            }
        }
        for key in body.as_object().into_iter().flatten().map(|(key, _)| key) {
            if is_content(key) && !content.contains_key(key) {
                patch.push(remove(&pointer(&[key])));
            }
        }
    }

    /// The content of an existing target: ignored fields come from its document.
    fn updated_content(&self, body: &Value) -> Map<String, Value> {
        self.reader.rules.merged(self.content(), body)
    }

    fn content(&self) -> Map<String, Value> {
        members(self.source.as_object(), &is_content)
    }

    fn labels(&self) -> Map<String, Value> {
        let all = self.source["metadata"]["labels"].as_object();
        members(all, &|key| self.reader.copies_label(key))
    }

    fn copied_annotations(&self) -> Map<String, Value> {
        let all = self.source["metadata"]["annotations"].as_object();
        members(all, &|key| self.reader.copies_annotation(key))
    }

    /// The labels and these annotations, unless empty.
    fn metadata(&self, annotations: Map<String, Value>) -> Map<String, Value> {
        let fields = [("labels", self.labels()), ("annotations", annotations)];
        let fields = fields.into_iter().filter(|(_, map)| !map.is_empty());
        fields.map(|(field, map)| (field.into(), map.into())).collect()
    }

    /// The annotations that mark the target as a copy.
    fn origin_annotations(&self) -> Map<String, Value> {
        let keys = &self.reader.keys;
        let pairs = [(&keys.source, self.origin.to_string()), (&keys.managed_keys, self.managed())];
        pairs.map(|(key, value)| (key.clone(), value.into())).into_iter().collect()
    }

    fn managed(&self) -> String {
        let (labels, annotations) = (self.labels(), self.copied_annotations());
        let labels = labels.keys().map(String::as_str).collect();
        let annotations = annotations.keys().map(String::as_str).collect();
        ManagedKeys { labels, annotations }.to_string()
    }
}

fn old<'a>(body: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    body["metadata"][field].as_object()
}

/// `old` without the keys that formerly came from the source, and with the current ones.
fn merged(
    old: Option<&Map<String, Value>>,
    managed: &[&str],
    new: Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = members(old, &|key| managed.binary_search(&key).is_err());
    merged.extend(new);
    merged
}

/// Describes the first field of `sent` that `kept` lacks or has with another value. Fields that a server adds do not
/// matter, and null equals a missing field (apiserver `pkg/apiserver/schema/defaulting/prune.go`).
fn altered(sent: &Value, kept: Option<&Value>, path: &str) -> Option<String> {
    match (sent, kept) {
        (Value::Null, _) => None,
        (_, None) => Some(format!("dropped {path}")),
        (Value::Object(sent), Some(Value::Object(kept))) => sent.iter().find_map(|(key, value)| {
            altered(value, kept.get(key), &format!("{path}{}", member(key)))
        }),
        (Value::Array(sent), Some(Value::Array(kept))) if sent.len() == kept.len() => {
            let mut pairs = sent.iter().zip(kept).enumerate();
            pairs.find_map(|(index, (value, kept))| {
                altered(value, Some(kept), &format!("{path}[{index}]"))
            })
        }
        (Value::Array(sent), Some(Value::Array(kept))) if is_among(sent, kept) => None,
        (sent, Some(kept)) if is_same(sent, kept) => None,
        (_, Some(_)) => Some(format!("changed {path}")),
    }
}

/// Returns whether the server only added items to a list, as webhooks do that inject containers.
fn is_among(sent: &[Value], kept: &[Value]) -> bool {
    let mut kept = kept.iter();
    sent.iter().all(|item| kept.any(|kept| altered(item, Some(kept), "").is_none()))
}

/// Returns whether two scalars are equal; 1 equals 1.0.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| Some(number) == other.as_f64())
}

/// Formats a key like kubectl's JSONPath: `.spec`, `['app.kubernetes.io/name']`.
fn member(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.chars().all(plain) { format!(".{key}") } else { format!("['{key}']") }
}

/// The JSON patch operation (RFC 6902) that adds or replaces a value.
pub(crate) fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({"op": "add", "path": path, "value": value.into()})
}

pub(crate) fn remove(path: &str) -> Value {
    json!({"op": "remove", "path": path})
}

/// The operation that fails if the value differs.
fn test(path: &str, value: &str) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// Starts a JSON patch with the preconditions. The server rejects an outdated version with 409, and another object of
/// the same name with 422.
pub(crate) fn guarded<R>(cached: &Cached<R>) -> Vec<Value> {
    vec![
        test("/metadata/uid", &cached.uid.to_string()),
        add("/metadata/resourceVersion", cached.version.to_string()),
    ]
}

pub(crate) fn add_finalizer(source: &Cached<SourceObject>, finalizer: &str) -> Value {
    let mut patch = guarded(source);
    patch.push(match source.value.finalizers {
        Finalizers::None => add("/metadata/finalizers", vec![finalizer]),
        _ => add("/metadata/finalizers/-", finalizer),
    });
    patch.into()
}

/// JSON patch that removes only our finalizer and our records from the source.
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

pub(crate) fn status(source: &Cached<SourceObject>, status: &Value) -> Value {
    let mut patch = guarded(source);
    patch.push(match status {
        Value::Null => remove("/status"),
        status => add("/status", status.clone()),
    });
    patch.into()
}

/// Merge patch that records which generations of both objects have the same content.
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
    // The preconditions of `guarded`.
    let (uid, version) = (source.uid.to_string(), source.version.to_string());
    json!({"metadata": {"annotations": annotations, "uid": uid, "resourceVersion": version}})
}

/// JSON patch operation that removes an existing annotation.
pub(crate) fn without_annotation(key: &str) -> Value {
    remove(&pointer(&["metadata", "annotations", key]))
}

/// A Namespace for targets, marked if it is to be deleted with them.
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
