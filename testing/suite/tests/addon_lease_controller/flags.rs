//! The command line: invalid flags are exit code 2 and a sentence, what else is refused at startup is
//! exit code 1 and a sentence.

use std::{net::TcpListener, process::Output};

use suite::{
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

const SERVED: [&str; 3] = ["-master", "http://127.0.0.1:1", "-metrics-host"];

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
    let address = format!("metrics address 127.0.0.1:{port} cannot be served");
    for (more, part) in [
        (&[][..], "no configuration"),
        (&["-v=0"], "no configuration"),
        (&["-kubeconfig", "/nonexisting"], "kubeconfig /nonexisting does not exist"),
        (&[&SERVED[..], &["127.0.0.1", "-metrics-port", &port]].concat(), &address),
        (&[&SERVED[..], &["no.invalid", "-metrics-port", "1"]].concat(), "nor localhost"),
    ] {
        let output = run(&[&COMPLETE, more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{more:?}: {text}");
        let refusal = text.lines().last().unwrap_or_default();
        assert!(refusal.starts_with('E') && refusal.contains(part), "{more:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}
