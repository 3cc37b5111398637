//! Server-managed parts of an object: names, uids, generations, and the fields that each subresource may change.

use serde_json::Value;

use crate::{ca::random, resources::Resource, time::now};

/// Returns the string at a pointer, or an empty one.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Appends five characters of the real server's alphabet: no vowels, no look-alikes.
pub(crate) fn generate_name(object: &mut Value) {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let prefix = text(object, "/metadata/generateName");
    if !prefix.is_empty() {
        let suffix = random::<5>().map(|byte| LETTERS[usize::from(byte) % LETTERS.len()] as char);
        let name = format!("{prefix}{}", String::from_iter(suffix));
        object["metadata"]["name"] = name.into();
    }
}

/// Sets the metadata that every new object gets.
pub(crate) fn stamp(resource: &Resource, object: &mut Value) {
    let [id, rest] = [random::<6>(), random::<6>()];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (low, high) = (hex(&id[..4]), hex(&id[4..]));
    let [a, b] = random::<2>();
    let uid = format!("{low}-{high}-4{a:03x}-8{b:03x}-{}", hex(&rest));
    let metadata = &mut object["metadata"];
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = now().into();
    if let Value::Object(fields) = metadata {
        for unwanted in ["managedFields", "deletionTimestamp", "selfLink", "generation"] {
            fields.remove(unwanted);
        }
    }
    if resource.generation {
        metadata["generation"] = 1.into();
    }
}

/// Takes from the new state only what the subresource may change.
pub(crate) fn restrict_to_subresource(
    resource: &Resource,
    subresource: &str,
    current: &Value,
    new: Value,
) -> Value {
    let mut kept = current.clone();
    match subresource {
        "status" => set(&mut kept, "status", new.get("status")),
        "approval" => {
            let conditions = new["status"]["conditions"].clone();
            kept["status"]["conditions"] = conditions;
        }
        _ => {
            kept = new;
            if resource.status {
                set(&mut kept, "status", current.get("status"));
            }
            if resource.is("certificatesigningrequests") {
                set(&mut kept, "spec", current.get("spec"));
            }
        }
    }
    kept
}

fn set(object: &mut Value, key: &str, value: Option<&Value>) {
    let Value::Object(fields) = object else { return };
    match value {
        Some(value) => fields.insert(key.into(), value.clone()),
        None => fields.remove(key),
    };
}

/// Restores the metadata that clients cannot change.
pub(crate) fn keep_metadata(current: &Value, next: &mut Value) {
    next["apiVersion"] = current["apiVersion"].clone();
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
        "managedFields",
    ] {
        set(&mut next["metadata"], key, current["metadata"].get(key));
    }
}

/// Increments the generation on any change outside metadata, and outside status if it is a subresource.
pub(crate) fn count_generation(resource: &Resource, current: &Value, next: &mut Value) {
    let content = |object: &Value| {
        let mut content = object.clone();
        set(&mut content, "metadata", None);
        if resource.status {
            set(&mut content, "status", None);
        }
        content
    };
    if resource.generation && content(current) != content(next) {
        let generation = current["metadata"]["generation"].as_u64().unwrap_or(0);
        next["metadata"]["generation"] = (generation + 1).into();
    }
}

pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    all.filter_map(|item| item.as_str().map(Into::into)).collect()
}
