//! A JSON object, read by remote-sync as a source, a target, a namespace and a Secret.
//!
//! The cached form matches the object: finalizers have the cached indexes, and annotations survive a round trip. Status
//! and our annotations are not content, and an uploaded Secret is recognized.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

use apiclient::{client::USUAL_OBJECT, json};
use fuzz::{HUGE, bounded, expand};
use remote_sync::model::{
    annotations::{AnnotationKeys, ManagedKeys, Origin, Uid},
    object::{Cached, Finalizers, ObjectReader, ObjectState},
    rules::FieldRules,
    secret,
};
use serde_json::{Value, json};

const FINALIZER: &str = "cloud.teleport.dev/sync-local";
/// For hashed texts and log lines.
const OVERHEAD: usize = 64 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expand(data, HUGE);
    let Some(object) = json::parse(&text, USUAL_OBJECT) else { return };
    let reader = ObjectReader {
        keys: AnnotationKeys::new("cloud.teleport.dev"),
        finalizer: FINALIZER.to_owned(),
        rules: FieldRules::default(),
    };
    check(&reader, &object, text.len());
}

fn check(reader: &ObjectReader, object: &Value, length: usize) {
    // A second copy of a Secret's annotations; its text, where one letter may become six, with room to grow.
    let limit = json::cost(object) + 12 * length + OVERHEAD;
    let (source, target) =
        bounded(length, limit, || (reader.source(object), reader.target(object)));
    let (secret, _) =
        bounded(length, limit, || (reader.secret(object), reader.created_for(object)));
    if let (Some(source), Some(target)) = (&source, &target) {
        check_identity(source, object);
        assert_eq!(source.value.state.content, target.value.state.content);
        assert_eq!(source.value.state.status, target.value.state.status);
        let list = &object["metadata"]["finalizers"];
        match source.value.finalizers {
            Finalizers::Ours(place) => assert_eq!(list[usize::from(place)], FINALIZER),
            // An index beyond u16 counts as another owner's finalizer.
            Finalizers::Others => assert!(list.as_array().is_some_and(|list| !list.is_empty())),
            Finalizers::None => assert!(list.as_array().is_none_or(Vec::is_empty)),
        }
        check_annotations(reader, object, target.value.copy_of.as_ref().map(|copy| copy.uid));
        check_content(reader, object, &source.value.state);
    } else {
        assert!(source.is_none() && target.is_none());
    }
    if secret.is_some() {
        check_uploaded(reader, object);
    }
}

fn check_identity<R>(known: &Cached<R>, object: &Value) {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    assert!(text("uid").eq_ignore_ascii_case(&known.uid.to_string()));
    assert_eq!(text("resourceVersion").parse(), Ok(known.version));
}

/// Checks that annotations survive a round trip.
fn check_annotations(reader: &ObjectReader, object: &Value, copy_of: Option<Uid>) {
    let annotation = |key: &str| object["metadata"]["annotations"][key].as_str();
    if let Some(origin) = annotation(&reader.keys.source).and_then(Origin::parse) {
        assert_eq!(Origin::parse(&origin.to_string()), Some(origin.clone()));
        assert!(copy_of.is_none_or(|uid| uid == origin.uid));
    }
    let managed = annotation(&reader.keys.managed_keys).map(ManagedKeys::parse).unwrap_or_default();
    // A second bar is not part of a key, and stays in place.
    assert_eq!(ManagedKeys::parse(&managed.to_string()), managed);
}

/// Checks that status and our annotations are not content.
fn check_content(reader: &ObjectReader, object: &Value, state: &ObjectState) {
    let mut other = object.clone();
    other["status"] = json!("another");
    if let Some(annotations) = other["metadata"]["annotations"].as_object_mut() {
        annotations.insert(reader.keys.local_uid.clone(), json!("another"));
    }
    let read = reader.source(&other).expect("it was read before").value.state;
    assert_eq!((read.content, read.metadata), (state.content, state.metadata));
    assert_eq!(read.status == state.status, object["status"] == "another");
}

/// Checks that the hash does not include its own annotation.
fn check_uploaded(reader: &ObjectReader, object: &Value) {
    let mut noted = object.clone();
    let annotations = &mut noted["metadata"]["annotations"];
    if !(annotations.is_object() || annotations.is_null()) {
        *annotations = Value::Null;
    }
    let hash = secret::hash(&noted);
    noted["metadata"]["annotations"][&reader.keys.hash] = json!(hash);
    assert_eq!(secret::hash(&noted), hash);
}
