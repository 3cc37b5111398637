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
fn flags_of_the_registration_agent_that_mean_nothing_here_are_refused_with_a_reason() {
    for (reason, names) in [
        ("-hub-kubeconfig-secret", &["hub-kubeconfig"][..]),
        ("flags here", &["config"]),
        (
            "CSR alone",
            &[
                "grpc-bootstrap-config",
                "grpc-config",
                "hub-cluster-arn",
                "managed-cluster-arn",
                "managed-cluster-role-suffix",
            ],
        ),
    ] {
        for name in names {
            usage(&[&format!("--{name}=x")], &[name, reason]);
            usage(&[&format!("-{name}"), "x"], &[name, reason]);
        }
    }
}

#[test]
fn values_that_cannot_be_used_are_exit_code_2_with_a_sentence() {
    let long = format!("-hub-kubeconfig-secret={}", "x".repeat(250));
    for (more, part) in [
        (&["-unknown"][..], "unknown"),
        (&["-cluster-name"], "-cluster-name"),
        (&["-cluster-name", "Not_A_Name"], "-cluster-name"),
        (&["-cluster-name", "a.b"], "-cluster-name"),
        (&["-spoke-cluster-name", "../x"], "-spoke-cluster-name"),
        (&["-cluster-name", "a", "-spoke-cluster-name", "b"], "differ"),
        (&["-agent-id", "a:b"], "-agent-id"),
        (&["-hub-kubeconfig-secret", ""], "-hub-kubeconfig-secret is required"),
        (&["-hub-kubeconfig-secret", "Not_A_Name"], "-hub-kubeconfig-secret"),
        (&[&long], "-hub-kubeconfig-secret"),
        (&["-bootstrap-kubeconfig-secret", ""], "-bootstrap-kubeconfig-secret is required"),
        (&["-bootstrap-kubeconfig-secret", "a/b"], "-bootstrap-kubeconfig-secret"),
        (&["-bootstrap-kubeconfig-secret", "a,b"], "MultipleHubs=true"),
        (&["-bootstrap-kubeconfigs", "a"], "MultipleHubs=true"),
        (&["-feature-gates=MultipleHubs=true"], "at least 2 bootstrap kubeconfigs"),
        (&["-bootstrap-kubeconfig-secret", "hub-kubeconfig-secret"], "writes"),
        (&["-bootstrap-kubeconfig-secret", "hub-kubeconfig-secret-pending"], "writes"),
        (&["-namespace", "a/b"], "namespace"),
        (&["-registration-auth", "grpc"], "-registration-auth"),
        (&["-client-cert-expiration-seconds", "3599"], "-client-cert-expiration-seconds"),
        (&["-client-cert-expiration-seconds=-1"], "-client-cert-expiration-seconds"),
        (&["-client-cert-expiration-seconds", "2147483648"], "-client-cert-expiration-seconds"),
        (&["-client-cert-expiration-seconds", "1h"], "-client-cert-expiration-seconds"),
        (&["-addon-kubeclient-registration-auth", "grpc"], "-addon-kubeclient-registration-auth"),
        (&["-addon-token-expiration-seconds", "599"], "-addon-token-expiration-seconds"),
        (&["-addon-token-expiration-seconds", "4294967296"], "-addon-token-expiration-seconds"),
        (&["-spoke-external-server-urls", "http://a"], "https URL"),
        (&["-spoke-external-server-urls", "https://a,b"], "https URL"),
        (&["-cluster-annotations", "a"], "key=value"),
        (&["-cluster-annotations", "agent.open-cluster-management.io/a b=c"], "key"),
        (&["-cluster-healthcheck-period", "0s"], "-cluster-healthcheck-period"),
        (&["-cluster-healthcheck-period", "60"], "-cluster-healthcheck-period"),
        (&["-cluster-healthcheck-period=-1m"], "-cluster-healthcheck-period"),
        (&["-leader-election-lease-duration", "100s"], "-leader-election-lease-duration"),
        (&["-leader-election-renew-deadline", "30s"], "-leader-election-renew-deadline"),
        (&["-leader-election-retry-period", "0"], "-leader-election-retry-period"),
        (&["-once=perhaps"], "-once"),
        (&["-wait-timeout", "5"], "-once"),
        (&["-once", "-wait-timeout=-5"], "-wait-timeout"),
        (&["-listen", "8443"], "-listen"),
        (&["-listen", "0.0.0.0:0"], "-listen"),
        (&["-tls-min-version", "1.2"], "-tls-min-version"),
        (&["-tls-cipher-suites", "AES"], "-tls-cipher-suites"),
        (&["-metrics-port", "70000"], "-metrics-port"),
        (&["-logging-format", "xml"], "-logging-format"),
        (&["-v", "much"], "-v"),
    ] {
        usage(more, &[part]);
    }
}

#[test]
fn a_kubeconfig_of_its_own_side_that_cannot_be_used_is_exit_code_1_with_a_sentence() {
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
fn other_subcommands_of_the_registration_image_are_refused() {
    for (words, sentence) in [
        (&["registration", "webhook-server"][..], "not \"webhook-server\""),
        (&["/registration", "controller"], "not \"controller\""),
        (&["registration"], "needs its subcommand agent"),
    ] {
        let mut command = bare(&program("csr-bootstrapper"));
        let output = outputs::run(command.args(words));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(usage_error("csr-bootstrapper", &text).contains(sentence), "{words:?}: {text}");
    }
}

#[test]
fn text_is_printed_and_that_is_all() {
    for (flag, part) in [("-version", env!("CARGO_PKG_VERSION")), ("--help", "-agent-id string")] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(part) && output.stderr.is_empty(), "{text}");
    }
}
