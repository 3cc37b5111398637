//! The command line: invalid flags are exit code 2 and a sentence, what else is refused at startup is
//! exit code 1 and a sentence.

use std::{fs, net::TcpListener, process::Output};

use serde_json::json;
use suite::{
    identity::kubeconfig,
    outputs,
    sidecar::{bare, program},
};

fn run(arguments: &[&str]) -> Output {
    let mut command = bare(&program("addon-lease-controller"));
    command.args(arguments).env("POD_NAMESPACE", "ns").env("KUBECONFIG", "/nonexisting/kubeconfig");
    outputs::run(&mut command)
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
