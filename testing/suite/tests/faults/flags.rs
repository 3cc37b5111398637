//! F29: command lines that cannot be meant: exit code 2, a sentence, and the flags.

use std::process::{Command, Output};

use suite::sidecar::{bare, program};

fn run(arguments: &[&str]) -> Output {
    let mut command: Command = bare(&program("addon-lease-controller"));
    command.args(arguments).env("POD_NAMESPACE", "ns").env("KUBECONFIG", "/nonexisting/kubeconfig");
    command.stdout(std::process::Stdio::piped()).output().expect("the program runs")
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
        (&["-v", "much"], "-v"),
    ] {
        let output = run(&[&COMPLETE, more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {text}");
        let sentence = text.lines().next().unwrap_or_default();
        assert!(sentence.contains(part), "{more:?}: {sentence}");
        assert!(text.contains("-lease-duration int"), "the flags follow: {text}");
    }
}

#[test]
fn f29_of_a_repeated_flag_the_last_counts() {
    let output = run(&[
        &["-lease-duration", "x"][..0],
        &COMPLETE,
        &["-lease-duration", "0", "-lease-duration", "5"],
    ]
    .concat());
    let text = String::from_utf8_lossy(&output.stderr);
    // Nothing wrong with the flags any more: the kubeconfig is what is missing.
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("-lease-duration=5") || text.contains("kubeconfig"), "{text}");
}

#[test]
fn f29_help_and_version_are_exit_code_0_whatever_else_is_said() {
    for (flag, part) in [("-help", "-lease-name"), ("--help", "-lease-name"), ("-version", "0.")] {
        let output = run(&[flag]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{flag}: {text}");
        assert!(text.contains(part), "{flag}: {text}");
    }
}

#[test]
fn f29_what_is_refused_at_the_start_is_exit_code_1_with_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    for more in [
        &["-kubeconfig", "/nonexisting"][..],
        &["-metrics-port", "70000"],
        &["-metrics-port", "-1"],
        &["-metrics-port", &port, "-metrics-host", "127.0.0.1"],
    ] {
        let output = run(&[&COMPLETE, more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{more:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}
