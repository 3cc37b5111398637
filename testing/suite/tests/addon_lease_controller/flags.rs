//! The command line: invalid flags are exit code 2 and a sentence, what else is refused at startup is
//! exit code 1 and a sentence.

use std::{fs, net::TcpListener, path::Path, process::Output};

use serde_json::json;
use suite::{
    identity::kubeconfig,
    outputs,
    sidecar::{Sidecar, bare, program, usage_error},
};

fn run(arguments: &[&str]) -> Output {
    let mut command = bare(&program("addon-lease-controller"));
    command.args(arguments).env("POD_NAMESPACE", "ns").env("KUBECONFIG", "/nonexisting/kubeconfig");
    outputs::run(&mut command)
}

const A_DURATION: &str = "-lease-duration must be a number of seconds from 1 to 2147483647";

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
fn unusable_flags_end_with_exit_code_2_and_a_reason() {
    for (more, part) in [
        (&["-unknown"][..], "flag provided but not defined: -unknown"),
        (&["-lease-duration"], "flag needs an argument: -lease-duration"),
        (&["-leader-election", "true"], "unexpected argument \"true\""),
        (&["-lease-duration", "1m"], "invalid value \"1m\" for flag -lease-duration"),
        (&["-lease-duration", "0"], A_DURATION),
        (&["-lease-duration", "2147483648"], A_DURATION),
        (&["-lease-name", "Not_A_Name"], "is not a valid object name"),
        (&["-lease-target=hub", "-hub-kubeconfig-secret="], "is required for a Lease on the hub"),
        (&["-logging-format", "xml"], "-logging-format must be text or json"),
    ] {
        let output = run(&[&COMPLETE, more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {text}");
        let sentence = usage_error("addon-lease-controller", &text);
        assert!(sentence.contains(part), "{more:?}: {sentence}");
    }
}

#[test]
fn help_and_version_win_over_unusable_flags() {
    let name = "addon-lease-controller ";
    for (flag, part) in [
        ("-help", "-lease-name"),
        ("--help", "-lease-name"),
        ("-h", "-lease-name"),
        ("-version", name),
        ("--version", name),
        ("-version=true", name),
    ] {
        for other in [&[][..], &["-lease-duration", "0"], &["-lease-target", "moon"]] {
            let output = run(&[&[flag][..], other].concat());
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{flag} {other:?}: {text}");
            let is_there = if part == name { text.starts_with(part) } else { text.contains(part) };
            assert!(is_there && output.stderr.is_empty(), "{flag} {other:?}: {text}");
        }
    }
}

#[test]
fn refused_start_ends_with_exit_code_1_and_a_reason() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, scheme: &str, user| {
        // Without TLS no CA is needed, and none is searched for on this machine.
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
        (&["-v=0"], "no configuration"),
        (&["-kubeconfig", "/nonexisting"], "kubeconfig /nonexisting does not exist"),
        (&["-kubeconfig", "/"], "cannot be read"),
        (&["-kubeconfig", "/dev/null"], "has no configuration"),
        (&["-kubeconfig", "/proc/version"], "kubeconfig /proc/version"),
        (&["-kubeconfig", &runs], "(exec), which is not supported"),
        (&["-kubeconfig", &good, "-metrics-port", &port, "-metrics-host", "127.0.0.1"], &address),
        (
            &["-kubeconfig", &good, "-metrics-port", "1", "-metrics-host", "no.invalid"],
            "neither an IP address nor localhost",
        ),
        (
            &["-kubeconfig", &good, "-metrics-port", "8384", "-metrics-host", "192.0.2.1"],
            "192.0.2.1:8384 cannot be served",
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

#[test]
fn argument_with_blanks_arrives_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("hub config");
    let mut command = bare(&program("addon-lease-controller"));
    command.args([
        "-lease-name",
        "x",
        "-lease-namespace",
        "y",
        "-metrics-port",
        "0",
        "-startup-delay",
        "0",
    ]);
    command.arg("-hub-kubeconfig").arg(&path);
    let sidecar = Sidecar::spawn(command, 0);
    sidecar.wait_for(&format!("kubeconfig {} does not exist", path.display()));
    // The image starts the program itself: there is no shell in between.
    let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Dockerfile");
    let dockerfile = std::fs::read_to_string(dockerfile).expect("the Dockerfile");
    let entry =
        dockerfile.lines().find(|line| line.starts_with("ENTRYPOINT")).expect("an ENTRYPOINT");
    assert!(entry.contains('['), "{entry}");
}
