//! Server-side apply and field ownership, for objects that a client with a `fieldManager` wrote. Lists are atomic
//! except those in [`KEYS`]; subresources have no field owners.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Map lists: name and key.
const KEYS: [(&str, &str); 2] = [("containers", "name"), ("ownerReferences", "uid")];
/// Metadata fields without an owner.
const SERVER_FIELDS: [&str; 8] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

/// The path of a field, in FieldsV1 segments.
type Path = Vec<String>;

/// A manager and its operation.
type Manager = (String, String);

/// A field that another manager owns with another value.
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) field: String,
}

/// Returns the object after `manager` applied its configuration, or the conflicts.
pub(crate) fn apply(
    live: &Value,
    applied: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Vec<Conflict>> {
    let me = (manager.to_owned(), "Apply".to_owned());
    let (mut fields, new, mut managers) = (leaves(live), leaves(applied), managers(live));
    let differs = |path: &Path| fields.get(path).is_some_and(|value| new.get(path) != Some(value));
    let mut conflicts = Vec::new();
    for (other, paths) in managers.iter().filter(|(other, _)| **other != me) {
        for path in paths.iter().filter(|path| new.contains_key(*path) && differs(path)) {
            conflicts.push((other.clone(), path.clone()));
        }
    }
    if !conflicts.is_empty() && !force {
        let shown = conflicts.into_iter().map(|((manager, _), path)| {
            let steps = path.iter().map(|step| format!(".{}", name(step)));
            Conflict { manager, field: steps.collect() }
        });
        return Err(shown.collect());
    }
    for (other, path) in &conflicts {
        managers.get_mut(other).map(|paths| paths.remove(path));
    }
    for path in managers.remove(&me).unwrap_or_default() {
        if !managers.values().any(|paths| paths.contains(&path)) {
            fields.remove(&path);
        }
    }
    managers.insert(me, new.keys().cloned().collect());
    fields.extend(new);
    let mut object = live.clone();
    // The remaining `fields` have everything else.
    if let Value::Object(top) = &mut object {
        top.retain(|key, _| ["apiVersion", "kind", "metadata"].contains(&&**key));
        if let Some(Value::Object(metadata)) = top.get_mut("metadata") {
            metadata.retain(|field, _| SERVER_FIELDS.contains(&&**field));
        }
    }
    for (key, value) in tree(fields) {
        let Value::Object(top) = &mut object else { break };
        match (&*key, value) {
            ("metadata", Value::Object(own)) => {
                let Some(Value::Object(metadata)) = top.get_mut("metadata") else { continue };
                metadata.extend(own);
            }
            (_, value) => drop(top.insert(key, value)),
        }
    }
    write(&mut object, &managers);
    Ok(object)
}

/// Records that `manager` changed `current` to `next` by a write that is not an apply.
pub(crate) fn update(current: Option<&Value>, next: &mut Value, manager: &str) {
    let before = current.map(leaves).unwrap_or_default();
    let after = leaves(next);
    let mut managers = current.map(managers).unwrap_or_default();
    let is_changed = |path: &Path| before.get(path) != after.get(path);
    for paths in managers.values_mut() {
        paths.retain(|path| !is_changed(path));
    }
    let mine = managers.entry((manager.to_owned(), "Update".to_owned())).or_default();
    mine.extend(after.keys().filter(|path| is_changed(path)).cloned());
    write(next, &managers);
}

fn write(object: &mut Value, managers: &BTreeMap<Manager, BTreeSet<Path>>) {
    let entries = managers.iter().filter(|(_, paths)| !paths.is_empty());
    let entries = entries.map(|((manager, operation), paths)| {
        let mut fields = json!({});
        for path in paths {
            *path.iter().fold(&mut fields, |place, step| &mut place[step]) = json!({});
        }
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    });
    object["metadata"]["managedFields"] = entries.collect();
}

fn managers(object: &Value) -> BTreeMap<Manager, BTreeSet<Path>> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let of = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let mut paths = BTreeSet::new();
        collect_paths(&entry["fieldsV1"], &mut Vec::new(), &mut paths);
        ((text("manager"), text("operation")), paths)
    };
    entries.map(of).collect()
}

fn collect_paths(fields: &Value, path: &mut Path, paths: &mut BTreeSet<Path>) {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else {
        paths.insert(path.clone());
        return;
    };
    for (step, below) in fields {
        path.push(step.clone());
        collect_paths(below, path, paths);
        path.pop();
    }
}

/// Returns an object's leaves: values without children, and atomic values.
fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    let mut leaves = BTreeMap::new();
    let mut object = object.clone();
    for part in ["apiVersion", "kind"] {
        object.as_object_mut().map(|fields| fields.remove(part));
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, _| !SERVER_FIELDS.contains(&&**field));
    }
    collect_leaves("", &object, &mut Vec::new(), &mut leaves);
    leaves
}

fn collect_leaves(name: &str, value: &Value, path: &mut Path, leaves: &mut BTreeMap<Path, Value>) {
    let key = KEYS.iter().find(|(list, _)| *list == name).map(|(_, key)| *key);
    match (value, key) {
        (Value::Null, _) => {}
        (Value::Object(fields), _) if !fields.is_empty() => {
            for (key, value) in fields {
                path.push(format!("f:{key}"));
                collect_leaves(key, value, path, leaves);
                path.pop();
            }
        }
        (Value::Object(_), _) if path.last().is_some_and(|step| step == "f:metadata") => {}
        (Value::Array(items), Some(key)) => {
            for item in items {
                path.push(format!("k:{}", json!({key: item[key]})));
                collect_leaves("", item, path, leaves);
                path.pop();
            }
        }
        (value, _) => drop(leaves.insert(path.clone(), value.clone())),
    }
}

/// Builds the object from its leaves.
fn tree(leaves: BTreeMap<Path, Value>) -> Map<String, Value> {
    let mut root = Map::new();
    for (path, value) in leaves {
        insert(&mut root, &path, value);
    }
    root.into_iter().map(|(key, value)| (name(&key), with_lists(value))).collect()
}

fn insert(place: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => drop(place.insert(last.clone(), json!([value]))),
        [first, rest @ ..] => {
            let below = place.entry(first.clone()).or_insert_with(|| json!({}));
            // An empty map is a leaf until it has entries.
            if !below.is_object() {
                *below = json!({});
            }
            if let Value::Object(below) = below {
                insert(below, rest, value);
            }
        }
    }
}

fn name(step: &str) -> String {
    step.strip_prefix("f:").unwrap_or(step).to_owned()
}

/// A leaf is in an array of one element, which distinguishes it from the maps around it.
fn with_lists(value: Value) -> Value {
    match value {
        Value::Array(leaf) => leaf.into_iter().next().unwrap_or_default(),
        Value::Object(fields) if fields.keys().any(|key| key.starts_with("k:")) => {
            fields.into_iter().map(|(_, item)| with_lists(item)).collect()
        }
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(key, value)| (name(&key), with_lists(value))).collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
    }

    fn applied(live: &Value, data: Value, manager: &str, force: bool) -> Result<Value, String> {
        let fields = |conflicts: Vec<Conflict>| conflicts.into_iter().map(|c| c.manager + &c.field);
        apply(live, &map(data), manager, force).map_err(|conflicts| fields(conflicts).collect())
    }

    #[test]
    fn field_goes_with_its_last_owner_and_others_stay() {
        let mut live = map(json!({"theirs": "1"}));
        update(None, &mut live, "kubectl");
        let live = applied(&live, json!({"a": "1", "b": "1"}), "one", false).unwrap();
        let live = applied(&live, json!({"b": "1"}), "two", false).unwrap();
        let live = applied(&live, json!({}), "one", false).unwrap();
        assert_eq!(live["data"], json!({"theirs": "1", "b": "1"}));
    }

    #[test]
    fn last_field_of_a_map_goes_with_it() {
        let live = applied(&map(json!({})), json!({"a": "1"}), "one", false).unwrap();
        let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let live = apply(&live, &bare, "one", false).ok().unwrap();
        assert_eq!((live.get("data"), &live["metadata"]["name"]), (None, &json!("a")));
    }

    #[test]
    fn other_value_of_another_manager_is_a_conflict_until_forced() {
        let mut live = applied(&map(json!({})), json!({"a": "1"}), "one", false).unwrap();
        let before = live.clone();
        live["data"]["a"] = "2".into();
        update(Some(&before), &mut live, "kubectl");
        assert_eq!(applied(&live, json!({"a": "1"}), "one", false), Err("kubectl.data.a".into()));
        assert!(applied(&live, json!({"a": "2"}), "one", false).is_ok(), "both own it");
        let forced = applied(&live, json!({"a": "3"}), "one", true).unwrap();
        let managers = forced["metadata"]["managedFields"].as_array().unwrap().len();
        assert_eq!((&forced["data"]["a"], managers), (&json!("3"), 1));
    }

    #[test]
    fn items_of_a_keyed_list_have_owners() {
        let owner = |uid: &str| json!({"metadata": {"name": "a", "ownerReferences": [{"uid": uid, "kind": "K"}]}});
        let live = apply(&owner("x"), &owner("y"), "one", false).ok().unwrap();
        let uids = |object: &Value| object["metadata"]["ownerReferences"].to_string();
        assert_eq!(uids(&live), r#"[{"kind":"K","uid":"x"},{"kind":"K","uid":"y"}]"#);
        assert_eq!(live["metadata"]["name"], "a");
        let live = apply(&live, &json!({"metadata": {}}), "one", false).ok().unwrap();
        assert_eq!(uids(&live), r#"[{"kind":"K","uid":"x"}]"#);
    }
}
