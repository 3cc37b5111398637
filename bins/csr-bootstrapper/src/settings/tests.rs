//! Command lines and their settings. Rows of upstream's tables are named by its test.

use std::ffi::OsString;

use sidecar::flags::{Invocation, parse};

use super::{table::AGENT_DEFAULTS, values::is_https, *};

fn parsed(is_agent: bool, line: &str, namespace: Option<&str>) -> Result<Settings, String> {
    let arguments = line.split_whitespace().map(OsString::from);
    let Invocation::Run(flags) = parse("x", &table(is_agent), arguments)? else { panic!("help") };
    Settings::check(&flags, flags.some("namespace").or(namespace).map(str::to_owned))
}

/// Of this program's own command line.
fn settings(line: &str) -> Result<Settings, String> {
    parsed(false, line, Some("agent"))
}

/// Of the command line that the klusterlet operator renders in mode Default (ocm v1.2.0,
/// `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`).
fn agent(more: &str) -> Result<Settings, String> {
    let always =
        "--spoke-cluster-name=cluster1 --bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig ";
    parsed(true, &format!("{always}{more}"), None)
}

fn files<const N: usize>(files: [&str; N]) -> Vec<BootstrapSource> {
    files.map(|file| BootstrapSource::File(file.into())).into()
}

fn secrets<const N: usize>(names: [&str; N]) -> Vec<BootstrapSource> {
    names.map(|name| BootstrapSource::Secret(name.into())).into()
}

/// ocm `pkg/registration/spoke/spokeagent_test.go:48`, default completed options.
#[test]
fn defaults_equal_the_registration_agents() {
    let settings = settings("").unwrap();
    assert_eq!(settings.namespace, "agent");
    assert_eq!(settings.bootstraps, secrets(["bootstrap-hub-kubeconfig"]));
    assert_eq!(settings.hub_connection_timeout, None);
    assert_eq!(settings.hub_secret, "hub-kubeconfig-secret");
    assert_eq!(settings.pending_secret(), "hub-kubeconfig-secret-pending");
    assert_eq!((settings.hub_directory, settings.spoke_kubeconfig), (None, None));
    assert_eq!((settings.cluster_name, settings.agent_id), (None, None));
    assert!(settings.external_urls.is_empty() && settings.annotations.is_empty());
    assert_eq!(settings.expiration, None);
    assert_eq!(settings.healthcheck_period, Duration::from_secs(60));
    assert_eq!((settings.addon_management, settings.claim_kinds.len()), (true, 1));
    assert_eq!(settings.claim_rules, ClaimRules { max_custom: 20, reserved_suffixes: vec![] });
    let election = settings.election.unwrap();
    let seconds = [election.lease, election.renew, election.retry].map(|time| time.as_secs());
    assert_eq!(seconds, [137, 107, 26]);
    assert_eq!(parsed(false, "", None).unwrap().namespace, NAMESPACE);
}

#[test]
fn defaults_of_the_agent_are_its_volumes() {
    let settings = agent("").unwrap();
    assert_eq!((&*settings.namespace, settings.cluster_name), (NAMESPACE, Some("cluster1".into())));
    assert_eq!(settings.bootstraps, files(["/spoke/bootstrap/kubeconfig"]));
    assert_eq!(settings.hub_directory, Some("/spoke/hub-kubeconfig".into()));
    assert!(settings.write_files && settings.election.is_some() && settings.https.is_some());
    let names: Vec<_> = table(false).iter().map(|flag| flag.name).collect();
    assert!(AGENT_DEFAULTS.iter().all(|(name, _)| names.contains(name)));
    assert_eq!(parsed(true, "", None).unwrap().bootstraps, settings.bootstraps);
}

/// Whether a flag does what upstream's does.
type Acts = fn(&Settings) -> bool;

#[test]
fn each_flag_of_the_operator_acts() {
    let rows: [(&str, Acts); 23] = [
        ("--once", |it| it.once == Some(Duration::from_secs(86_400)) && it.election.is_none()),
        ("--once --wait-timeout=0", |it| it.once == Some(Duration::ZERO)),
        ("--feature-gates=AddonManagement=false", |it| !it.addon_management),
        ("--feature-gates=AddonManagement=true,ClusterClaim=false", |it| {
            it.addon_management && it.claim_kinds.is_empty()
        }),
        ("--feature-gates=ClusterProperty=true", |it| {
            it.claim_kinds == [&CLAIM_KINDS[0], &CLAIM_KINDS[1]]
        }),
        ("--feature-gates=V1beta1CSRAPICompatibility=true", |_| true),
        ("--spoke-cluster-name=", |it| it.cluster_name.is_none()),
        ("--cluster-name=cluster1", |it| it.cluster_name.as_deref() == Some("cluster1")),
        ("--spoke-external-server-urls=https://a:6443,https://b", |it| {
            it.external_urls == ["https://a:6443", "https://b"]
        }),
        ("--client-cert-expiration-seconds=3600", |it| it.expiration == Some(3600)),
        ("--client-cert-expiration-seconds=0", |it| it.expiration.is_none()),
        ("--cluster-annotations=agent.open-cluster-management.io/a=b=c,others=3", |it| {
            it.annotations["agent.open-cluster-management.io/a"] == "b=c"
                && it.annotations.len() == 1
        }),
        ("--max-custom-cluster-claims=0", |it| it.claim_rules.max_custom == 0),
        ("--reserved-cluster-claim-suffixes=a.io,,b.io", |it| {
            it.claim_rules.reserved_suffixes == ["a.io", "b.io"]
        }),
        ("--registration-auth=csr", |_| true),
        ("--addon-kubeclient-registration-auth=csr", |it| it.addon_driver == KubeClientDriver::Csr),
        ("--addon-kubeclient-registration-auth=token", |it| {
            it.addon_driver == KubeClientDriver::Token { lifetime: 31_536_000 }
        }),
        ("--addon-kubeclient-registration-auth= --addon-token-expiration-seconds=600", |it| {
            it.addon_driver == KubeClientDriver::Csr
        }),
        ("--listen=0.0.0.0:9443", |it| it.https.is_some()),
        ("--agent-id=5e9c", |it| it.agent_id.as_deref() == Some("5e9c")),
        ("--disable-leader-election", |it| it.election.is_none()),
        ("--kube-api-qps=50.5 --hub-kube-api-burst=100 --terminate-on-files=/x", |_| true),
        ("--tls-min-version=VersionTLS12 --vmodule=a=2 --log-flush-frequency=5s", |_| true),
    ];
    for (flags, acts) in rows {
        let settings = agent(flags).unwrap_or_else(|refusal| panic!("{flags}: {refusal}"));
        assert!(acts(&settings), "{flags}");
    }
}

#[test]
fn bootstrap_kubeconfigs_are_files_or_secrets_in_order() {
    let gate = "-feature-gates MultipleHubs=true";
    for (line, expected) in [
        ("-bootstrap-kubeconfig=/a --bootstrap-kubeconfig-secret=x", files(["/a"])),
        ("-bootstrap-kubeconfig-secret x", secrets(["x"])),
        (
            &format!("{gate} -bootstrap-kubeconfigs /a -bootstrap-kubeconfigs /b"),
            files(["/a", "/b"]),
        ),
        (
            &format!("{gate} -bootstrap-kubeconfig-secret=b,a -bootstrap-kubeconfig-secret c"),
            secrets(["b", "a", "c"]),
        ),
    ] {
        let settings = settings(line).unwrap();
        assert_eq!(settings.bootstraps, expected, "{line}");
        let timeout = line.contains(gate).then_some(Duration::from_secs(600));
        assert_eq!(settings.hub_connection_timeout, timeout);
    }
    let own = settings("-bootstrap-kubeconfig-secret b").unwrap();
    for (name, is_own) in [
        ("b", true),
        ("bootstrap-hub-kubeconfig", true),
        ("hub-kubeconfig-secret", true),
        ("hub-kubeconfig-secret-pending", true),
        ("hub-kubeconfig-secret-", false),
        ("", false),
        ("other", false),
    ] {
        assert_eq!(own.has_own_secret(name), is_own, "{name}");
    }
}

/// Also ocm `pkg/registration/spoke/spokeagent_test.go:48`, `pkg/common/options/agent_test.go:71` and the Validate of
/// `pkg/registration/register/factory/options.go` and `token/options.go`.
#[test]
fn flags_that_make_no_sense_are_refused_in_a_sentence() {
    let long = format!("-spoke-cluster-name={}", "a".repeat(64));
    for (line, sentence) in [
        ("-bootstrap-kubeconfig-secret A", "-bootstrap-kubeconfig-secret \"A\" is not a valid"),
        ("-bootstrap-kubeconfig-secret a,b", "-bootstrap-kubeconfig-secret must be one Secret"),
        (
            "-bootstrap-kubeconfig-secret hub-kubeconfig-secret",
            "-bootstrap-kubeconfig-secret \"hub-kubeconfig-secret\" is a Secret that this program",
        ),
        ("-bootstrap-kubeconfigs a", "-bootstrap-kubeconfigs needs -feature-gates"),
        ("-feature-gates MultipleHubs=true", "expect at least 2 bootstrap kubeconfigs"),
        (
            "-feature-gates MultipleHubs=true -bootstrap-kubeconfigs a,b -hub-connection-timeout-seconds 0",
            "-hub-connection-timeout-seconds must be from 1 to 2147483647, got 0",
        ),
        ("-feature-gates Other=true", "-feature-gates: the agent has no feature \"Other\""),
        ("-feature-gates A=yes", "-feature-gates: \"A=yes\" is not Name=true or Name=false"),
        ("-hub-kubeconfig-secret ../x", "-hub-kubeconfig-secret \"../x\" is not a valid"),
        ("-hub-kubeconfig-secret=", "-hub-kubeconfig-secret is required"),
        ("-namespace a.b", "the namespace \"a.b\" is not a valid name"),
        ("-write-files", "-write-files needs -hub-kubeconfig-dir"),
        ("-spoke-cluster-name test.cluster", "-cluster-name \"test.cluster\" is not"),
        ("-cluster-name a:b", "-cluster-name \"a:b\" is not the name of a namespace"),
        (&long, "-cluster-name \"aaa"),
        ("-agent-id a:b", "-agent-id \"a:b\" is not an agent's name"),
        (
            "-spoke-external-server-urls https://127.0.0.1:64433,http://127.0.0.1:8080",
            "-spoke-external-server-urls: \"http://127.0.0.1:8080\" is invalid",
        ),
        ("-cluster-healthcheck-period 0s", "-cluster-healthcheck-period must be a time above zero"),
        (
            "-client-cert-expiration-seconds 3599",
            "-client-cert-expiration-seconds must be 0 or from 3600",
        ),
        ("-max-custom-cluster-claims -1", "-max-custom-cluster-claims must be 0 or more, got -1"),
        ("-cluster-annotations a", "-cluster-annotations: \"a\" is not key=value"),
        (
            "-cluster-annotations agent.open-cluster-management.io/a/b=1",
            "-cluster-annotations: \"agent.open-cluster-management.io/a/b\" is not a key",
        ),
        ("-registration-auth CSR", "-registration-auth must be csr, got \"CSR\""),
        ("-grpc-config x", "-grpc-config has no meaning here: registration is by CSR alone"),
        (
            "-addon-kubeclient-registration-auth x",
            "-addon-kubeclient-registration-auth must be csr or token, got \"x\"",
        ),
        (
            "-addon-token-expiration-seconds 599",
            "-addon-token-expiration-seconds must be from 600 to 2147483647, got 599",
        ),
    ] {
        let refusal = settings(line).map(drop).expect_err(line);
        assert!(refusal.starts_with(sentence), "{line}: {refusal}");
    }
}

#[test]
fn urls_are_https_with_a_host() {
    for good in ["https://a", "https://a.b:6443/x", "HTTPS://[::1]:1", "https://[fe80::1]"] {
        assert!(is_https(good), "{good}");
    }
    for bad in ["", "a", "https://:443", "http://a", "https://a:x", "https://u@a", "https://a b"] {
        assert!(!is_https(bad), "{bad}");
    }
}

#[test]
fn the_readme_shows_the_flags_as_they_are() {
    let help = sidecar::flags::help("csr-bootstrapper", &table(false));
    let block = format!("<!-- flags:csr-bootstrapper -->\n```text\n{help}```\n<!-- end -->");
    assert!(
        include_str!("../../REFERENCE.md").contains(&block),
        "REFERENCE.md should hold\n{block}"
    );
}
