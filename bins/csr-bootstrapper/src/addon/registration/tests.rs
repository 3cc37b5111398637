use serde_json::json;

use super::*;
use crate::{addon::managed_cluster_addon::tests::addon, certificate::authority::names};

fn planned(status: serde_json::Value, driver: KubeClientDriver) -> Vec<Registration> {
    let addon = AddOn::of(&addon(&json!({"status": status}))).unwrap();
    registrations("test", &addon, &names(), driver)
}

fn template(config: serde_json::Value) -> CsrTemplate {
    let all = planned(json!({"registrations": [config]}), KubeClientDriver::Csr);
    match all.into_iter().next().unwrap().credential {
        Credential::Certificate { template, .. } => template,
        Credential::Token { .. } => panic!("a token"),
    }
}

const GROUP: &str = "system:open-cluster-management:cluster:cluster1:addon:test";

/// configuration_test.go:22
#[test]
fn addon_registration_secrets_are_named_after_their_signers() {
    let all = json!([
        {"signerName": KUBE_API_SERVER_CLIENT},
        {"signerName": "example.com/signer/x"},
        {"signerName": "example.com/signer-x", "subject": {"user": "the same Secret"}},
        {"signerName": "Example.com/capital"},
        {"signerName": ""},
    ]);
    let all = planned(json!({"namespace": "ns", "registrations": all}), KubeClientDriver::Csr);
    let names: Vec<_> = all.iter().map(|one| one.secret.sentence_name()).collect();
    let expected =
        ["test-hub-kubeconfig", "test-example.com-signer-x-client-cert", "test--client-cert"];
    assert_eq!(names, expected.map(|name| format!("Secret ns/{name}")));
    assert!(planned(json!({}), KubeClientDriver::Csr).is_empty());
}

/// configuration_test.go:572
#[test]
fn addon_registration_subjects_have_defaults() {
    let subject = |config| template(config).subject;
    let user = format!("{GROUP}:agent:test");
    let kube_client = |subject| json!({"signerName": KUBE_API_SERVER_CLIENT, "subject": subject});
    let found = subject(kube_client(json!({})));
    assert_eq!((found.user, found.groups), (user.clone(), vec![GROUP.to_owned()]));
    let found = subject(kube_client(json!({"user": "u", "groups": ["g"]})));
    assert_eq!((&*found.user, &found.groups[..]), ("u", &["g".to_owned()][..]));
    let custom = json!({"signerName": "example.com/x", "subject": {"organizationUnit": ["o"]}});
    let found = subject(custom);
    assert_eq!(
        (found.user, found.groups, found.units),
        (user.clone(), vec![], vec!["o".to_owned()])
    );
    let account = "system:serviceaccount:cluster1:test-agent";
    assert_eq!(subject(kube_client(json!({"user": account}))).user, user, "left by a token");
}

#[test]
fn addon_registration_requests_are_those_of_the_go_agent() {
    let template = template(json!({"signerName": "example.com/x"}));
    assert_eq!(template.signer, "example.com/x");
    assert_eq!(template.name_prefix, "addon-cluster1-test-");
    assert_eq!(template.dns_names, ["test.addon.open-cluster-management.io"]);
    let label = "open-cluster-management.io/addon-name";
    assert_eq!(
        template.labels,
        [(CLUSTER_LABEL, "cluster1".to_owned()), (label, "test".to_owned())]
    );
}

#[test]
fn addon_registration_by_token_is_for_the_hubs_api_server_alone() {
    let all = json!([{"signerName": KUBE_API_SERVER_CLIENT}, {"signerName": "example.com/x"}]);
    let driver = KubeClientDriver::Token { lifetime: 700 };
    let all = planned(json!({"registrations": all}), driver);
    assert_eq!(all[0].credential, Credential::Token { lifetime: 700 });
    assert!(matches!(all[1].credential, Credential::Certificate { .. }));
}

/// configuration_test.go:365: what changes it, and what does not.
#[test]
fn addon_registration_by_token_has_no_subject_of_its_own() {
    let with = |user: &str, driver| {
        let config = json!({"signerName": KUBE_API_SERVER_CLIENT, "subject": {"user": user}});
        planned(json!({"registrations": [config]}), driver)
    };
    let token = KubeClientDriver::Token { lifetime: 700 };
    assert_eq!(with("a", token), with("b", token));
    assert_ne!(with("a", KubeClientDriver::Csr), with("b", KubeClientDriver::Csr));
    assert_ne!(with("a", KubeClientDriver::Csr), with("a", token));
}
