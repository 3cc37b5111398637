//! Kubeconfigs for the local cluster that are broken, odd, or made to cost time and memory: F19.

use std::{cell::Cell, fs, time::Duration};

use serde_json::json;
use suite::{
    eventually,
    sidecar::{Sidecar, behind, shipped},
};

use crate::{
    config,
    stage::Stage,
    strike::{each, ends},
};

/// 8 MiB while it reads one, and the stacks of two threads.
const MEMORY: &str = "--data=12582912";

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

/// Starts it with this text as its kubeconfig and within that memory.
fn start(stage: &dyn Stage, text: &str) -> (Sidecar, bool) {
    let is_shipped = Cell::new(false);
    let process = stage.start_as(&|command| {
        fs::write(config::of(command), text).expect("the kubeconfig is written");
        if let Some(shipped) = shipped(command) {
            *command = shipped;
            is_shipped.set(true);
        }
        // Dash prints the processor time of what it ran as "0m0.01s 0m0.00s", after that of its own.
        let script = r#""$0" "$@"; code=$?; times >&2; exit "$code""#;
        *command = behind(&["prlimit", MEMORY, "sh", "-c", script], command);
    });
    (process, is_shipped.get())
}

/// The processor time in the second line of `times`.
fn worked(log: &str) -> Option<Duration> {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let sum = |line: &str| line.split(' ').map(seconds).sum::<Option<f64>>();
    log.lines().filter_map(sum).nth(1).map(Duration::from_secs_f64)
}

#[test]
fn f19_any_shape_is_refused_within_100_ms_and_8_mib() {
    each("shapes", |stage| {
        for (name, text) in shapes() {
            let (mut process, is_shipped) = start(stage, &text);
            assert_eq!(process.wait().code(), Some(1), "{name}: {}", process.log());
            let time = eventually("the time is told", || worked(&process.log()));
            let refusal =
                process.log().lines().any(|it| it.starts_with('E') && it.contains("kubeconfig"));
            assert!(refusal, "{name}: {}", process.log());
            let most = Duration::from_millis(if is_shipped { 100 } else { 1500 });
            assert!(time <= most, "{name}: {time:?}");
        }
    });
}

#[test]
fn f19_every_fault_is_a_sentence() {
    each("broken", |stage| {
        for (place, value, part) in [
            ("/current-context", json!("other"), "has no context \"other\""),
            ("/contexts/0/context/cluster", json!("other"), "has no configuration"),
            ("/clusters/0/cluster/server", json!("ftp://x"), "not an http or https URL"),
            ("/clusters/0/cluster/certificate-authority-data", json!("%"), "is not base64"),
            ("/users/0/user", json!({"exec": {"command": "aws"}}), "\"aws\" (exec)"),
            ("/users/0/user", json!({"tokenFile": "nowhere"}), "tokenFile"),
            ("/users/0/user", json!({"token": "hunter\n2"}), "characters that no header can"),
        ] {
            let mut process = stage.start_as(&|command| {
                config::change(command, |config| {
                    *config.pointer_mut(place).expect("the place is there") = value.clone();
                });
            });
            assert_eq!(process.wait().code(), Some(1), "{part}: {}", process.log());
            eventually(part, || process.log().contains(part).then_some(()));
            assert!(!process.log().contains("hunter"), "{}", process.log());
        }
    });
}

#[test]
fn f19_what_is_merely_unusual_is_taken() {
    let yaml = |json: &str| {
        let value = serde_yaml::from_str::<serde_yaml::Value>(json).expect("YAML");
        serde_yaml::to_string(&value).expect("YAML")
    };
    let variants: [&(dyn Fn(&str) -> String + Sync); 3] =
        [&|json| format!("\u{feff}{json}"), &|json| yaml(json).replace('\n', "\r\n"), &|json| {
            format!("{}unknown: 1\n", yaml(json))
        }];
    each("unusual", |stage| {
        for variant in variants {
            let mut process = stage.start_as(&|command| {
                let path = config::of(command);
                let text = fs::read_to_string(&path).expect("the kubeconfig");
                fs::write(path, variant(&text)).expect("the kubeconfig is written");
            });
            stage.settle(&process);
            ends(&mut process);
        }
    });
}
