//! F29: command lines that cannot be meant: exit code 2, a sentence, and the flags. What else is refused
//! at the start is exit code 1 and a sentence.

use std::{
    fs,
    net::TcpListener,
    process::{Output, Stdio},
};

use serde_json::json;
use suite::{
    identity::kubeconfig,
    sidecar::{bare, program, usage_error},
};

fn run(arguments: &[&str]) -> Output {
    let mut command = bare(&program("addon-lease-controller"));
    command.args(arguments).env("POD_NAMESPACE", "ns").env("KUBECONFIG", "/nonexisting/kubeconfig");
    command.stdout(Stdio::piped()).output().expect("the program runs")
}

/// What it takes besides a kubeconfig.
const COMPLETE: [&str; 8] = [
    "-lease-name",
    "my-addon",
    "-lease-namespace",
    "cluster1",
    "-hub-kubeconfig-secret",
    "hub",
    "-metrics-port",
    "0",
];

#[test]
fn f29_flags_that_cannot_be_used_are_exit_code_2_with_a_sentence() {
    for (more, part) in [
        (&["-unknown"][..], "unknown"),
        (&["-lease-duration"], "-lease-duration"),
        (&["-lease-duration", ""], "-lease-duration"),
        (&["-lease-duration", "1m"], "-lease-duration"),
        (&["-lease-duration", "0"], "-lease-duration"),
        (&["-lease-duration", "-60"], "-lease-duration"),
        (&["-lease-duration", "2147483648"], "-lease-duration"),
        (&["-lease-duration", "99999999999999999999"], "-lease-duration"),
        (&["-startup-delay=-1"], "-startup-delay"),
        (&["-leader-election=perhaps"], "-leader-election"),
        (&["-lease-name", ""], "-lease-name is required"),
        (&["-lease-name", "Not_A_Name"], "-lease-name"),
        (&["-lease-namespace", ""], "-lease-namespace is required"),
        (&["-lease-namespace", "../x"], "-lease-namespace"),
        (&["-lease-target", "moon"], "-lease-target"),
        (&["-hub-kubeconfig", "f"], "exclude each other"),
        (&["-logging-format", "xml"], "-logging-format"),
        (&["-metrics-port", "70000"], "-metrics-port"),
        (&["-metrics-port", "-1"], "-metrics-port"),
        (&["-v", "much"], "-v"),
    ] {
        let output = run(&[&COMPLETE, more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {text}");
        let sentence = usage_error("addon-lease-controller", &text);
        assert!(sentence.contains(part), "{more:?}: {sentence}");
    }
}

#[test]
fn f29_of_a_repeated_flag_the_last_counts() {
    for (twice, code) in [(["0", "5"], 1), (["5", "0"], 2), (["x", "5"], 2)] {
        let [first, last] = twice;
        let more = ["-lease-duration", first, "-lease-duration", last];
        let output = run(&[&COMPLETE[..], &more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{twice:?}: {text}");
        if code == 1 {
            // Nothing is wrong with the flags: the kubeconfig is what is missing.
            assert!(text.contains("-lease-duration=5"), "{text}");
            assert!(!text.contains("-lease-duration=0"), "{text}");
            assert!(text.contains("no configuration"), "{text}");
        }
    }
}

#[test]
fn f29_help_and_version_are_exit_code_0_whatever_else_is_said() {
    for (flag, part) in [("-help", "-lease-name"), ("--help", "-lease-name"), ("-version", "0.")] {
        for other in [&[][..], &["-lease-duration", "0"], &["-lease-target", "moon"]] {
            let output = run(&[&[flag][..], other].concat());
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{flag} {other:?}: {text}");
            assert!(text.contains(part), "{flag} {other:?}: {text}");
        }
    }
}

#[test]
fn f29_what_is_refused_at_the_start_is_exit_code_1_with_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, scheme: &str, user| {
        // Without TLS no authority is needed, and none is looked for on this machine.
        let text = kubeconfig("127.0.0.1:1", "", &user).to_string().replace("https", scheme);
        let path = directory.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let good = file("good", "http", json!({"token": "t"}));
    let runs = file("runs", "https", json!({"exec": {"command": "aws", "apiVersion": "v1"}}));
    let address = format!("metrics address 127.0.0.1:{port} cannot be served");
    for (more, part) in [
        (&[][..], "no configuration"),
        (&["-kubeconfig", "/nonexisting"], "kubeconfig /nonexisting does not exist"),
        (&["-kubeconfig", "/"], "cannot be read"),
        (&["-kubeconfig", &runs], "\"aws\" (exec)"),
        (&["-kubeconfig", &good, "-metrics-port", &port, "-metrics-host", "127.0.0.1"], &address),
        (
            &["-kubeconfig", &good, "-metrics-port", "1", "-metrics-host", "no.invalid"],
            "no.invalid",
        ),
    ] {
        let output = run(&[&COMPLETE, more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{more:?}: {text}");
        let refusal = text.lines().last().unwrap_or_default();
        assert!(refusal.starts_with('E') && refusal.contains(part), "{more:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}
