//! Marks of this instance on an object, and the patch that removes them: pure. A source is known by the finalizer
//! alone, and a target by that and the cluster in its origin annotation, whatever the mapping and namespaces
//! are by now. Metadata is all that this needs.

use serde_json::Value;

use crate::{
    model::{
        annotations::{AnnotationKeys, Origin},
        digest,
        object::{Finalizers, ObjectReader},
    },
    sync::{observed::SourceMarks, patch},
};

/// The role that an object has on its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Source,
    Target,
}

/// The instance that is cleaned up after.
pub(crate) struct Instance<'a> {
    pub(crate) reader: &'a ObjectReader,
    /// How marks name the clusters that sources come from.
    pub(crate) sources: &'a [SourceMarks],
}

impl Role {
    pub(crate) fn action(self) -> &'static str {
        match self {
            Self::Source => "clean the source",
            Self::Target => "clean the target",
        }
    }

    /// The patch for an object in this role, if it carries our marks.
    pub(crate) fn patch(self, object: &Value, instance: &Instance<'_>) -> Option<Value> {
        match self {
            Self::Source => of_source(object, instance),
            Self::Target => of_target(object, instance),
        }
    }
}

/// Removes our finalizer, and the annotations with it: without the finalizer they may be another instance's.
fn of_source(object: &Value, instance: &Instance<'_>) -> Option<Value> {
    let reader = instance.reader;
    let source = reader.source(object)?;
    let Finalizers::Ours(place) = source.value.finalizers else { return None };
    let mut patch = patch::guarded(&source);
    patch.extend(annotations(object, &reader.keys.records()));
    patch.extend(patch::without_finalizer(place, &reader.finalizer));
    Some(patch.into())
}

/// Removes the annotations of a copy. An instance for another cluster may have the same finalizer.
fn of_target(object: &Value, instance: &Instance<'_>) -> Option<Value> {
    let Instance { reader, sources, .. } = instance;
    let annotation = |key: &String| object["metadata"]["annotations"].get(key)?.as_str();
    let origin = Origin::parse(annotation(&reader.keys.source)?)?;
    let cluster = digest::of_text(origin.cluster);
    let is_source = sources.iter().any(|marks| marks.contains(cluster));
    if origin.finalizer != reader.finalizer || !is_source {
        return None;
    }
    let mut patch = patch::guarded(&reader.target(object)?);
    patch.extend(annotations(object, &target_keys(&reader.keys)));
    Some(patch.into())
}

/// JSON patch operations that remove those of `names` that exist.
fn annotations(object: &Value, names: &[&String]) -> Vec<Value> {
    let here = object["metadata"]["annotations"].as_object();
    let here = names.iter().filter(|name| here.is_some_and(|here| here.contains_key(**name)));
    here.map(|name| patch::without_annotation(name)).collect()
}

fn target_keys(keys: &AnnotationKeys) -> [&String; 2] {
    [&keys.source, &keys.managed_keys]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{known_clusters::ClusterRecord, rules::FieldRules, secret::UploadRules};

    const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn reader() -> ObjectReader {
        let keys = AnnotationKeys::new("a.b");
        let rules = FieldRules::default();
        let uploads = UploadRules::new(&keys, Vec::new());
        ObjectReader { keys, finalizer: "a.b/mine".into(), uploads, rules }
    }

    fn object(finalizers: &[&str], annotations: &Value) -> Value {
        json!({"metadata": {"name": "x", "uid": UID, "resourceVersion": "7",
            "finalizers": finalizers, "annotations": annotations}})
    }

    #[test]
    fn a_source_is_ours_by_its_finalizer() {
        let written = json!({"a.b/sync-remote-generation": "1", "a.b/paused": "true", "c": "d"});
        let patch = |finalizers: &[&str]| {
            let (reader, sources) = (&reader(), &[]);
            let instance = Instance { reader, sources };
            Role::Source.patch(&object(finalizers, &written), &instance)
        };
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": UID},
            {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/metadata/annotations/a.b~1sync-remote-generation"},
            {"op": "test", "path": "/metadata/finalizers/1", "value": "a.b/mine"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        assert_eq!(patch(&["other/x", "a.b/mine"]), Some(expected));
        for others in [&[][..], &["a.b/other"]] {
            assert_eq!(patch(others), None, "the annotations are another instance's");
        }
    }

    #[test]
    fn a_target_is_ours_by_the_finalizer_in_its_origin() {
        let patch = |annotations: Value| {
            let (reader, record) = (&reader(), ClusterRecord::parse(UID).unwrap());
            let sources = &[SourceMarks::new("west", &record)];
            let instance = Instance { reader, sources };
            Role::Target.patch(&object(&[], &annotations), &instance)
        };
        let origin = |finalizer: &str| format!("west={UID}/ns/x/{UID}/7/{finalizer}");
        let foreign = format!("east={UID}/ns/x/{UID}/7/a.b/mine");
        assert_eq!(patch(json!({"a.b/source": foreign})), None);
        let ours = json!({"a.b/source": origin("a.b/mine"), "a.b/managed-keys": "|", "c": "d"});
        let ours = patch(ours).unwrap();
        assert_eq!(ours.as_array().unwrap().len(), 4, "guards and two keys: {ours}");
        assert_eq!(patch(json!({"a.b/source": origin("a.b/other")})), None);
        assert_eq!(patch(json!({"a.b/source": "what"})), None);
        assert_eq!(patch(json!({"a.b/orphaned": "now"})), None);
    }
}
