//! The bodies of all writes: pure. Each is guarded by uid and resourceVersion, so that it lands on the
//! very object that was looked at or not at all.

use serde_json::{Map, Value, json};
use shared::resource::Target;

use crate::model::{
    annotations::{ManagedKeys, Origin, Uid},
    object::{Cached, Finalizers, ObjectReader, SourceObject, TargetObject},
};

/// A JSON patch that begins with the guard; a stale version is refused with 409, another object of the
/// name with 422.
pub(crate) fn guarded<R>(known: &Cached<R>) -> Vec<Value> {
    vec![
        json!({"op": "test", "path": "/metadata/uid", "value": known.uid.to_string()}),
        json!({"op": "add", "path": "/metadata/resourceVersion", "value": known.version.to_string()}),
    ]
}

/// A merge patch of annotations, with the same guard in safe mode.
fn annotate<R>(known: &Cached<R>, reader: &ObjectReader, annotations: Value) -> Value {
    let mut metadata = json!({"annotations": annotations});
    // Upstream has none here; to be its equal costs nothing, as each annotation is a write of its own.
    if reader.mode.guards() {
        metadata["uid"] = known.uid.to_string().into();
        metadata["resourceVersion"] = known.version.to_string().into();
    }
    json!({"metadata": metadata})
}

/// JSON patch: our finalizer after those of others.
pub(crate) fn add_finalizer(source: &Cached<SourceObject>, finalizer: &str) -> Value {
    let mut patch = guarded(source);
    patch.push(match source.value.finalizers {
        Finalizers::None => {
            json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]})
        }
        _ => json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}),
    });
    patch.into()
}

/// JSON patch: without our finalizer, those of others as they are.
pub(crate) fn remove_finalizer(
    source: &Cached<SourceObject>,
    place: u16,
    finalizer: &str,
) -> Value {
    let mut patch = guarded(source);
    patch.extend(without_finalizer(place, finalizer));
    patch.into()
}

/// Operations of a JSON patch: the finalizer at this place of the list goes, if it is that.
pub(crate) fn without_finalizer(place: u16, finalizer: &str) -> [Value; 2] {
    let path = format!("/metadata/finalizers/{place}");
    [json!({"op": "test", "path": path, "value": finalizer}), json!({"op": "remove", "path": path})]
}

/// JSON patch: this status and no other.
pub(crate) fn status(source: &Cached<SourceObject>, status: &Value) -> Value {
    let mut patch = guarded(source);
    patch.push(match status {
        Value::Null => json!({"op": "remove", "path": "/status"}),
        status => json!({"op": "add", "path": "/status", "value": status}),
    });
    patch.into()
}

/// Merge patch, as upstream's: what of the target's status differs from the source's.
pub(crate) fn status_difference(source: &Value, target: &Value) -> Value {
    json!({"status": difference(source, target)})
}

/// The merge patch (RFC 7386) that makes `old` into `new`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: Map<_, _> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
        patch.insert(key.clone(), difference(before.get(key).unwrap_or(&Value::Null), value));
    }
    patch.into()
}

/// Merge patch: which generations belong together.
pub(crate) fn record_generations(
    source: &Cached<SourceObject>,
    target: &Cached<TargetObject>,
    reader: &ObjectReader,
) -> Value {
    let (keys, generation) = (&reader.keys, |state: u32| json!(state.to_string()));
    let mut annotations = json!({
        &keys.remote_generation: generation(source.value.state.generation),
        &keys.local_generation: generation(target.value.state.generation),
    });
    if reader.mode.marks() {
        annotations[&keys.local_uid] = json!(target.uid.to_string());
    }
    annotate(source, reader, annotations)
}

/// Merge patch: since when an orphan is only kept.
pub(crate) fn mark_orphan(
    target: &Cached<TargetObject>,
    reader: &ObjectReader,
    time: &str,
) -> Value {
    annotate(target, reader, json!({&reader.keys.orphaned: time}))
}

/// Merge patch on the Secret of the target: what of it was uploaded, and to which source.
pub(crate) fn mark_uploaded<R>(
    secret: &Cached<R>,
    reader: &ObjectReader,
    hash: &str,
    source: Uid,
) -> Value {
    let mut annotations = json!({&reader.keys.hash: hash});
    if reader.mode.marks() {
        annotations[&reader.keys.uploaded_to] = json!(source.to_string());
    }
    annotate(secret, reader, annotations)
}

/// The Namespace for the target called `owner`.
pub(crate) fn namespace(name: &str, owner: &str, source: Uid, reader: &ObjectReader) -> Value {
    let mut annotations = json!({&reader.keys.owner: owner});
    if reader.mode.marks() {
        annotations[&reader.keys.owner_ref] = json!(source.to_string());
    }
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "annotations": annotations}})
}

/// What a target is made of.
pub(crate) struct Desired<'a> {
    pub(crate) reader: &'a ObjectReader,
    /// The source's document.
    pub(crate) source: &'a Value,
    /// Where it comes from, if its cluster is known; written in safe mode.
    pub(crate) origin: Option<Origin<'a>>,
}

impl Desired<'_> {
    /// The target as a new object.
    pub(crate) fn created(&self, place: &Target<'_>) -> Value {
        let mut object = Map::new();
        object.insert("apiVersion".into(), place.resource.api_version().into());
        object.insert("kind".into(), place.resource.kind.as_ref().into());
        let mut metadata = json!({"name": place.name});
        if let Some(namespace) = place.namespace {
            metadata["namespace"] = namespace.into();
        }
        for (field, map) in [("labels", self.labels()), ("annotations", self.annotations())] {
            if !map.is_empty() {
                metadata[field] = map.into();
            }
        }
        object.insert("metadata".into(), metadata);
        object.extend(self.content().map(|(key, value)| (key.clone(), value.clone())));
        object.into()
    }

    /// The target's document as upstream replaces it: labels and annotations of the source alone.
    pub(crate) fn replaced(&self, mut target: Value) -> Value {
        let metadata = &mut target["metadata"];
        metadata["labels"] = self.labels().into();
        metadata["annotations"] = self.annotations().into();
        if let Some(target) = target.as_object_mut() {
            target.retain(|key, _| !self.reader.is_content(key));
            target.extend(self.content().map(|(key, value)| (key.clone(), value.clone())));
        }
        target
    }

    /// JSON patch that makes the target's content that of the source; `body` is the target's document,
    /// needed where more than the spec or the metadata differ. `None` where nothing has to be written.
    pub(crate) fn patch(
        &self,
        target: &Cached<TargetObject>,
        body: Option<&Value>,
        content: bool,
    ) -> Option<Value> {
        let mut patch = guarded(target);
        let guards = patch.len();
        if content {
            self.patch_content(body, &mut patch);
        }
        match body {
            Some(body) => self.patch_metadata(body, content, &mut patch),
            None => self.patch_marks(target.value.has_annotations, &mut patch),
        }
        (patch.len() > guards).then(|| patch.into())
    }

    /// Whether [`patch`](Self::patch) needs the target's document for the content alone: there may be
    /// fields to remove. Nearly every kind has a spec and nothing else.
    pub(crate) fn is_more_than_spec(&self) -> bool {
        !self.content().map(|(key, _)| key).eq(["spec"])
    }

    fn patch_content(&self, body: Option<&Value>, patch: &mut Vec<Value>) {
        for (key, value) in self.content() {
            patch.push(json!({"op": "add", "path": pointer(&[key]), "value": value}));
        }
        let theirs = body.and_then(Value::as_object).into_iter().flatten();
        for (key, _) in theirs.filter(|(key, _)| self.reader.is_content(key)) {
            if self.source.get(key).is_none() {
                patch.push(json!({"op": "remove", "path": pointer(&[key])}));
            }
        }
    }

    /// Labels and annotations: those of the source, and those that are the target's own business.
    fn patch_metadata(&self, body: &Value, content: bool, patch: &mut Vec<Value>) {
        let old = |field: &str| body["metadata"][field].as_object().cloned().unwrap_or_default();
        let (old_labels, old_annotations) = (old("labels"), old("annotations"));
        let managed = old_annotations.get(&self.reader.keys.managed_keys).and_then(Value::as_str);
        let keys = managed.map(ManagedKeys::parse).unwrap_or_default();
        let labels = merged(&old_labels, &keys.labels, self.labels());
        let mut annotations = merged(&old_annotations, &keys.annotations, self.travelling());
        // It has a source again.
        annotations.remove(&self.reader.keys.orphaned);
        let other_labels = labels != old_labels;
        if other_labels {
            patch.push(json!({"op": "add", "path": "/metadata/labels", "value": labels}));
        }
        // Our marks alone are no reason for a write, unless they say wrongly what is managed.
        let stale = managed.is_some_and(|managed| managed != self.managed().to_string());
        if content || other_labels || stale || annotations != old_annotations {
            annotations.extend(self.marks());
            patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
        }
    }

    fn patch_marks(&self, has_annotations: bool, patch: &mut Vec<Value>) {
        let marks = self.marks();
        if !has_annotations {
            patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": marks}));
            return;
        }
        for (name, value) in marks {
            let path = pointer(&["metadata", "annotations", &name]);
            patch.push(json!({"op": "add", "path": path, "value": value}));
        }
    }

    fn content(&self) -> impl Iterator<Item = (&String, &Value)> {
        let fields = self.source.as_object().into_iter().flatten();
        fields.filter(|(key, _)| self.reader.is_content(key))
    }

    fn labels(&self) -> Map<String, Value> {
        self.source["metadata"]["labels"].as_object().cloned().unwrap_or_default()
    }

    /// The annotations of the source that the target gets.
    fn travelling(&self) -> Map<String, Value> {
        let all = self.source["metadata"]["annotations"].as_object().into_iter().flatten();
        all.filter(|(key, _)| self.reader.annotation_travels(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    fn annotations(&self) -> Map<String, Value> {
        let mut annotations = self.travelling();
        annotations.extend(self.marks());
        annotations
    }

    fn marks(&self) -> Map<String, Value> {
        let mut marks = Map::new();
        if self.reader.mode.marks() {
            if let Some(origin) = &self.origin {
                marks.insert(self.reader.keys.source.clone(), origin.to_string().into());
            }
            marks.insert(self.reader.keys.managed_keys.clone(), self.managed().to_string().into());
        }
        marks
    }

    fn managed(&self) -> ManagedKeys<'_> {
        let keys = |field: &str| {
            let map = self.source["metadata"][field].as_object();
            map.into_iter().flatten().map(|(key, _)| key.as_str())
        };
        ManagedKeys {
            labels: keys("labels").collect(),
            annotations: keys("annotations")
                .filter(|key| self.reader.annotation_travels(key))
                .collect(),
        }
    }
}

/// `old` without the keys that came from the source once, with those that do now.
fn merged(
    old: &Map<String, Value>,
    managed: &[&str],
    new: Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = old.clone();
    merged.retain(|key, _| managed.binary_search(&key.as_str()).is_err());
    merged.extend(new);
    merged
}

/// A JSON pointer (RFC 6901).
pub(crate) fn pointer(path: &[&str]) -> String {
    path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

#[cfg(test)]
mod tests;
