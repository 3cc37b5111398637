//! Command lines and their settings. Rows of upstream's tables are named by its test.

use sidecar::flags::{Invocation, parse};

use super::{
    table::AGENT_DEFAULTS,
    values::{ANNOTATIONS, is_https},
    *,
};
use crate::command::CommandForm;

mod agent;

fn settings(line: &str) -> Result<Settings, String> {
    let arguments = line.split_whitespace().map(Into::into);
    let Invocation::Run(flags) = parse("x", &table(CommandForm::Own), arguments)? else {
        panic!("help")
    };
    Settings::check(&flags, flags.some("namespace").or(Some("agent")).map(str::to_owned))
}

fn refusal(line: &str) -> String {
    settings(line).map(|_| ()).expect_err(line)
}

/// ocm `pkg/registration/spoke/spokeagent_test.go:48`, default completed options.
#[test]
fn defaults_are_those_of_the_registration_agent() {
    let settings = settings("").unwrap();
    assert_eq!(settings.namespace, "agent");
    let secret = BootstrapSource::Secret("bootstrap-hub-kubeconfig".into());
    assert_eq!(settings.bootstraps, [secret]);
    assert_eq!(settings.hub_connection_timeout, None);
    assert_eq!(settings.hub_secret, "hub-kubeconfig-secret");
    assert_eq!(settings.pending_secret(), "hub-kubeconfig-secret-pending");
    assert_eq!((settings.hub_directory, settings.spoke_kubeconfig), (None, None));
    assert_eq!((settings.cluster_name, settings.agent_id), (None, None));
    assert!(settings.external_urls.is_empty() && settings.annotations.is_empty());
    assert_eq!((settings.expiration, settings.once), (None, None));
    assert_eq!(settings.healthcheck_period, Duration::from_secs(60));
    let election = settings.election.unwrap();
    let seconds = [election.lease, election.renew, election.retry].map(|time| time.as_secs());
    assert_eq!(seconds, [137, 107, 26]);
    let default =
        |name: &str| table(CommandForm::Own).iter().find(|flag| flag.name == name).unwrap().default;
    assert_eq!((default("metrics-host"), default("metrics-port")), ("0.0.0.0", "8385"));
}

#[test]
fn the_namespace_has_upstreams_default() {
    let Ok(Invocation::Run(flags)) = parse("x", &table(CommandForm::Own), []) else {
        panic!("help")
    };
    let settings = Settings::check(&flags, None).unwrap();
    assert_eq!(settings.namespace, "open-cluster-management-agent");
}

#[test]
fn the_file_goes_before_the_secret() {
    let file = |line: &str| settings(line).unwrap().bootstraps;
    let expected = [BootstrapSource::File("/b/kubeconfig".into())];
    assert_eq!(file("-bootstrap-kubeconfig /b/kubeconfig"), expected);
    let both = "--bootstrap-kubeconfig=/b/kubeconfig --bootstrap-kubeconfig-secret=x";
    assert_eq!(file(both), expected);
}

/// ocm `pkg/registration/spoke/spokeagent_test.go:48`.
#[test]
fn upstreams_rows_of_validate() {
    // No bootstrap kubeconfig: here neither file nor Secret is needed for it.
    assert_eq!(
        refusal("-bootstrap-kubeconfig-secret="),
        "-bootstrap-kubeconfig-secret is required"
    );
    // Invalid external server URLs: upstream's sentence is in ours.
    let line = "-spoke-external-server-urls https://127.0.0.1:64433 \
        -spoke-external-server-urls http://127.0.0.1:8080";
    assert!(refusal(line).contains("\"http://127.0.0.1:8080\" is invalid"));
    // Invalid cluster healthcheck period.
    for period in ["0", "0s", "-1m", "25h"] {
        let refusal = refusal(&format!("-cluster-healthcheck-period {period}"));
        assert!(refusal.starts_with("-cluster-healthcheck-period is a time above zero"));
    }
    assert!(refusal("-client-cert-expiration-seconds 3599").contains("is 0 or from 3600 to"));
    let seconds = |line: &str| settings(line).unwrap().expiration;
    assert_eq!(seconds("-client-cert-expiration-seconds 3600"), Some(3600));
    assert_eq!(seconds("-client-cert-expiration-seconds 0"), None);
    // AWS, with its other flags.
    assert!(refusal("-registration-auth awsirsa -hub-cluster-arn x").contains("by CSR alone"));
    // MultipleHubs enabled, but bootstrapkubeconfigs is empty.
    let gate = "-feature-gates MultipleHubs=true ";
    let too_few = ["", "-bootstrap-kubeconfigs a", "-bootstrap-kubeconfig-secret a"];
    for line in too_few.map(|more| format!("{gate}{more}")) {
        assert!(refusal(&line).starts_with("expect at least 2 bootstrap kubeconfigs"), "{line}");
    }
    // MultipleHubs enabled with 2 bootstrapkubeconfigs.
    let line = "-bootstrap-kubeconfigs=/spoke/hub1/kubeconfig --bootstrap-kubeconfigs=/spoke/hub2/kubeconfig";
    let settings = settings(&format!("{gate}{line}")).unwrap();
    let files = ["/spoke/hub1/kubeconfig", "/spoke/hub2/kubeconfig"];
    assert_eq!(settings.bootstraps, files.map(|file| BootstrapSource::File(file.into())));
    assert_eq!(settings.hub_connection_timeout, Some(Duration::from_secs(600)));
    assert_eq!(refusal(line), "-bootstrap-kubeconfigs needs -feature-gates MultipleHubs=true");
}

#[test]
fn several_hubs_may_have_secrets_too_in_the_order_of_the_flags() {
    let gate = "-feature-gates MultipleHubs=true ";
    let secrets = "-bootstrap-kubeconfig-secret=b,a -bootstrap-kubeconfig-secret c";
    let settings =
        settings(&format!("{gate}{secrets} -hub-connection-timeout-seconds 180")).unwrap();
    let expected = ["b", "a", "c"].map(|name| BootstrapSource::Secret(name.into()));
    assert_eq!(settings.bootstraps, expected);
    assert_eq!(settings.hub_connection_timeout, Some(Duration::from_secs(180)));
    assert!(refusal(secrets).contains("several need -feature-gates MultipleHubs=true"));
    let written = format!("{gate}-bootstrap-kubeconfig-secret a,hub-kubeconfig-secret");
    assert!(refusal(&written).contains("a Secret that this program writes"));
    for seconds in ["0", "-1", "2147483648"] {
        let line = format!("{gate}{secrets} -hub-connection-timeout-seconds {seconds}");
        assert!(refusal(&line).starts_with("-hub-connection-timeout-seconds is from 1"), "{line}");
    }
}

/// ocm `pkg/common/options/agent_test.go:71` and `options_test.go`, TestValidate.
#[test]
fn the_clusters_name_is_that_of_a_namespace() {
    let name = |line: &str| settings(line).unwrap().cluster_name;
    assert_eq!(name("-cluster-name test-cluster").as_deref(), Some("test-cluster"));
    assert_eq!(name("-spoke-cluster-name cluster-1").as_deref(), Some("cluster-1"));
    assert_eq!(name("-cluster-name a -spoke-cluster-name a").as_deref(), Some("a"));
    assert_eq!(name("-cluster-name="), None);
    let expected = "-cluster-name \"a\" and -spoke-cluster-name \"b\" differ";
    assert_eq!(refusal("-cluster-name a -spoke-cluster-name b"), expected);
    let long = "a".repeat(64);
    for bad in ["test-cluster-!@#", "test.cluster", "A", "-a", "a_b", "a:b", &long] {
        let refusal = refusal(&format!("-spoke-cluster-name={bad}"));
        assert!(refusal.starts_with(&format!("-spoke-cluster-name {bad:?} is not")), "{refusal}");
    }
}

#[test]
fn the_agents_name_fits_into_the_common_name() {
    let name = |line: &str| settings(line).unwrap().agent_id;
    assert_eq!(name("-agent-id 5e9c").as_deref(), Some("5e9c"));
    assert_eq!(name("-agent-id="), None);
    assert!(refusal("-agent-id a:b").starts_with("-agent-id \"a:b\" is not"));
}

#[test]
fn urls_are_https_with_a_host() {
    for good in ["https://a", "https://a.b:6443/x", "HTTPS://[::1]:1", "https://[fe80::1]"] {
        assert!(is_https(good), "{good}");
    }
    for bad in [
        "",
        "a",
        "https://",
        "https:///x",
        "https://:443",
        "http://a",
        "https://a:x",
        "https://a:65536",
        "https://u@a",
        "https://[::1",
        "https://a:b:1",
        "https://a b",
        "ftp://a",
    ] {
        assert!(!is_https(bad), "{bad}");
    }
    let line =
        "-spoke-external-server-urls https://a,https://b -spoke-external-server-urls https://c";
    assert_eq!(settings(line).unwrap().external_urls, ["https://a", "https://b", "https://c"]);
}

#[test]
fn only_annotations_of_the_agents_are_kept() {
    let line = "-cluster-annotations agent.open-cluster-management.io/a=1=2,b=3 \
        -cluster-annotations agent.open-cluster-management.io/c=,agent.open-cluster-management.io=d";
    let settings = settings(line).unwrap();
    let expected = [("", "d"), ("/a", "1=2"), ("/c", "")]
        .map(|(key, value)| (format!("{ANNOTATIONS}{key}"), value.to_owned()));
    assert_eq!(settings.annotations, expected.into());
    let dropped =
        format!("-cluster-annotations: b is dropped, it does not start with {ANNOTATIONS}");
    assert_eq!(settings.ignored, [(Level::Warn, dropped)]);
    assert!(refusal("-cluster-annotations a").ends_with("\"a\" is not key=value"));
    let bad = "-cluster-annotations agent.open-cluster-management.io/a/b=1";
    assert!(refusal(bad).ends_with("is not a key of an annotation"));
}

#[test]
fn a_leader_is_elected_by_client_gos_rules() {
    assert!(settings("-disable-leader-election").unwrap().election.is_none());
    assert!(settings("-once").unwrap().election.is_none());
    let line = |lease, renew, retry| {
        settings(&format!(
            "-leader-election-lease-duration {lease} -leader-election-renew-deadline {renew} \
            -leader-election-retry-period {retry}"
        ))
        .map(|settings| settings.election.map(|timing| timing.lease.as_secs()))
    };
    // Upstream's times for single nodes.
    assert_eq!(line("4m30s", "240s", "1m"), Ok(Some(270)));
    for (lease, renew, retry, sentence) in [
        ("0s", "107s", "26s", "-leader-election-lease-duration is a time above zero"),
        ("107s", "107s", "26s", "-leader-election-lease-duration is longer than"),
        ("137s", "31s", "26s", "-leader-election-renew-deadline is longer than 1.2 times"),
        ("137s", "107s", "0", "-leader-election-retry-period is a time above zero"),
        ("900ms", "500ms", "100ms", "-leader-election-lease-duration is at least 1s"),
    ] {
        let refusal = line(lease, renew, retry).unwrap_err();
        assert!(refusal.starts_with(sentence), "{refusal}");
    }
}

#[test]
fn once_waits_a_day_unless_something_else_is_said() {
    let once = |line: &str| settings(line).map(|settings| settings.once);
    assert_eq!(once("-once"), Ok(Some(Duration::from_secs(86_400))));
    assert_eq!(once("-once -wait-timeout 90"), Ok(Some(Duration::from_secs(90))));
    assert_eq!(once("-once -wait-timeout 2m"), Ok(Some(Duration::from_secs(120))));
    assert_eq!(once("-once -wait-timeout 0"), Ok(Some(Duration::ZERO)));
    assert_eq!(once("-wait-timeout 90"), Err("-wait-timeout belongs to -once".into()));
    assert!(once("-once -wait-timeout -1").is_err());
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    for (line, sentence) in [
        ("-hub-kubeconfig-secret ../x", "-hub-kubeconfig-secret \"../x\" is not a valid"),
        ("-hub-kubeconfig-secret=", "-hub-kubeconfig-secret is required"),
        ("-bootstrap-kubeconfig-secret A", "-bootstrap-kubeconfig-secret \"A\" is not a valid"),
        (
            "-bootstrap-kubeconfig-secret hub-kubeconfig-secret",
            "-bootstrap-kubeconfig-secret \"hub-kubeconfig-secret\" is a Secret that this program",
        ),
        (
            "-bootstrap-kubeconfig-secret x-pending -hub-kubeconfig-secret x",
            "-bootstrap-kubeconfig-secret \"x-pending\" is a Secret that this program",
        ),
        ("-namespace a.b", "the namespace \"a.b\" is not a valid name"),
    ] {
        let refusal = refusal(line);
        assert!(refusal.starts_with(sentence), "{line}: {refusal}");
    }
}

#[test]
fn flags_of_the_registration_agent_are_never_silently_eaten() {
    assert!(settings("-registration-auth csr").is_ok() && settings("-registration-auth=").is_ok());
    for (other, why) in [
        ("grpc", ", which needs a hub behind a gRPC broker"),
        ("awsirsa", ", which needs the AWS CLI and a hub on AWS EKS"),
        ("token", ""),
        ("CSR", ""),
    ] {
        let refusal = refusal(&format!("-registration-auth {other}"));
        assert_eq!(refusal, format!("-registration-auth is csr, not {other:?}{why}"));
    }
    for (line, reason) in [
        ("--grpc-config x", "by CSR alone"),
        ("--hub-kubeconfig /spoke/hub-kubeconfig/kubeconfig", "-hub-kubeconfig-secret"),
    ] {
        let refusal = refusal(line);
        assert!(refusal.contains("has no meaning here") && refusal.contains(reason), "{refusal}");
    }
}

/// ocm `pkg/registration/register/factory/options.go` and `token/options.go`, Validate.
#[test]
fn agents_of_add_ons_authenticate_by_csr_or_token() {
    let driver = |line: &str| settings(line).map(|settings| settings.addon_driver);
    let auth = "--addon-kubeclient-registration-auth";
    for line in ["".to_owned(), format!("{auth}="), format!("{auth}=csr")] {
        assert_eq!(driver(&line), Ok(KubeClientDriver::Csr));
    }
    let token = |lifetime| Ok(KubeClientDriver::Token { lifetime });
    assert_eq!(driver(&format!("{auth} token")), token(31_536_000));
    assert_eq!(driver(&format!("{auth} token -addon-token-expiration-seconds 600")), token(600));
    let refused = "-addon-kubeclient-registration-auth is csr or token, not \"x\"";
    assert_eq!(driver(&format!("{auth} x")), Err(refused.to_owned()));
    let refused = "-addon-token-expiration-seconds is from 600 to 2147483647, not 599";
    assert_eq!(driver("-addon-token-expiration-seconds 599"), Err(refused.to_owned()));
}

#[test]
fn the_readme_shows_the_flags_as_they_are() {
    let help = sidecar::flags::help("csr-bootstrapper", &table(CommandForm::Own));
    let block = format!("<!-- flags:csr-bootstrapper -->\n```text\n{help}```\n<!-- end -->");
    assert!(
        include_str!("../../REFERENCE.md").contains(&block),
        "REFERENCE.md should hold\n{block}"
    );
}

#[test]
fn feature_gates_are_upstreams_and_name_what_is_missing() {
    let management = |gates: &[&str]| {
        let gates: Vec<_> = gates.iter().map(|gate| format!("-feature-gates={gate}")).collect();
        settings(&gates.join(" ")).map(|settings| settings.addon_management)
    };
    assert_eq!(management(&[]), Ok(true));
    assert_eq!(management(&["AddonManagement=true,ClusterClaim=false"]), Ok(true));
    assert_eq!(management(&["AddonManagement=true", "AddonManagement=false"]), Ok(false));
    let claims = |line: &str| settings(line).map(|settings| settings.claim_rules);
    let kinds = |line: &str| settings(line).map(|settings| settings.claim_kinds);
    let (claim, property) = (ClaimKind::ClusterClaim, ClaimKind::ClusterProperty);
    let rules = ClaimRules { max_custom: 20, reserved_suffixes: Vec::new() };
    assert_eq!((claims(""), kinds("")), (Ok(rules), Ok(vec![claim])));
    assert_eq!(kinds("-feature-gates ClusterClaim=false"), Ok(vec![]));
    assert_eq!(kinds("-feature-gates ClusterProperty=true"), Ok(vec![claim, property]));
    let reserved_suffixes = vec!["a.io".to_owned(), "b.io".to_owned()];
    let line = "-max-custom-cluster-claims 0 -reserved-cluster-claim-suffixes a.io,,b.io";
    assert_eq!(claims(line), Ok(ClaimRules { max_custom: 0, reserved_suffixes }));
    let refused = "-max-custom-cluster-claims is 0 or more, not -1";
    assert_eq!(claims("-max-custom-cluster-claims -1"), Err(refused.to_owned()));
    for (gates, sentence) in [
        ("Other=true", "-feature-gates: the agent has no feature \"Other\""),
        ("AddonManagement", "-feature-gates: \"AddonManagement\" is not Name=true or Name=false"),
        (
            "AddonManagement=yes",
            "-feature-gates: \"AddonManagement=yes\" is not Name=true or Name=false",
        ),
    ] {
        assert_eq!(management(&[gates]), Err(sentence.to_owned()));
    }
}
