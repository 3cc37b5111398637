//! Generic merge of strategy Update: sets the fields that the manifest names, and removes fields that it named before.
//!
//! The object's managedFields say what it named before: fields that only `work-agent` owns. They also say which lists
//! have keys; a list without keys is replaced as a whole.

use serde_json::{Map, Value};

use super::objects::FIELD_MANAGER;

/// The annotation with the hash of the applied manifest.
pub(crate) const SPEC_HASH: &str = "open-cluster-management.io/config-spec-hash";
/// Annotations of the Go agent, which a merge keeps although no manifest names them.
const KEPT_ANNOTATIONS: [&str; 2] = ["operator.openshift.io/spec-hash", SPEC_HASH];

/// Whether the manifest differs from the one applied before: only an edited one removes fields. A creator also owns
/// the server's defaults, which look like fields of its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Edited,
    Unchanged,
}

/// The FieldsV1 at a place in the object: our own, and the ones of others.
#[derive(Clone, Default)]
pub(crate) struct Owners<'a> {
    ours: Vec<&'a Value>,
    others: Vec<&'a Value>,
}

/// Returns `live` with the changes that the manifest needs.
pub(crate) fn merge(manifest: &Value, live: &Value, intent: Intent) -> Value {
    let owners = Owners::of(live, FIELD_MANAGER);
    let mut merged = live.clone();
    let empty = Map::new();
    let (wanted, present) =
        (manifest.as_object().unwrap_or(&empty), live.as_object().unwrap_or(&empty));
    for key in present.keys().chain(wanted.keys()) {
        if !matches!(&**key, "apiVersion" | "kind" | "metadata" | "status") {
            let owners = owners.child(&format!("f:{key}"));
            set(&mut merged, key, place(wanted.get(key), present.get(key), &owners, intent));
        }
    }
    let metadata = owners.child("f:metadata");
    for key in ["labels", "annotations"] {
        let owners = metadata.child(&format!("f:{key}"));
        let map = merge_names(&manifest["metadata"][key], &live["metadata"][key], &owners, intent);
        set(&mut merged["metadata"], key, (!map.is_empty()).then_some(Value::Object(map)));
    }
    merged
}

/// Merges labels or annotations: a key with the suffix `-` removes the key without the suffix.
fn merge_names(
    wanted: &Value,
    live: &Value,
    owners: &Owners<'_>,
    intent: Intent,
) -> Map<String, Value> {
    let empty = Map::new();
    let (wanted, live) = (wanted.as_object().unwrap_or(&empty), live.as_object().unwrap_or(&empty));
    let was_named = |key: &String| {
        let owners = owners.child(&format!("f:{key}"));
        intent == Intent::Edited && owners.are_ours() && !KEPT_ANNOTATIONS.contains(&&**key)
    };
    let mut map = live.clone();
    map.retain(|key, _| {
        !wanted.contains_key(&format!("{key}-")) && (wanted.contains_key(key) || !was_named(key))
    });
    let named = wanted.iter().filter(|(key, _)| !key.ends_with('-'));
    map.extend(named.map(|(key, value)| (key.clone(), value.clone())));
    map
}

/// Returns the value of a place; `None` removes it.
fn place(
    wanted: Option<&Value>,
    live: Option<&Value>,
    owners: &Owners<'_>,
    intent: Intent,
) -> Option<Value> {
    match (wanted, live) {
        // A null in the manifest counts as absent.
        (None | Some(Value::Null), live) => live.and_then(|live| {
            if intent == Intent::Edited { prune(live, owners) } else { Some(live.clone()) }
        }),
        (Some(wanted), Some(Value::Object(_)))
            if intent == Intent::Edited && owners.are_ours_as_a_whole() =>
        {
            Some(without_nulls(wanted))
        }
        (Some(Value::Object(wanted)), Some(Value::Object(live))) => {
            let keys: Vec<&String> =
                live.keys().chain(wanted.keys().filter(|key| !live.contains_key(*key))).collect();
            let fields = keys.into_iter().filter_map(|key| {
                let owners = owners.child(&format!("f:{key}"));
                place(wanted.get(key), live.get(key), &owners, intent).map(|v| (key.clone(), v))
            });
            Some(Value::Object(fields.collect()))
        }
        (Some(Value::Array(wanted)), Some(Value::Array(live))) => {
            Some(Value::Array(merge_list(wanted, live, owners, intent)))
        }
        (Some(wanted), _) => Some(without_nulls(wanted)),
    }
}

fn merge_list(wanted: &[Value], live: &[Value], owners: &Owners<'_>, intent: Intent) -> Vec<Value> {
    let keys = owners.keys("k:");
    if !keys.is_empty() {
        return merge_keyed(wanted, live, (owners, &keys), intent);
    }
    if !owners.keys("v:").is_empty() {
        let keep = |item: &&Value| {
            let owners = owners.child(&format!("v:{item}"));
            wanted.contains(item) || intent == Intent::Unchanged || !owners.are_ours()
        };
        let mut merged: Vec<Value> = live.iter().filter(keep).cloned().collect();
        merged.extend(wanted.iter().filter(|item| !live.contains(item)).cloned());
        return merged;
    }
    if intent == Intent::Unchanged && wanted.len() == live.len() {
        // The server may have set defaults within the items.
        let items = wanted.iter().zip(live);
        return items
            .filter_map(|(wanted, live)| {
                place(Some(wanted), Some(live), &Owners::default(), intent)
            })
            .collect();
    }
    wanted.iter().map(without_nulls).collect()
}

/// Merges a list whose items have keys, such as the containers of a pod.
fn merge_keyed(
    wanted: &[Value],
    live: &[Value],
    (owners, keys): (&Owners<'_>, &[&str]),
    intent: Intent,
) -> Vec<Value> {
    let keys: Vec<(&str, Map<String, Value>)> = keys
        .iter()
        .filter_map(|key| Some((*key, serde_json::from_str(key.strip_prefix("k:")?).ok()?)))
        .collect();
    let names: Vec<&String> = keys.first().map(|(_, key)| key.keys().collect()).unwrap_or_default();
    // Returns how many keys `wanted` names, if they match. The server sets defaults for keys that it omits.
    let same = |wanted: &Value, live: &Value| {
        let named = names.iter().filter(|name| wanted.get(name.as_str()).is_some());
        let is_same =
            named.clone().all(|name| wanted.get(name.as_str()) == live.get(name.as_str()));
        Some(named.count()).filter(|named| is_same && *named > 0)
    };
    let mut left: Vec<(usize, &Value)> = wanted.iter().enumerate().collect();
    // Each item with its index in the manifest.
    let mut merged: Vec<(Option<usize>, Value)> = Vec::new();
    for item in live {
        let key = keys.iter().find(|(_, key)| key.iter().all(|(name, value)| &item[name] == value));
        let owners = key.map_or_else(Owners::default, |(text, _)| owners.child(text));
        // Of several matches, the first that names the most keys.
        let matching = left.iter().enumerate().rev();
        let matching = matching.filter_map(|(at, (_, wanted))| Some((same(wanted, item)?, at)));
        let found = matching.max_by_key(|(named, _)| *named).map(|(_, at)| left.remove(at));
        let item = place(found.map(|(_, wanted)| wanted), Some(item), &owners, intent);
        merged.extend(item.map(|item| (found.map(|(at, _)| at), item)));
    }
    merged.extend(left.into_iter().map(|(at, wanted)| (Some(at), without_nulls(wanted))));
    // The order may matter, as for initContainers.
    if intent == Intent::Edited && !merged.iter().filter_map(|(at, _)| *at).is_sorted() {
        merged.sort_by_key(|(at, _)| at.unwrap_or(usize::MAX));
    }
    merged.into_iter().map(|(_, item)| item).collect()
}

/// Removes our fields from a value that the manifest does not name; returns the rest, if any.
fn prune(live: &Value, owners: &Owners<'_>) -> Option<Value> {
    if owners.ours.is_empty() {
        return Some(live.clone());
    }
    if owners.others.is_empty() {
        return None;
    }
    let Value::Object(fields) = live else { return Some(live.clone()) };
    let kept = fields.iter().filter_map(|(key, value)| {
        Some((key.clone(), prune(value, &owners.child(&format!("f:{key}")))?))
    });
    Some(Value::Object(kept.collect()))
}

impl<'a> Owners<'a> {
    pub(crate) fn of(live: &'a Value, field_manager: &str) -> Self {
        let entries = live["metadata"]["managedFields"].as_array();
        let mut owners = Self::default();
        for entry in entries.into_iter().flatten() {
            let is_ours = entry["manager"] == field_manager && entry["subresource"].is_null();
            let side = if is_ours { &mut owners.ours } else { &mut owners.others };
            side.push(&entry["fieldsV1"]);
        }
        owners
    }

    pub(crate) fn child(&self, key: &str) -> Self {
        let get =
            |fields: &[&'a Value]| fields.iter().filter_map(|fields| fields.get(key)).collect();
        Self { ours: get(&self.ours), others: get(&self.others) }
    }

    /// Returns the owners within an item of a keyed list, if both values have its keys.
    pub(crate) fn item(&self, wanted: &Value, live: &Value) -> Option<Self> {
        let is_item = |key: &&&str| {
            let fields = key.strip_prefix("k:").map(serde_json::from_str::<Map<String, Value>>);
            let Some(Ok(fields)) = fields else { return false };
            fields.iter().all(|(name, value)| live[name] == *value && wanted[name] == *value)
        };
        self.keys("k:").iter().find(is_item).map(|key| self.child(key))
    }

    pub(crate) fn has_ours(&self) -> bool {
        !self.ours.is_empty()
    }

    fn are_ours(&self) -> bool {
        !self.ours.is_empty() && self.others.is_empty()
    }

    /// Returns whether we alone own an atomic field: its FieldsV1 has no children.
    fn are_ours_as_a_whole(&self) -> bool {
        self.are_ours()
            && self.ours.iter().all(|fields| fields.as_object().is_some_and(Map::is_empty))
    }

    /// Returns the keys with this prefix, sorted.
    fn keys(&self, prefix: &str) -> Vec<&'a str> {
        let all = self.ours.iter().chain(&self.others).filter_map(|fields| fields.as_object());
        let mut keys: Vec<&str> = all
            .flat_map(Map::keys)
            .map(|key| &**key)
            .filter(|key| key.starts_with(prefix))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if let Value::Object(fields) = object {
        match value {
            Some(value) => fields.insert(key.to_owned(), value),
            None => fields.remove(key),
        };
    }
}

pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let named = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(named.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        value => value.clone(),
    }
}

/// Returns the JSON merge patch (RFC 7386) that turns `before` into `after`; `None` if they are equal.
pub(crate) fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let changed = match old.get(key) {
            Some(old) => difference(old, value),
            None => Some(value.clone()),
        };
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests;
