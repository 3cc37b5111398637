//! The command line that the klusterlet operator renders (ocm v1.2.0,
//! `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`; later flags as the operator's HEAD has
//! them): each flag is understood, ignored for a reason that is logged, or refused in a sentence.

use std::ffi::OsString;

use super::*;
use crate::command::command;

/// Flags that the template always renders, for a klusterlet of this name in mode Default.
const ALWAYS: [&str; 4] = [
    "/registration",
    "agent",
    "--spoke-cluster-name=cluster1",
    "--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig",
];

fn agent(more: &[&str]) -> Result<Settings, String> {
    let words = ALWAYS.iter().chain(more).map(OsString::from);
    let (form, arguments) = command(words);
    let Invocation::Run(flags) = parse("x", &table(form), arguments?)? else { panic!("help") };
    Settings::check(&flags, Some("open-cluster-management-agent".to_owned()))
}

#[test]
fn the_operators_command_line_alone() {
    let settings = agent(&[]).unwrap();
    assert_eq!(settings.cluster_name.as_deref(), Some("cluster1"));
    assert_eq!(settings.bootstraps, [BootstrapSource::File("/spoke/bootstrap/kubeconfig".into())]);
    assert_eq!(settings.hub_directory, Some("/spoke/hub-kubeconfig".into()));
    assert!(settings.write_files && settings.election.is_some() && settings.https.is_some());
    assert!(settings.ignored.is_empty() && settings.once.is_none());
    // A klusterlet without a name of the cluster.
    assert_eq!(agent(&["--spoke-cluster-name="]).unwrap().cluster_name, None);
}

#[test]
fn the_defaults_of_the_agent_are_its_volumes() {
    let (form, arguments) = command(["registration", "agent"].map(OsString::from));
    let Ok(Invocation::Run(flags)) = parse("x", &table(form), arguments.unwrap()) else {
        panic!("help")
    };
    let settings = Settings::check(&flags, None).unwrap();
    assert_eq!(settings.bootstraps, [BootstrapSource::File("/spoke/bootstrap/kubeconfig".into())]);
    assert_eq!(settings.hub_directory, Some("/spoke/hub-kubeconfig".into()));
    let names: Vec<_> = table(CommandForm::Own).iter().map(|flag| flag.name).collect();
    for (name, _) in AGENT_DEFAULTS {
        assert!(names.contains(&name), "{name}");
    }
}

/// A klusterlet with the feature MultipleHubs, in place of one bootstrap kubeconfig.
#[test]
fn several_hubs_are_those_that_the_operator_names() {
    let words = ["/registration", "agent", "--spoke-cluster-name=cluster1"].into_iter();
    let words = words.chain([
        "--bootstrap-kubeconfigs=/spoke/a/kubeconfig",
        "--bootstrap-kubeconfigs=/spoke/b/kubeconfig",
        "--hub-connection-timeout-seconds=300",
        "--feature-gates=MultipleHubs=true",
    ]);
    let (form, arguments) = command(words.map(OsString::from));
    let Ok(Invocation::Run(flags)) = parse("x", &table(form), arguments.unwrap()) else {
        panic!("help")
    };
    let settings = Settings::check(&flags, None).unwrap();
    let files = ["/spoke/a/kubeconfig", "/spoke/b/kubeconfig"];
    assert_eq!(settings.bootstraps, files.map(|file| BootstrapSource::File(file.into())));
}

/// Whether a flag does what upstream's does.
type Acts = fn(&Settings) -> bool;

#[test]
fn each_flag_of_the_operators_template_acts() {
    let rows: [(&str, Acts); 16] = [
        ("--feature-gates=AddonManagement=false", |it| !it.addon_management),
        ("--feature-gates=ClusterClaim=false", |it| it.claim_kinds.is_empty()),
        ("--feature-gates=ClusterProperty=true", |it| it.claim_kinds.len() == 2),
        ("--feature-gates=V1beta1CSRAPICompatibility=true", |_| true),
        ("--spoke-external-server-urls=https://a:6443", |it| {
            it.external_urls == ["https://a:6443"]
        }),
        ("--client-cert-expiration-seconds=7200", |it| it.expiration == Some(7200)),
        ("--cluster-annotations=agent.open-cluster-management.io/a=b", |it| {
            it.annotations["agent.open-cluster-management.io/a"] == "b"
        }),
        ("--max-custom-cluster-claims=7", |it| it.claim_rules.max_custom == 7),
        ("--reserved-cluster-claim-suffixes=a.io,b.io", |it| {
            it.claim_rules.reserved_suffixes == ["a.io", "b.io"]
        }),
        ("--addon-kubeclient-registration-auth=csr", |it| it.addon_driver == KubeClientDriver::Csr),
        ("--addon-kubeclient-registration-auth=token", |it| {
            it.addon_driver == KubeClientDriver::Token { lifetime: 31_536_000 }
        }),
        ("--addon-token-expiration-seconds=7200", |_| true),
        ("--tls-min-version=VersionTLS12", |it| it.https.is_some()),
        (
            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            |it| it.https.is_some(),
        ),
        ("--listen=0.0.0.0:9443", |it| it.https.is_some()),
        ("--agent-id=5e9c", |it| it.agent_id.as_deref() == Some("5e9c")),
    ];
    for (flag, acts) in rows {
        let settings = agent(&[flag]).unwrap_or_else(|refusal| panic!("{flag}: {refusal}"));
        assert!(acts(&settings) && settings.ignored.is_empty(), "{flag}");
    }
    let flags = rows.map(|(flag, _)| flag);
    assert!(agent(&flags).is_ok(), "all of them together");
}

#[test]
fn flags_without_effect_are_accepted_with_a_reason() {
    for (flag, reason) in [
        ("--kube-api-qps=50.5", "requests are few"),
        ("--kube-api-burst=100", "requests are few"),
        ("--hub-kube-api-qps=50", "requests are few"),
        ("--hub-kube-api-burst=100", "requests are few"),
        ("--terminate-on-files=/spoke/config/kubeconfig", "without a restart"),
        ("--vmodule=a=2", "-v is for all"),
        ("--log-flush-frequency=5s", "lines are written at once"),
    ] {
        let ignored = agent(&[flag]).unwrap().ignored;
        let [(Level::Info, why)] = &ignored[..] else { panic!("{flag}: {ignored:?}") };
        let name = flag.split('=').next().unwrap_or_default();
        assert!(why.starts_with(&format!("{} is", &name[1..])) && why.contains(reason), "{why}");
    }
}

/// A klusterlet with another registrationDriver, or a flag that would be missed.
#[test]
fn what_users_would_miss_is_refused_in_a_sentence() {
    let refusal = |more: &[&str]| agent(more).map(|_| ()).unwrap_err();
    let grpc = [
        "--registration-auth=grpc",
        "--grpc-bootstrap-config=/spoke/bootstrap/config.yaml",
        "--grpc-config=/spoke/hub-kubeconfig/config.yaml",
    ];
    assert!(refusal(&grpc).contains("registration is by CSR alone"));
    assert!(refusal(&grpc[..1]).contains("which needs a hub behind a gRPC broker"));
    let aws = [
        "--registration-auth=awsirsa",
        "--hub-cluster-arn=a",
        "--managed-cluster-arn=b",
        "--managed-cluster-role-suffix=c",
    ];
    assert!(refusal(&aws).contains("registration is by CSR alone"));
    assert!(refusal(&aws[..1]).contains("which needs the AWS CLI"));
    assert!(refusal(&["--tls-min-version=TLS1.2"]).contains("-tls-min-version is VersionTLS12"));
    assert!(refusal(&["--config=/etc/config.yaml"]).contains("-config has no meaning here"));
    assert!(refusal(&["--feature-gates=Other=true"]).contains("has no feature \"Other\""));
    assert!(refusal(&["--write-files", "--hub-kubeconfig-dir="]).contains("-write-files needs"));
}
