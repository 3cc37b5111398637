//! Parts of a document that cached objects and uploaded Secrets are made of.

use serde_json::{Map, Value};

/// A copy of the members that `keep` accepts. One function for all: each sort of iterator that is collected into a
/// map, and each closure that a map retains by, takes 3 KB of the program.
pub fn members(of: Option<&Map<String, Value>>, keep: &dyn Fn(&str) -> bool) -> Map<String, Value> {
    let mut kept = Map::new();
    for (key, value) in of.into_iter().flatten().filter(|(key, _)| keep(key)) {
        kept.insert(key.clone(), value.clone());
    }
    kept
}

/// The ownerReference of the object that controls this one.
pub fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}
