//! Structural schemas of custom resources: pruning and defaulting, by the rules of apiextensions-apiserver
//! (`pkg/apiserver/schema/pruning` and `defaulting`).

use serde_json::{Map, Value};

const UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// Removes an object's fields that its schema does not specify, and adds the defaults.
pub(crate) fn shape(schema: &Value, object: &mut Value) {
    let Value::Object(fields) = object else { return };
    let kept: Vec<(String, Value)> = ["apiVersion", "kind", "metadata"]
        .into_iter()
        .filter_map(|name| fields.remove_entry(name))
        .collect();
    shape_fields(schema, fields);
    fields.extend(kept);
}

fn shape_value(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => shape_fields(schema, fields),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| shape_value(&schema["items"], item));
        }
        _ => {}
    }
}

fn shape_fields(schema: &Value, fields: &mut Map<String, Value>) {
    let none = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&none);
    let others = Some(&schema["additionalProperties"]).filter(|others| others.is_object());
    let keeps = schema[UNKNOWN] == true || schema["additionalProperties"] == true;
    fields.retain(|name, _| keeps || others.is_some() || known.contains_key(name));
    for (name, property) in known {
        let Some(default) = property.get("default") else { continue };
        let is_absent = |value: &Value| value.is_null() && property["nullable"] != true;
        if fields.get(name).is_none_or(is_absent) {
            fields.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in fields.iter_mut() {
        if let Some(schema) = known.get(name).or(others) {
            shape_value(schema, value);
        }
    }
}
