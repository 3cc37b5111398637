//! Documents that are small on the wire and large in memory, or slow to read.

use serde_json::{Value, json};

/// What one field of an object may be, by name, as JSON.
pub(crate) fn values() -> Vec<(&'static str, Value)> {
    let list = |count: usize, item: Value| Value::Array(vec![item; count]);
    let keys = (0..30_000).map(|key| (format!("key-{key}"), json!(0)));
    vec![
        // A map with one key costs 672 bytes, in JSON five: 490 KB became 263 MB.
        ("nested maps", list(820, chain(100))),
        ("maps", list(60_000, json!({"": 0}))),
        ("numbers", list(100_000, json!(0))),
        ("texts", list(60_000, json!("a"))),
        ("keys", Value::Object(keys.collect())),
        ("a long text", json!("x".repeat(1_835_000))),
        ("quotes", json!("\"\\".repeat(400_000))),
    ]
}

/// A map in a map, so deep.
fn chain(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!({"": inner}))
}
