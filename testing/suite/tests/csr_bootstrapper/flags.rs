//! The command line: invalid flags are exit code 2 and a sentence, what else is refused at startup is exit code
//! 1.

use std::process::Output;

use serde_json::json;
use suite::{
    identity::kubeconfig,
    outputs,
    sidecar::{bare, program, usage_error},
};

fn run(arguments: &[&str]) -> Output {
    let mut command = bare(&program("csr-bootstrapper"));
    command.args(["-metrics-port", "0"]).args(arguments);
    command.env("POD_NAMESPACE", "ns").env("KUBECONFIG", "/nonexisting/kubeconfig");
    outputs::run(&mut command)
}

/// Exit code 2 with a sentence that has `parts`.
#[track_caller]
fn usage(arguments: &[&str], parts: &[&str]) {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    let sentence = usage_error("csr-bootstrapper", &text);
    for part in parts {
        assert!(sentence.contains(part), "{arguments:?}: {sentence}");
    }
}

#[test]
fn flags_that_cannot_be_used_are_exit_code_2() {
    for (more, part) in [
        (&["-unknown"][..], "unknown"),
        (&["-cluster-name"], "-cluster-name"),
        (&["--hub-kubeconfig=x"], "-hub-kubeconfig-secret"),
        (&["-once=perhaps"], "-once"),
        (&["-metrics-port", "70000"], "-metrics-port"),
        (&["-logging-format", "xml"], "-logging-format"),
        (&["-v", "much"], "-v"),
    ] {
        usage(more, &[part]);
    }
}

#[test]
fn own_kubeconfig_that_cannot_be_used_is_exit_code_1() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let good = kubeconfig("127.0.0.1:1", "", &json!({"token": "x"}));
    let mut good = good;
    good["clusters"][0]["cluster"] = json!({"server": "https://127.0.0.1:1"});
    std::fs::write(path("good"), good.to_string()).expect("a file");
    std::fs::write(path("broken"), "apiVersion: [").expect("a file");
    std::fs::write(path("empty"), "").expect("a file");
    for broken in ["broken", "empty", "missing"] {
        for arguments in [
            &["-kubeconfig", &path(broken)][..],
            &["-kubeconfig", &path("good"), "-spoke-kubeconfig", &path(broken)],
            &["-kubeconfig", &path(broken), "-once", "-wait-timeout", "60"],
        ] {
            let output = run(arguments);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
            let last = text.lines().last().unwrap_or_default();
            assert!(last.starts_with('E') && last.contains(&path(broken)), "{last}");
        }
    }
}

#[test]
fn version_and_help_are_printed() {
    for (flag, part) in [("-version", env!("CARGO_PKG_VERSION")), ("--help", "-agent-id string")] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(part) && output.stderr.is_empty(), "{text}");
    }
}
