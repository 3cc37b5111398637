use serde_json::{Value, json};

use super::*;
use crate::{addon::managed_cluster_addon::tests::addon, certificate::authority::names};

fn planned(status: Value, driver: KubeClientDriver) -> Vec<(RegistrationSecret, Registration)> {
    let addon = AddOn::of(&self::addon(&json!({"status": status}))).unwrap();
    let inputs = Inputs {
        addons: &BTreeMap::new(),
        is_gone: &|_| false,
        stored: &[],
        names: &names(),
        driver,
        apart: true,
    };
    inputs.registrations("test", &addon).into_iter().collect()
}

fn template(config: Value) -> CsrTemplate {
    let all = planned(json!({"registrations": [config]}), KubeClientDriver::Csr);
    match all.into_iter().next().unwrap().1.credential {
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
    let names: Vec<_> = all.iter().map(|(secret, _)| secret.sentence_name()).collect();
    let expected =
        ["test--client-cert", "test-example.com-signer-x-client-cert", "test-hub-kubeconfig"];
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
    assert!(matches!(all[0].1.credential, Credential::Certificate { .. }), "{:?}", all[0].0);
    assert!(matches!(all[1].1.credential, Credential::Token { lifetime: 700, .. }));
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

fn named(name: &str, hosted: bool, signers: &[&str]) -> (String, Option<AddOn>) {
    let key = "addon.open-cluster-management.io/hosting-cluster-name";
    let annotations = if hosted { json!({key: "hosting1"}) } else { json!({}) };
    let registrations: Vec<Value> =
        signers.iter().map(|signer| json!({"signerName": signer})).collect();
    let addon = AddOn::of(&json!({
        "metadata": {"name": name, "annotations": annotations},
        "status": {"namespace": "ns", "registrations": registrations},
    }));
    (name.to_owned(), addon)
}

fn secret(hosted: bool, name: &str) -> RegistrationSecret {
    let namespace = AddOnNamespace { hosted, name: "ns".into() };
    RegistrationSecret { namespace, name: name.into() }
}

fn stored(addon: &str, secret: RegistrationSecret) -> (RegistrationSecret, String) {
    (secret, addon.into())
}

/// The Secrets to keep and those to remove, after a list of these add-ons, of which `None` cannot be read.
fn compared(
    all: Vec<(String, Option<AddOn>)>,
    stored: &[(RegistrationSecret, String)],
    apart: bool,
) -> (Vec<RegistrationSecret>, Vec<RegistrationSecret>) {
    let known: BTreeSet<_> = all.iter().map(|(name, _)| name.clone()).collect();
    let readable = all.into_iter().filter_map(|(name, addon)| Some((name, Arc::new(addon?))));
    let desired = desired(&Inputs {
        addons: &readable.collect(),
        is_gone: &|name| !known.contains(name),
        stored,
        names: &names(),
        driver: KubeClientDriver::Csr,
        apart,
    });
    let (kept, removed): (Vec<_>, Vec<_>) =
        desired.into_iter().partition(|(_, desired)| desired.is_some());
    let secrets = |all: Vec<(RegistrationSecret, _)>| all.into_iter().map(|(it, _)| it).collect();
    (secrets(kept), secrets(removed))
}

#[test]
fn another_place_is_wanted_and_the_old_one_is_obsolete() {
    let name = "a-x.io-s-client-cert";
    let (here, there) = (secret(false, name), secret(true, name));
    let all = vec![named("a", true, &["x.io/s"])];
    let expected = (vec![there], vec![here.clone()]);
    assert_eq!(compared(all, &[stored("a", here)], true), expected);
}

#[test]
fn where_both_clusters_are_one_the_place_is_the_same() {
    let name = "a-x.io-s-client-cert";
    for (before, now) in [(false, true), (true, false), (true, true)] {
        let known = [stored("a", secret(before, name))];
        let compared = compared(vec![named("a", now, &["x.io/s"])], &known, false);
        assert_eq!(compared, (vec![secret(false, name)], vec![]));
    }
}

/// An add-on is gone once a complete list lacks it; a terminating one keeps its Secrets.
#[test]
fn secret_stays_until_its_addon_is_gone_for_certain() {
    let known = [stored("a", secret(false, "a-x.io-s-client-cert"))];
    let it = vec![known[0].0.clone()];
    assert_eq!(compared(vec![("a".to_owned(), None)], &known, true), (vec![], vec![]));
    let (name, addon) = named("a", false, &["x.io/s", "x.io/new"]);
    let deleting = addon.map(|addon| AddOn { terminating: true, ..addon });
    assert_eq!(compared(vec![(name, deleting)], &known, true), (it.clone(), vec![]));
    assert_eq!(compared(Vec::new(), &known, true), (vec![], it));
}
