//! Bodies of writes: pure. Patches carry uid and resourceVersion, so that they apply to exactly the object that
//! was observed, or fail; in compat mode those of statuses and annotations do not.

use serde_json::{Map, Value, json};
use shared::resource::Target;

use crate::{
    model::{
        annotations::{ContentPair, ManagedKeys, Origin, Uid},
        metadata::members,
        object::{Cached, Finalizers, ObjectReader, SourceObject, TargetObject},
    },
    sync::altered::altered,
};

/// A JSON patch that starts with the preconditions; an outdated version is rejected with 409, another object of
/// the same name with 422.
pub(crate) fn guarded<R>(cached: &Cached<R>) -> Vec<Value> {
    vec![
        json!({"op": "test", "path": "/metadata/uid", "value": cached.uid.to_string()}),
        json!({"op": "add", "path": "/metadata/resourceVersion", "value": cached.version.to_string()}),
    ]
}

/// A merge patch of annotations, with the same preconditions in safe mode.
fn annotate<R>(cached: &Cached<R>, reader: &ObjectReader, annotations: Value) -> Value {
    let mut metadata = json!({"annotations": annotations});
    // Upstream has no preconditions here. Compat mode can afford the same: each annotation is a separate
    // write.
    if reader.mode.sets_preconditions() {
        metadata["uid"] = cached.uid.to_string().into();
        metadata["resourceVersion"] = cached.version.to_string().into();
    }
    json!({"metadata": metadata})
}

/// JSON patch that appends our finalizer.
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

/// JSON patch that removes our finalizer and leaves the others alone.
pub(crate) fn remove_finalizer(
    source: &Cached<SourceObject>,
    place: u16,
    finalizer: &str,
) -> Value {
    let mut patch = guarded(source);
    patch.extend(without_finalizer(place, finalizer));
    patch.into()
}

/// JSON patch operations that remove the finalizer at this index, if it is this one.
pub(crate) fn without_finalizer(place: u16, finalizer: &str) -> [Value; 2] {
    let path = format!("/metadata/finalizers/{place}");
    [json!({"op": "test", "path": path, "value": finalizer}), json!({"op": "remove", "path": path})]
}

/// JSON patch that replaces the status.
pub(crate) fn status(source: &Cached<SourceObject>, status: &Value) -> Value {
    let mut patch = guarded(source);
    patch.push(match status {
        Value::Null => json!({"op": "remove", "path": "/status"}),
        status => json!({"op": "add", "path": "/status", "value": status}),
    });
    patch.into()
}

/// Merge patch of the differences between both statuses, as upstream's.
pub(crate) fn status_difference(source: &Value, target: &Value) -> Value {
    json!({"status": difference(source, target)})
}

/// The merge patch (RFC 7386) that turns `old` into `new`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
        patch.insert(key.clone(), difference(before.get(key).unwrap_or(&Value::Null), value));
    }
    patch.into()
}

/// Merge patch that records which generations belong together, and contents that differ although the target's
/// server kept all that was written: none of it is missing, so that no later process has to write it again.
pub(crate) fn record_generations(
    source: &Cached<SourceObject>,
    target: &Cached<TargetObject>,
    altered: bool,
    reader: &ObjectReader,
) -> Value {
    let contents =
        ContentPair { source: source.value.state.content, target: target.value.state.content };
    let (keys, generation) = (&reader.keys, |state: u32| json!(state.to_string()));
    let mut annotations = json!({
        &keys.remote_generation: generation(source.value.state.generation),
        &keys.local_generation: generation(target.value.state.generation),
    });
    if reader.mode.records_origin() {
        annotations[&keys.local_uid] = json!(target.uid.to_string());
        if contents.source != contents.target && !altered {
            annotations[&keys.content] = json!(contents.to_string());
        }
    }
    annotate(source, reader, annotations)
}

/// JSON patch that removes from a source what `-track source` recorded there, or `-track finalizer`.
pub(crate) fn remove_records(
    source: &Cached<SourceObject>,
    finalizer: bool,
    reader: &ObjectReader,
) -> Value {
    let mut patch = guarded(source);
    if let Finalizers::Ours(place) = source.value.finalizers
        && finalizer
    {
        patch.extend(without_finalizer(place, &reader.finalizer));
    }
    let (keys, recorded) = (&reader.keys, &source.value.generations);
    for (key, is_there) in [
        (&keys.remote_generation, recorded.remote.is_some()),
        (&keys.local_generation, recorded.local.is_some()),
        (&keys.local_uid, recorded.uid.is_some()),
        (&keys.content, recorded.content.is_some()),
    ] {
        if is_there {
            let path = pointer(&["metadata", "annotations", key]);
            patch.push(json!({"op": "remove", "path": path}));
        }
    }
    patch.into()
}

/// Merge patch that says the state of its pair on a source.
pub(crate) fn annotate_state(
    source: &Cached<SourceObject>,
    reader: &ObjectReader,
    state: &str,
) -> Value {
    annotate(source, reader, json!({&reader.keys.state: state}))
}

/// Merge patch that records since when a kept target has been an orphan.
pub(crate) fn annotate_orphan(
    target: &Cached<TargetObject>,
    reader: &ObjectReader,
    time: &str,
) -> Value {
    annotate(target, reader, json!({&reader.keys.orphaned: time}))
}

/// Merge patch for the target's Secret that records what was uploaded, and for which source.
pub(crate) fn annotate_uploaded<R>(
    secret: &Cached<R>,
    reader: &ObjectReader,
    hash: &str,
    source: Uid,
) -> Value {
    let mut annotations = json!({&reader.keys.hash: hash});
    if reader.mode.records_origin() {
        annotations[&reader.keys.uploaded_to] = json!(source.to_string());
    }
    annotate(secret, reader, annotations)
}

/// The Namespace for the target named `owner`, created by this [`instance`](ObjectReader::instance).
pub(crate) fn namespace(
    name: &str,
    owner: &str,
    (source, instance): (Uid, &str),
    reader: &ObjectReader,
) -> Value {
    let mut annotations = json!({&reader.keys.owner: owner});
    if reader.mode.records_origin() {
        annotations[&reader.keys.owner_ref] = json!(source.to_string());
        annotations[&reader.keys.created_by] = json!(instance);
    }
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "annotations": annotations}})
}

/// The desired target of a source.
pub(crate) struct Desired<'a> {
    pub(crate) reader: &'a ObjectReader,
    /// The source's document.
    pub(crate) source: &'a Value,
    /// Recorded in safe mode.
    pub(crate) origin: Origin<'a>,
}

impl Desired<'_> {
    /// The body that creates the target.
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
        object.extend(self.content());
        object.into()
    }

    /// The body that replaces the target, as upstream does: with the source's labels and annotations only.
    pub(crate) fn replaced(&self, mut target: Value) -> Value {
        let metadata = &mut target["metadata"];
        metadata["labels"] = self.labels().into();
        metadata["annotations"] = self.annotations().into();
        if let Some(target) = target.as_object_mut() {
            *target = members(Some(target), &|key| !self.reader.is_content(key));
            target.extend(self.content());
        }
        target
    }

    /// JSON patch that updates the target; `body` is the target's document, needed for anything but the spec.
    /// `None` if there is nothing to write.
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
            None => self.patch_origin(target.value.has_annotations, &mut patch),
        }
        (patch.len() > guards).then(|| patch.into())
    }

    /// JSON patch that marks a target as the source's copy and changes nothing else.
    pub(crate) fn mark(&self, target: &Cached<TargetObject>) -> Value {
        let mut patch = guarded(target);
        self.patch_origin(target.value.has_annotations, &mut patch);
        patch.into()
    }

    /// Returns whether [`patch`](Self::patch) needs the target's document for the content: it may have fields to
    /// remove or to keep. Nearly every kind has nothing but a spec.
    pub(crate) fn needs_document(&self, target: &Cached<TargetObject>) -> bool {
        let spec_alone = self.reader.content(self.source).map(|(key, _)| key).eq(["spec"]);
        !spec_alone || target.value.beside_spec || !self.reader.rules.ignored.is_empty()
    }

    /// What the target's server did not keep when this was written, in words, by its answer.
    pub(crate) fn altered(&self, answer: &Value) -> Option<String> {
        let mut sent = self.updated_content(Some(answer));
        let mut metadata = Map::new();
        for (field, map) in [("labels", self.labels()), ("annotations", self.copied_annotations())]
        {
            if !map.is_empty() {
                metadata.insert(field.into(), map.into());
            }
        }
        sent.insert("metadata".into(), metadata.into());
        altered(&sent.into(), answer)
    }

    fn patch_content(&self, body: Option<&Value>, patch: &mut Vec<Value>) {
        let content = self.updated_content(body);
        for (key, value) in &content {
            if body.and_then(|body| body.get(key)) != Some(value) {
                patch.push(json!({"op": "add", "path": pointer(&[key]), "value": value}));
            }
        }
        for (key, _) in body.into_iter().flat_map(|body| self.reader.content(body)) {
            if !content.contains_key(key) {
                patch.push(json!({"op": "remove", "path": pointer(&[key])}));
            }
        }
    }

    /// The content of an existing target; its ignored fields are those of its document.
    fn updated_content(&self, body: Option<&Value>) -> Map<String, Value> {
        match body {
            Some(body) => self.reader.rules.merged(self.content(), body),
            None => self.content(),
        }
    }

    /// The target as an update leaves it, but for what that records.
    pub(crate) fn updated(&self, body: &Value, content: bool) -> Value {
        let mut updated = body.clone();
        for (field, map) in ["labels", "annotations"].into_iter().zip(self.merged_metadata(body)) {
            if !map.is_empty() || body["metadata"].get(field).is_some() {
                updated["metadata"][field] = map.into();
            }
        }
        if let Some(object) = updated.as_object_mut().filter(|_| content) {
            *object = members(Some(object), &|key| !self.reader.is_content(key));
            object.extend(self.updated_content(Some(body)));
        }
        updated
    }

    /// Labels and annotations: those of the source, and those that others added to the target.
    fn merged_metadata(&self, body: &Value) -> [Map<String, Value>; 2] {
        let old = |field: &str| body["metadata"][field].as_object().cloned().unwrap_or_default();
        let old_annotations = old("annotations");
        let managed = old_annotations.get(&self.reader.keys.managed_keys).and_then(Value::as_str);
        let keys = managed.map(ManagedKeys::parse).unwrap_or_default();
        let labels = merged(&old("labels"), &keys.labels, self.labels());
        let mut annotations =
            merged(&old_annotations, &keys.annotations, self.copied_annotations());
        // It is not an orphan any more.
        annotations.remove(&self.reader.keys.orphaned);
        [labels, annotations]
    }

    fn patch_metadata(&self, body: &Value, content: bool, patch: &mut Vec<Value>) {
        let old = |field: &str| body["metadata"][field].as_object().cloned().unwrap_or_default();
        let (old_labels, old_annotations) = (old("labels"), old("annotations"));
        let managed = old_annotations.get(&self.reader.keys.managed_keys).and_then(Value::as_str);
        let [labels, mut annotations] = self.merged_metadata(body);
        let labels_differ = labels != old_labels;
        if labels_differ {
            patch.push(json!({"op": "add", "path": "/metadata/labels", "value": labels}));
        }
        // Our own annotations are no reason for a write, unless the recorded keys are wrong.
        let stale = managed.is_some_and(|managed| managed != self.managed().to_string());
        if content || labels_differ || stale || annotations != old_annotations {
            annotations.extend(self.origin_annotations());
            patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
        }
    }

    fn patch_origin(&self, has_annotations: bool, patch: &mut Vec<Value>) {
        let annotations = self.origin_annotations();
        if !has_annotations {
            patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
            return;
        }
        for (name, value) in annotations {
            let path = pointer(&["metadata", "annotations", &name]);
            patch.push(json!({"op": "add", "path": path, "value": value}));
        }
    }

    fn content(&self) -> Map<String, Value> {
        members(self.source.as_object(), &|key| self.reader.is_content(key))
    }

    /// The labels of the source that are copied.
    fn labels(&self) -> Map<String, Value> {
        let all = self.source["metadata"]["labels"].as_object();
        members(all, &|key| self.reader.copies_label(key))
    }

    /// The annotations of the source that are copied.
    fn copied_annotations(&self) -> Map<String, Value> {
        let all = self.source["metadata"]["annotations"].as_object();
        members(all, &|key| self.reader.copies_annotation(key))
    }

    fn annotations(&self) -> Map<String, Value> {
        let mut annotations = self.copied_annotations();
        annotations.extend(self.origin_annotations());
        annotations
    }

    /// The annotations that record, in safe mode, whose copy the target is.
    fn origin_annotations(&self) -> Map<String, Value> {
        let mut annotations = Map::new();
        if self.reader.mode.records_origin() {
            annotations.insert(self.reader.keys.source.clone(), self.origin.to_string().into());
            let managed = self.managed().to_string();
            annotations.insert(self.reader.keys.managed_keys.clone(), managed.into());
        }
        annotations
    }

    fn managed(&self) -> ManagedKeys<'_> {
        let keys = |field: &str| {
            let map = self.source["metadata"][field].as_object();
            map.into_iter().flatten().map(|(key, _)| key.as_str())
        };
        ManagedKeys {
            labels: keys("labels").filter(|key| self.reader.copies_label(key)).collect(),
            annotations: keys("annotations")
                .filter(|key| self.reader.copies_annotation(key))
                .collect(),
        }
    }
}

/// `old` without the keys that came from the source earlier, and with those that do now.
fn merged(
    old: &Map<String, Value>,
    managed: &[&str],
    new: Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = members(Some(old), &|key| managed.binary_search(&key).is_err());
    merged.extend(new);
    merged
}

/// A JSON pointer (RFC 6901).
pub(crate) fn pointer(path: &[&str]) -> String {
    path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

#[cfg(test)]
mod tests;
