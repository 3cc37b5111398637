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
    for (more, part) in [
        (&["-resource", "a/b/c/d"][..], "a/b/c/d"),
        (&["-resource", "Not A Kind"], "Not A Kind"),
        (&["-resource", "//"], "//"),
        (&["-resource", "widgets.sync.example.com"], "twice"),
        (&["-mode", "bold"], "-mode"),
        (&["-direction", "sideways"], "-direction"),
        (&["-local-propagation-policy", "Never"], "-local-propagation-policy"),
        (&["-orphan-policy", "delete"], "-orphan-policy"),
        (&["-mode", "compat", "-orphan-policy", "confirm"], "-orphan-policy"),
        (&["-max-deletions", "ten"], "-max-deletions"),
        (&["-max-deletions", "10/"], "-max-deletions"),
        (&["-finalizer", "no-domain"], "-finalizer"),
        (&["-annotation-prefix", "Not_A_Domain"], "-annotation-prefix"),
        (&["-remote-resource-suffix", "_x"], "-remote-resource-suffix"),
        (&["-remote-resource-suffix", "-{region}"], "-remote-resource-suffix"),
        (&["-local-namespace-suffix", "-X"], "-local-namespace-suffix"),
        (&["-local-secret-name", "No Name"], "-local-secret-name"),
        (&["-source-namespace", "No_Name"], "-source-namespace"),
        (&["-selector", "=x"], "-selector"),
        (&["-selector", "a in ("], "-selector"),
        (&["-remote-selector", ","], "-remote-selector"),
        (&["-concurrent-reconciles", "0"], "-concurrent-reconciles"),
        (&["-qps", "-1"], "-qps"),
        (&["-probe-failures", "0"], "-probe-failures"),
        (&["-probe-interval", "0s"], "-probe-interval"),
        (&["-timeout", "0"], "-timeout"),
        (&["-remote-kubeconfig", "hub=/y"], "hub"),
        (&["-remote-kubeconfig-secret", "no-namespace"], "-remote-kubeconfig-secret"),
        (&["-accept-identity", "other=0d6ff0b4-3b39-4b5b-9f5c-000000000000"], "other"),
        (&["-once", "-cleanup"], "-once"),
        (&["-unknown"], "unknown"),
    ] {
        usage(&[&GOOD[..], more].concat(), part);
    }
}

/// Every object has one target and one owner of its status.
#[test]
fn mappings_that_overlap_are_exit_code_2() {
    let two = ["-remote-kubeconfig", "west=/x"];
    let push = [&GOOD[..], &two, &["-direction", "push"]].concat();
    usage(&push, "{cluster}");
    usage(&[&push[..], &["-remote-resource-suffix", "-rs"]].concat(), "{cluster}");
    let registry = ["-direction", "push", "-remote-selector", "a=b"];
    usage(&[&GOOD[..], &registry].concat(), "{cluster}");
    // `x-us-east` would be an object of both.
    let overlapping = ["-resource=widgets.sync.example.com", "-direction=push", "-v=2"];
    let clusters = ["-remote-kubeconfig=us-east=/x", "-remote-kubeconfig=east=/y"];
    let suffix = ["-remote-resource-suffix=-{cluster}"];
    usage(&[&overlapping[..], &clusters, &suffix].concat(), "overlap");
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
