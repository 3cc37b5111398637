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
pub(crate) fn chain(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!({"": inner}))
}

/// Kubeconfigs of 1 MiB or less, by name.
pub(crate) fn kubeconfigs() -> Vec<(&'static str, String)> {
    const MOST: usize = 1_040_000;
    let fill = |part: &str| part.repeat(MOST / part.len());
    let aliases = |n: usize| format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0}]\n", n - 1);
    let json = json!({"kind": "Config", "users": vec![chain(100); 1600]}).to_string();
    vec![
        ("open maps", fill("{a: ")),
        ("open lists", fill("[")),
        ("open entries", fill("- ")),
        ("questions", fill("? ")),
        ("colons", fill(": ")),
        ("empty maps", format!("[{}", fill("{},"))),
        ("scalars", format!("[{}", fill("a,"))),
        ("keys", (0..80_000).map(|key| format!("k{key}: 1\n")).collect()),
        ("indented", (0..1400).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("anchors", (0..80_000).map(|n| format!("- &a{n} x\n")).collect()),
        ("aliases", format!("a0: &a0 x\n{}", (1..40).map(aliases).collect::<String>())),
        ("comments", fill("#\n")),
        ("directives", fill("%YAML 1.2\n")),
        ("documents", fill("---\n")),
        ("a long text", format!("a: {}", "x".repeat(MOST))),
        ("a folded text", format!("a: >\n{}", fill("  x\n"))),
        ("quoted", format!("a: \"{}", fill("\\x41"))),
        ("tags", fill("!a ")),
        ("nested JSON", json),
    ]
}
