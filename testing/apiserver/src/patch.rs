//! JSON patch (RFC 6902) and JSON merge patch (RFC 7396).

use serde_json::Value;

/// Why a patch cannot be applied.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// The patch itself cannot be parsed.
    Malformed(String),
    /// A path does not exist, or a test failed.
    Unfit,
}

use Failure::{Malformed, Unfit};

/// Applies a merge patch: null removes, objects merge, all other values replace. Drops the directives of a strategic
/// merge patch (`$patch`, `$setElementOrder/…`).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Default::default());
    }
    let Value::Object(fields) = target else { return };
    for (key, change) in changes.iter().filter(|(key, _)| !key.starts_with('$')) {
        match change {
            Value::Null => {
                fields.remove(key);
            }
            change => merge(fields.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}

/// Applies all operations of a JSON patch, or none of them.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    let operations = patch.as_array().ok_or_else(|| {
        Malformed("cannot unmarshal object into Go value of type jsonpatch.Patch".into())
    })?;
    let mut work = target.clone();
    for operation in operations {
        apply_operation(&mut work, operation)?;
    }
    *target = work;
    Ok(())
}

fn apply_operation(document: &mut Value, operation: &Value) -> Result<(), Failure> {
    let path = pointer(operation, "path")?;
    let value = || operation.get("value").cloned().ok_or(Unfit);
    match operation["op"].as_str() {
        Some("add") => add(document, &path, value()?),
        Some("remove") => remove(document, &path).map(drop),
        Some("replace") => {
            *find(document, &path)? = value()?;
            Ok(())
        }
        Some("move") => {
            let moved = remove(document, &pointer(operation, "from")?)?;
            add(document, &path, moved)
        }
        Some("copy") => {
            let copied = find(document, &pointer(operation, "from")?)?.clone();
            add(document, &path, copied)
        }
        Some("test") => {
            // A missing field equals null, as in the real server's library.
            let expected = operation.get("value").cloned().unwrap_or(Value::Null);
            let found = find(document, &path).map(|found| found.clone()).unwrap_or(Value::Null);
            if found == expected { Ok(()) } else { Err(Unfit) }
        }
        other => Err(Malformed(format!("unexpected kind of operation: {other:?}"))),
    }
}

fn pointer(operation: &Value, key: &str) -> Result<Vec<String>, Failure> {
    let text =
        operation[key].as_str().ok_or_else(|| Malformed(format!("operation without {key}")))?;
    let steps = text.split('/').skip(1);
    Ok(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

fn find<'a>(document: &'a mut Value, path: &[String]) -> Result<&'a mut Value, Failure> {
    path.iter().try_fold(document, |place, step| match place {
        Value::Object(fields) => fields.get_mut(step).ok_or(Unfit),
        Value::Array(items) => {
            let index: usize = step.parse().map_err(|_| Unfit)?;
            items.get_mut(index).ok_or(Unfit)
        }
        _ => Err(Unfit),
    })
}

fn add(document: &mut Value, path: &[String], value: Value) -> Result<(), Failure> {
    let Some((last, parents)) = path.split_last() else {
        *document = value;
        return Ok(());
    };
    match find(document, parents)? {
        Value::Object(fields) => {
            fields.insert(last.clone(), value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index = last.parse().ok().filter(|i| *i <= items.len()).ok_or(Unfit)?;
            items.insert(index, value);
        }
        _ => return Err(Unfit),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &[String]) -> Result<Value, Failure> {
    let (last, parents) = path.split_last().ok_or(Unfit)?;
    match find(document, parents)? {
        Value::Object(fields) => fields.remove(last).ok_or(Unfit),
        Value::Array(items) => {
            let index = last.parse().ok().filter(|i| *i < items.len()).ok_or(Unfit)?;
            Ok(items.remove(index))
        }
        _ => Err(Unfit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn applied(mut document: Value, patch: Value) -> Result<Value, Failure> {
        apply(&mut document, &patch).map(|()| document)
    }

    #[test]
    fn merge_patch_removes_merges_and_replaces() {
        let mut document = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "x": "y"});
        merge(&mut document, &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3]}));
        assert_eq!(document, json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3], "x": "y"}));
    }

    #[test]
    fn json_patch_knows_all_six_operations() {
        let patch = json!([
            {"op": "test", "path": "/a/b", "value": 1},
            {"op": "add", "path": "/a/l/1", "value": 9},
            {"op": "add", "path": "/a/l/-", "value": 3},
            {"op": "replace", "path": "/a/b", "value": 2},
            {"op": "copy", "from": "/a/b", "path": "/c"},
            {"op": "move", "from": "/c", "path": "/x~1y~0z"},
            {"op": "remove", "path": "/a/l/0"},
        ]);
        let done = applied(json!({"a": {"b": 1, "l": [1, 2]}}), patch);
        assert_eq!(done, Ok(json!({"a": {"b": 2, "l": [9, 2, 3]}, "x/y~z": 2})));
    }

    #[test]
    fn json_patch_fails_as_a_whole() {
        let document = json!({"a": 1});
        for patch in [
            json!([{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "replace", "path": "/none", "value": 2}]),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "add", "path": "/none/x", "value": 2}]),
        ] {
            let mut kept = document.clone();
            assert_eq!(apply(&mut kept, &patch), Err(Unfit), "{patch}");
            assert_eq!(kept, document);
        }
    }

    #[test]
    fn json_patch_that_is_no_list_is_malformed() {
        assert!(matches!(applied(json!({}), json!({"op": "add"})), Err(Malformed(_))));
    }
}
