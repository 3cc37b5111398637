//! The command line: invalid flags are exit code 2 and a sentence, what else is refused at startup is exit code
//! 1; nothing is written in either case.

use std::process::Output;

use serde_json::json;
use suite::{
    identity::kubeconfig,
    outputs,
    sidecar::{bare, program, usage_error},
    sync::{Setting, Stage, WIDGETS, words},
};

fn run(arguments: &[&str]) -> Output {
    let mut command = bare(&program("remote-sync"));
    command.args(["-metrics-port", "0"]).args(arguments);
    command.env("POD_NAMESPACE", "ns").env("KUBECONFIG", "/nonexisting/kubeconfig");
    outputs::run(&mut command)
}

/// Exit code 2 with a sentence that has `part`.
#[track_caller]
fn usage(arguments: &[&str], part: &str) {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    let sentence = usage_error("remote-sync", &text);
    assert!(sentence.contains(part), "{arguments:?}: {sentence}");
}

const GOOD: [&str; 4] =
    ["-resource=widgets.sync.example.com", "-remote-kubeconfig", "hub=/x", "-v=2"];

#[test]
fn invalid_flags_are_exit_code_2_with_a_sentence() {
    usage(&["-remote-kubeconfig", "hub=/x"], "-resource");
    usage(&["-resource=widgets.sync.example.com"], "remote");
    // `settings/tests.rs` has the others.
    for (more, part) in [
        (&["-resource", "a/b/c/d"][..], "a/b/c/d"),
        (&["-mode", "bold"], "-mode"),
        (&["-timeout", "0"], "-timeout"),
        (&["-once", "-cleanup"], "-once"),
        (&["-unknown"], "unknown"),
    ] {
        usage(&[&GOOD[..], more].concat(), part);
    }
}

/// Exit code 1 with a sentence that has `part`.
#[track_caller]
fn refused(stage: &Stage, kubeconfig: &str, part: &str) {
    let file = stage.write("bad.kubeconfig", kubeconfig);
    let mut sidecar = stage.start(&["-kubeconfig", file.to_str().expect("UTF-8")]);
    assert_eq!(sidecar.wait().code(), Some(1), "{}", sidecar.log());
    let log = sidecar.log();
    assert!(log.lines().last().is_some_and(|line| line.contains(part)), "{part}: {log}");
    assert_eq!(words(&stage.writes()), [""; 0]);
}

#[test]
fn an_own_kubeconfig_that_cannot_be_used_is_exit_code_1() {
    let stage = Stage::pull("bad-own", Setting::safe(&[&WIDGETS]));
    stage.source(&WIDGETS, "one").create_number(1);
    let own = &stage.own.cluster;
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never",
    }});
    refused(&stage, &kubeconfig(&own.address, &own.ca, &exec).to_string(), "exec");
    refused(&stage, "this is no kubeconfig", "bad.kubeconfig");
    refused(&stage, "{}", "bad.kubeconfig");
    let token = json!({"token": "x"});
    let without_ca = kubeconfig(&own.address, "no certificate", &token);
    refused(&stage, &without_ca.to_string(), "bad.kubeconfig");
    let mut sidecar = stage.start(&["-kubeconfig", "/nonexisting/kubeconfig"]);
    assert_eq!(sidecar.wait().code(), Some(1), "{}", sidecar.log());
    let (log, why) = (sidecar.log(), "kubeconfig /nonexisting/kubeconfig does not exist");
    assert!(log.lines().last().is_some_and(|line| line.contains(why)), "{log}");
}

#[test]
fn help_and_version_are_exit_code_0() {
    for flag in ["-help", "-h", "-version"] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(0), "{flag}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("remote-sync"), "{text}");
    }
}
