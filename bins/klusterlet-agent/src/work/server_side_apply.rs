//! Strategy ServerSideApply: the fields to apply, and the fields that ignoreFields leave to this cluster.
//!
//! With ignoreFields, an annotation holds the hash of the applied manifest, as in the Go agent (ocm
//! `server_side_apply.go`). While the hash matches, only drift of all other fields is corrected.

use serde_json::{Map, Value, json};

use super::{
    go_format::go_format,
    jsonpath::{JsonPath, MAX_VISITS},
    merge::{Intent, Owners, SPEC_HASH, difference, merge},
    objects::ServerSideApplyConfig,
    prepared::{prepared, without_server_fields},
};

/// A manifest, ready to apply.
pub(crate) struct Required {
    /// The whole manifest, with the annotation.
    original: Value,
    hash: Option<String>,
    ignored: Vec<IgnoredField>,
    field_manager: String,
}

struct IgnoredField {
    /// Whether the field is ignored only while the manifest is unchanged, and not always.
    on_spoke_change: bool,
    place: Place,
}

enum Place {
    Path(JsonPath),
    /// RFC 6901.
    Pointer(String),
}

impl Required {
    /// # Errors
    /// Why the ignoreFields are invalid.
    pub(crate) fn new(manifest: Value, config: &ServerSideApplyConfig) -> Result<Self, String> {
        let ignored = ignored_fields(config)?;
        let mut original = manifest;
        if let Some(metadata) = metadata(&mut original) {
            metadata.remove("uid");
        }
        remove_null_creation_timestamps(&mut original);
        let mut hash = None;
        if !config.ignore_fields.is_empty() {
            let mut hashed = original.clone();
            let (on_change, always): (Vec<_>, Vec<_>) =
                ignored.iter().partition(|field| field.on_spoke_change);
            let mut visits = 0;
            always.into_iter().for_each(|field| field.remove(&mut hashed, &mut visits));
            let digest = format!("{:x}", md5::compute(go_format(&hashed)));
            annotate(&mut original, &digest);
            hash = Some(digest);
            // Beyond the limit, an ignored field would not be found, and would be applied.
            on_change.into_iter().for_each(|field| field.remove(&mut hashed, &mut visits));
            if visits > MAX_VISITS {
                return Err(format!("the paths visit more than {MAX_VISITS} values"));
            }
        }
        let original = without_server_fields(original);
        Ok(Self { original, hash, ignored, field_manager: config.field_manager().to_owned() })
    }

    /// Returns what to apply if the object does not exist.
    pub(crate) fn original(&self) -> Value {
        self.original.clone()
    }

    /// Returns what to apply to `live`; `None` if the manifest is unchanged and `live` has all of it.
    pub(crate) fn against(&self, live: &Value, intent: Intent) -> Option<Value> {
        let intent = match &self.hash {
            Some(hash) if live["metadata"]["annotations"][SPEC_HASH] == **hash => Intent::Unchanged,
            Some(_) => Intent::Edited,
            None => intent,
        };
        let (mut required, mut visits) = (self.original.clone(), 0);
        for field in &self.ignored {
            if intent == Intent::Unchanged || !field.on_spoke_change {
                field.remove(&mut required, &mut visits);
            }
        }
        keep(&mut required, &self.original, live, &Owners::of(live, &self.field_manager));
        let has_all =
            difference(live, &merge(&prepared(required.clone()), live, Intent::Unchanged))
                .is_none();
        if intent == Intent::Unchanged && has_all {
            return None;
        }
        // Only to this version: an old value or owner must not overwrite a newer one.
        required["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        Some(required)
    }
}

/// Copies live values of ignored fields that this manager owns: otherwise, the server would remove the fields.
fn keep(required: &mut Value, original: &Value, live: &Value, owners: &Owners<'_>) {
    match (required, original, live) {
        (Value::Object(required), Value::Object(original), Value::Object(live)) => {
            for (key, value) in original {
                let (owners, Some(live)) = (owners.child(&format!("f:{key}")), live.get(key))
                else {
                    continue;
                };
                if let Some(required) = required.get_mut(key) {
                    keep(required, value, live, &owners);
                } else if owners.has_ours() {
                    required.insert(key.clone(), live.clone());
                }
            }
        }
        (Value::Array(required), Value::Array(original), Value::Array(live))
            if required.len() == original.len() =>
        {
            for (required, original) in required.iter_mut().zip(original) {
                let item = live.iter().find_map(|live| Some((live, owners.item(original, live)?)));
                if let Some((live, owners)) = item {
                    keep(required, original, live, &owners);
                }
            }
        }
        _ => {}
    }
}

fn ignored_fields(config: &ServerSideApplyConfig) -> Result<Vec<IgnoredField>, String> {
    let mut ignored = Vec::new();
    for field in &config.ignore_fields {
        if !field.jq_path_expressions.is_empty() {
            return Err("jq path expressions are not supported by this agent".to_owned());
        }
        let on_spoke_change = field.condition == "OnSpokeChange";
        for path in &field.json_paths {
            match path_of(path) {
                Ok(path) => {
                    ignored.push(IgnoredField { on_spoke_change, place: Place::Path(path) })
                }
                // Like upstream, applies the manifest anyway.
                Err(error) => {
                    log::warn!(path = path, error = error; "ignoring a path of ignoreFields")
                }
            }
        }
        for pointer in &field.json_pointers {
            if !pointer.starts_with('/') {
                return Err(format!("a JSON pointer must start with /, got {pointer:?}"));
            }
            ignored.push(IgnoredField { on_spoke_change, place: Place::Pointer(pointer.clone()) });
        }
    }
    Ok(ignored)
}

/// Parses a path whose last segment follows a dot, and like upstream also the part before the dot.
fn path_of(path: &str) -> Result<JsonPath, String> {
    let (parents, _) = path.rsplit_once('.').ok_or("a path must have a dot")?;
    JsonPath::parse(parents)?;
    JsonPath::parse(path)
}

impl IgnoredField {
    fn remove(&self, object: &mut Value, visits: &mut usize) {
        match &self.place {
            // A path that does not fit the object removes nothing.
            Place::Path(path) => drop(path.remove(object, visits)),
            Place::Pointer(pointer) => remove_pointer(object, pointer),
        }
    }
}

fn remove_pointer(object: &mut Value, pointer: &str) {
    let Some((parents, last)) = pointer.rsplit_once('/') else { return };
    match object.pointer_mut(parents) {
        Some(Value::Object(fields)) => {
            fields.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            if let Some(at) = last.parse().ok().filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.as_object_mut()
}

fn annotate(object: &mut Value, hash: &str) {
    let Some(metadata) = metadata(object) else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[SPEC_HASH] = hash.into();
}

/// Covers all metadata, also in templates.
fn remove_null_creation_timestamps(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata")
                && metadata.get("creationTimestamp") == Some(&Value::Null)
            {
                metadata.remove("creationTimestamp");
            }
            fields.values_mut().for_each(remove_null_creation_timestamps);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_null_creation_timestamps),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
