//! Kubeconfigs for the local cluster that are made to cost time and memory.

use std::fs;

use serde_json::json;
use suite::{eventually, sidecar::behind};

use crate::{config, strike::each};

/// 8 MiB while it reads one, and the stacks of two threads.
const MEMORY: &str = "--data=12582912";
/// Seconds of processor time, of which a debug program needs one; the fuzz targets hold the reader to milliseconds.
const PROCESSOR: &str = "--cpu=5";

/// Documents of 1 MiB that are small in writing and large in memory, or slow to read.
fn shapes() -> Vec<(&'static str, String)> {
    let fill = |part: &str| part.repeat((1 << 20) / part.len() - 1);
    let aliases = |n: usize| format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0}]\n", n - 1);
    let chain = (0..100).fold(json!(0), |inner, _| json!({"": inner}));
    vec![
        ("nothing", String::new()),
        ("open maps", fill("{a: ")),
        ("open lists", fill("[")),
        ("open entries", fill("- ")),
        ("questions", fill("[?,")),
        ("indented", (0..1400).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("keys", (0..80_000).map(|key| format!("k{key}: 1\n")).collect()),
        ("anchors", (0..80_000).map(|n| format!("- &a{n} x\n")).collect()),
        ("aliases", format!("a0: &a0 x\n{}", (1..40).map(aliases).collect::<String>())),
        ("documents", fill("---\n")),
        ("a long text", format!("a: {}", fill("x"))),
        ("nested JSON", json!({"kind": "Config", "users": vec![chain; 1600]}).to_string()),
        ("10 MiB", "#\n".repeat(5 << 20)),
    ]
}

#[test]
fn kubeconfig_of_any_shape_is_refused_in_8_mib() {
    each("shapes", |stage| {
        for (name, text) in shapes() {
            let mut process = stage.start_as(&|command| {
                fs::write(config::of(command), &text).expect("the kubeconfig is written");
                *command = behind(&["prlimit", MEMORY, PROCESSOR], command);
            });
            assert_eq!(process.wait().code(), Some(1), "{name}: {}", process.log());
            let is_refusal = |line: &str| line.starts_with('E') && line.contains("kubeconfig");
            eventually(name, || process.log().lines().any(is_refusal));
        }
    });
}

#[test]
fn broken_kubeconfig_is_a_sentence_without_its_secret() {
    each("broken", |stage| {
        for (place, value, part) in [
            ("/current-context", json!("other"), "has no context \"other\""),
            ("/users/0/user", json!({"token": "hunter\n2"}), "characters that no header can"),
        ] {
            let mut process = stage.start_as(&|command| {
                config::change(command, |config| {
                    *config.pointer_mut(place).expect("the place is there") = value.clone();
                });
            });
            assert_eq!(process.wait().code(), Some(1), "{part}: {}", process.log());
            eventually(part, || process.count(part) > 0);
            assert!(!process.log().contains("hunter"), "{}", process.log());
        }
    });
}
