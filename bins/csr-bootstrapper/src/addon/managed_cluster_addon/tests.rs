use serde_json::json;

use super::*;
use crate::certificate::authority::names;

const TOKEN: KubeClientDriver = KubeClientDriver::Token { lifetime: 700 };

/// The object of an add-on with these fields.
pub(in crate::addon) fn object(more: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "test", "namespace": "cluster1", "uid": "u-1", "resourceVersion": "7"},
        "status": {"namespace": "addons"},
    });
    for field in ["metadata", "spec", "status"] {
        for (key, value) in more[field].as_object().into_iter().flatten() {
            object[field][key] = value.clone();
        }
    }
    object
}

/// The add-on of a cluster that has its agents apart from the management cluster.
pub(in crate::addon) fn addon(more: &Value) -> AddOn {
    addon_with(more, KubeClientDriver::Csr)
}

pub(in crate::addon) fn addon_with(more: &Value, driver: KubeClientDriver) -> AddOn {
    AddOn::of(&object(more), true, (&names(), driver)).unwrap()
}

pub(in crate::addon) fn hosted_by(cluster: &str) -> Value {
    json!({"metadata": {"annotations": {HOSTING_CLUSTER: cluster}}})
}

/// Upstream's queueKeyFunc, where the agent's namespace is concerned.
#[test]
fn place_of_the_agent_is_in_the_addon() {
    let default = "open-cluster-management-agent-addon";
    let status = |namespace: &str| json!({"status": {"namespace": namespace}});
    let installed = |namespace: &str, installed: &str| {
        let spec = json!({"installNamespace": installed});
        json!({"spec": spec, "status": {"namespace": namespace}})
    };
    for (more, apart, expected) in [
        (installed("told", "installed"), true, Some(("told", false))),
        (installed("", "installed"), true, Some(("installed", false))),
        (installed("", ""), true, Some((default, false))),
        (hosted_by("h"), true, Some(("addons", true))),
        (hosted_by("h"), false, Some(("addons", false))),
        (hosted_by(""), true, Some(("addons", false))),
        // It would change the path of a request.
        (status("../kube-system"), true, None),
        (status("A"), true, None),
        (status("a?watch=true"), true, None),
        (json!({"metadata": {"name": "a/b"}}), true, None),
    ] {
        let addon = AddOn::of(&object(&more), apart, (&names(), KubeClientDriver::Csr));
        let found = addon.as_ref().map(|addon| (&*addon.namespace, addon.hosted));
        assert_eq!(found, expected, "{more} {apart}");
    }
}

#[test]
fn addon_lease_customized_is_somebody_elses() {
    for (mode, customized) in [("Customized", true), ("Lease", false)] {
        let addon = addon(&json!({"status": {"healthCheck": {"mode": mode}}}));
        assert_eq!(addon.customized, customized);
    }
}

/// The Secrets and the credentials of these registrations.
fn registrations(configs: &Value, driver: KubeClientDriver) -> Vec<(String, Credential)> {
    let status = json!({"namespace": "ns", "registrations": configs});
    let all = addon_with(&json!({"status": status}), driver).registrations.into_iter();
    all.map(|(secret, it)| (secret.sentence_name(), it.credential.clone())).collect()
}

fn credential(config: Value, driver: KubeClientDriver) -> Credential {
    registrations(&json!([config]), driver).remove(0).1
}

fn template(config: Value) -> CsrTemplate {
    match credential(config, KubeClientDriver::Csr) {
        Credential::Certificate { template, .. } => template,
        Credential::Token { .. } => panic!("a token"),
    }
}

#[test]
fn registrations_weigh_as_much_as_their_texts_and_more() {
    let weight = |users: &[&str]| {
        let one = |user: &&str| json!({"subject": {"user": user}});
        let all: Vec<_> = users.iter().map(one).collect();
        addon(&json!({"status": {"registrations": all}})).weight
    };
    let (empty, long) = (weight(&[""]), "x".repeat(1000));
    assert!(empty > REGISTRATION_LENGTH);
    assert_eq!(weight(&[&long]), empty + 1000);
    assert!(weight(&["", ""]) >= 2 * REGISTRATION_LENGTH);
}

#[test]
fn addon_token_waits_for_its_service_account() {
    let uid = |status, message: &str| {
        service_account_uid(Condition::new(status, "R", message.to_owned()))
    };
    let message = "ServiceAccount c1/a-agent (UID: u-1) is ready";
    assert_eq!(uid("True", message), Some("u-1".to_owned()));
    assert_eq!(uid("False", message), None);
    for message in ["", "UID: ", "UID: u-1", "UID: )", &format!("UID: {})", "u".repeat(254))] {
        assert_eq!(uid("True", message), None, "{message}");
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
    let names: Vec<_> = all.iter().map(|(secret, _)| &**secret).collect();
    let custom = "Secret ns/test-example.com-signer-x-client-cert";
    let expected = ["Secret ns/test-hub-kubeconfig", custom, custom, "Secret ns/test--client-cert"];
    assert_eq!(names, expected);
}

/// configuration_test.go:572
#[test]
fn addon_registration_subjects_have_defaults() {
    let default = format!("{GROUP}:agent:test");
    let account = json!({"user": "system:serviceaccount:cluster1:test-agent"});
    let units = json!({"organizationUnit": ["o"]});
    let given = json!({"user": "u", "groups": ["b", "a", "b", 7]});
    for (signer, given, user, groups, units) in [
        (KUBE_API_SERVER_CLIENT, json!(null), &*default, &[GROUP][..], &[][..]),
        (KUBE_API_SERVER_CLIENT, given, "u", &["a", "b"], &[]),
        (KUBE_API_SERVER_CLIENT, account, &default, &[GROUP], &[]),
        ("example.com/x", units, &default, &[], &["o"]),
    ] {
        let found = template(json!({"signerName": signer, "subject": given})).subject;
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (groups, units) = (owned(groups), owned(units));
        assert_eq!(found, Subject { user: user.to_owned(), groups, units }, "{given}");
    }
    for none in [json!(null), json!([]), json!(7)] {
        assert_eq!(registrations(&none, KubeClientDriver::Csr), [], "{none}");
    }
}

#[test]
fn addon_registration_requests_equal_the_go_agents() {
    let template = template(json!({"signerName": "example.com/x"}));
    assert_eq!(template.signer, "example.com/x");
    assert_eq!(template.name_prefix, "addon-cluster1-test-");
    assert_eq!(template.dns_names, ["test.addon.open-cluster-management.io"]);
    let label = "open-cluster-management.io/addon-name";
    let labels = [(CLUSTER_LABEL, "cluster1".to_owned()), (label, "test".to_owned())];
    assert_eq!(template.labels, labels.into());
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
