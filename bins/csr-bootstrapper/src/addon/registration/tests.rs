use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    addon::managed_cluster_addon::tests::{addon, hosted_by},
    certificate::authority::names,
};

const TOKEN: KubeClientDriver = KubeClientDriver::Token { lifetime: 700 };

fn registrations(
    configs: &Value,
    driver: KubeClientDriver,
) -> BTreeMap<RegistrationSecret, Option<Registration>> {
    let addon = addon(&json!({"status": {"namespace": "ns", "registrations": configs}}));
    let addons = [("test".to_owned(), Arc::new(addon))].into();
    desired(&addons, &BTreeMap::new(), |_| false, (&names(), driver))
}

/// What is desired for this registration alone.
fn credential(config: Value, driver: KubeClientDriver) -> Credential {
    let (_, registration) = registrations(&json!([config]), driver).pop_first().unwrap();
    registration.unwrap().credential
}

fn template(config: Value) -> CsrTemplate {
    match credential(config, KubeClientDriver::Csr) {
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
    let all = registrations(&all, KubeClientDriver::Csr);
    let names: Vec<_> = all.keys().map(RegistrationSecret::sentence_name).collect();
    let expected =
        ["test--client-cert", "test-example.com-signer-x-client-cert", "test-hub-kubeconfig"];
    assert_eq!(names, expected.map(|name| format!("Secret ns/{name}")));
}

/// configuration_test.go:572
#[test]
fn addon_registration_subjects_have_defaults() {
    let user = format!("{GROUP}:agent:test");
    let account = json!({"user": "system:serviceaccount:cluster1:test-agent"});
    let units = json!({"organizationUnit": ["o"]});
    for (signer, given, user, groups, units) in [
        (KUBE_API_SERVER_CLIENT, json!({}), &*user, &[GROUP][..], &[][..]),
        (KUBE_API_SERVER_CLIENT, json!({"user": "u", "groups": ["g"]}), "u", &["g"], &[]),
        (KUBE_API_SERVER_CLIENT, account, &user, &[GROUP], &[]),
        ("example.com/x", units, &user, &[], &["o"]),
    ] {
        let subject = template(json!({"signerName": signer, "subject": given})).subject;
        assert_eq!(subject.user, user, "{given}");
        assert_eq!(
            (&subject.groups[..], &subject.units[..]),
            (&owned(groups)[..], &owned(units)[..])
        );
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn addon_registration_requests_are_those_of_the_go_agent() {
    let template = template(json!({"signerName": "example.com/x"}));
    assert_eq!(template.signer, "example.com/x");
    assert_eq!(template.name_prefix, "addon-cluster1-test-");
    assert_eq!(template.dns_names, ["test.addon.open-cluster-management.io"]);
    let label = "open-cluster-management.io/addon-name";
    let labels = [(CLUSTER_LABEL, "cluster1".to_owned()), (label, "test".to_owned())];
    assert_eq!(template.labels, labels);
}

/// configuration_test.go:365: a token has no subject of its own.
#[test]
fn addon_registration_by_token_is_for_the_hubs_api_server_alone() {
    let config = |signer, user| json!({"signerName": signer, "subject": {"user": user}});
    let custom = credential(config("example.com/x", "a"), TOKEN);
    assert!(matches!(custom, Credential::Certificate { .. }));
    let expected = Credential::Token { lifetime: 700, account: None };
    for user in ["a", "b"] {
        assert_eq!(credential(config(KUBE_API_SERVER_CLIENT, user), TOKEN), expected);
    }
}

fn secret(hosted: bool, name: &str) -> RegistrationSecret {
    RegistrationSecret { hosted, namespace: "addons".into(), name: name.into() }
}

/// The Secrets to keep and those to delete, where one of add-on `test` is stored.
fn compared(
    addon: Option<AddOn>,
    stored: &RegistrationSecret,
    is_gone: bool,
) -> (Vec<RegistrationSecret>, Vec<RegistrationSecret>) {
    let addons = addon.map(|addon| (addon.name.clone(), Arc::new(addon))).into_iter().collect();
    let stored = [(stored.clone(), "test".to_owned())].into();
    let desired = desired(&addons, &stored, |_| is_gone, (&names(), KubeClientDriver::Csr));
    let secrets = |kept: bool| {
        let all = desired.iter().filter(|(_, it)| it.is_some() == kept);
        all.map(|(secret, _)| secret.clone()).collect()
    };
    (secrets(true), secrets(false))
}

#[test]
fn another_place_is_wanted_and_the_old_one_is_obsolete() {
    let name = "test-x.io-s-client-cert";
    let mut more = hosted_by("hosting1");
    more["status"] = json!({"registrations": [{"signerName": "x.io/s"}]});
    let (here, there) = (secret(false, name), secret(true, name));
    assert_eq!(compared(Some(addon(&more)), &here, false), (vec![there], vec![here]));
}

/// A terminating add-on keeps its Secrets, and gets no new ones.
#[test]
fn secret_stays_until_its_addon_is_gone_for_certain() {
    let stored = secret(false, "test-x.io-s-client-cert");
    let it = vec![stored.clone()];
    let signers = json!([{"signerName": "x.io/s"}, {"signerName": "x.io/new"}]);
    let addon = addon(&json!({"status": {"registrations": signers}}));
    let deleting = AddOn { terminating: true, ..addon };
    assert_eq!(compared(Some(deleting.clone()), &stored, false), (it.clone(), vec![]));
    let without = AddOn { registrations: Vec::new(), ..deleting };
    assert_eq!(compared(Some(without.clone()), &stored, false), (vec![], vec![]));
    let obsolete = AddOn { terminating: false, ..without };
    assert_eq!(compared(Some(obsolete), &stored, false), (vec![], it.clone()));
    assert_eq!(compared(None, &stored, false), (vec![], vec![]));
    assert_eq!(compared(None, &stored, true), (vec![], it));
}
