//! Desired target of a source, and the bodies of writes that bring it about: pure.

use apiclient::resource::Target;
use serde_json::{Map, Value};

use crate::{
    model::{
        annotations::{ManagedKeys, Origin},
        object::members,
        object::{Cached, ObjectReader, TargetObject},
    },
    sync::{
        altered::altered,
        patch::{add, guarded, pointer, remove},
    },
};

/// The desired target of a source.
pub(crate) struct Desired<'a> {
    pub(crate) reader: &'a ObjectReader,
    /// The source's document.
    pub(crate) source: &'a Value,
    pub(crate) origin: Origin<'a>,
}

impl Desired<'_> {
    /// The body that creates the target.
    pub(crate) fn created(&self, place: &Target<'_>) -> Value {
        let mut object = Map::new();
        object.insert("apiVersion".into(), place.resource.api_version().into());
        object.insert("kind".into(), place.resource.kind.as_ref().into());
        let mut metadata = Map::new();
        metadata.insert("name".into(), place.name.into());
        metadata.extend(place.namespace.map(|namespace| ("namespace".into(), namespace.into())));
        let mut annotations = self.copied_annotations();
        annotations.extend(self.origin_annotations());
        metadata.extend(self.metadata(annotations));
        object.insert("metadata".into(), metadata.into());
        object.extend(self.content());
        object.into()
    }

    /// JSON patch that updates the target, whose document is `body`: labels, annotations with the mark, and its `content`
    /// if that is to be written.
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

    /// What the target's server did not keep when this was written, in words, by its answer.
    pub(crate) fn altered(&self, answer: &Value) -> Option<String> {
        let mut sent = self.updated_content(answer);
        let metadata = self.metadata(self.copied_annotations());
        sent.insert("metadata".into(), metadata.into());
        altered(&sent.into(), answer)
    }

    fn patch_content(&self, body: &Value, patch: &mut Vec<Value>) {
        let content = self.updated_content(body);
        for (key, value) in &content {
            if body.get(key) != Some(value) {
                patch.push(add(&pointer(&[key]), value.clone()));
            }
        }
        for (key, _) in self.reader.content(body) {
            if !content.contains_key(key) {
                patch.push(remove(&pointer(&[key])));
            }
        }
    }

    /// The content of an existing target; its ignored fields are those of its document.
    fn updated_content(&self, body: &Value) -> Map<String, Value> {
        self.reader.rules.merged(self.content(), body)
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

    /// The labels, and these annotations, where there are any.
    fn metadata(&self, annotations: Map<String, Value>) -> Map<String, Value> {
        let fields = [("labels", self.labels()), ("annotations", annotations)];
        let fields = fields.into_iter().filter(|(_, map)| !map.is_empty());
        fields.map(|(field, map)| (field.into(), map.into())).collect()
    }

    /// The annotations that record whose copy the target is.
    fn origin_annotations(&self) -> Map<String, Value> {
        let keys = &self.reader.keys;
        let pairs = [(&keys.source, self.origin.to_string()), (&keys.managed_keys, self.managed())];
        pairs.map(|(key, value)| (key.clone(), value.into())).into_iter().collect()
    }

    /// The keys of labels and annotations that are copied.
    fn managed(&self) -> String {
        let (labels, annotations) = (self.labels(), self.copied_annotations());
        let labels = labels.keys().map(String::as_str).collect();
        let annotations = annotations.keys().map(String::as_str).collect();
        ManagedKeys { labels, annotations }.to_string()
    }
}

/// The labels or the annotations of an object.
fn old<'a>(body: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    body["metadata"][field].as_object()
}

/// `old` without the keys that came from the source earlier, and with those that do now.
fn merged(
    old: Option<&Map<String, Value>>,
    managed: &[&str],
    new: Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = members(old, &|key| managed.binary_search(&key).is_err());
    merged.extend(new);
    merged
}
