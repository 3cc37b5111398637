use serde_json::json;

use super::*;

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
    AddOn::of(&object(more), true).unwrap()
}

pub(in crate::addon) fn hosted_by(cluster: &str) -> Value {
    json!({"metadata": {"annotations": {HOSTING_CLUSTER: cluster}}})
}

#[test]
fn addon_lease_customized_is_somebody_elses() {
    for (mode, customized) in [("Customized", true), ("Lease", false)] {
        let addon = addon(&json!({"status": {"healthCheck": {"mode": mode}}}));
        assert_eq!(addon.customized, customized);
    }
}

/// Upstream's queueKeyFunc.
#[test]
fn addon_lease_install_namespace() {
    let namespace = |told: &str, installed: &str| {
        let spec = json!({"installNamespace": installed});
        let more = json!({"spec": spec, "status": {"namespace": told}});
        AddOn::of(&object(&more), false).map(|addon| addon.namespace)
    };
    assert_eq!(namespace("told", "installed").as_deref(), Some("told"));
    assert_eq!(namespace("", "installed").as_deref(), Some("installed"));
    assert_eq!(namespace("", "").as_deref(), Some("open-cluster-management-agent-addon"));
    for odd in ["../kube-system", "A", "a/b", "a?watch=true"] {
        assert_eq!(namespace(odd, ""), None, "it would change the path of a request");
    }
}

#[test]
fn hosted_addon_is_apart_if_its_cluster_is() {
    for (cluster, apart, hosted) in [("h", true, true), ("", true, false), ("h", false, false)] {
        let addon = AddOn::of(&object(&hosted_by(cluster)), apart).unwrap();
        assert_eq!(addon.hosted, hosted, "{cluster} {apart}");
        assert_eq!(addon.hosting_cluster.is_some(), !cluster.is_empty());
    }
}

#[test]
fn registrations_are_read_with_their_subjects() {
    let subject = json!({"user": "u", "groups": ["b", "a", "b", 7], "organizationUnit": ["x"]});
    let all = json!([{"signerName": "example.com/x", "subject": subject}, {}]);
    let read = addon(&json!({"status": {"registrations": all}}));
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let subject = Subject { user: "u".into(), groups: texts(&["a", "b"]), units: texts(&["x"]) };
    let first = RegistrationConfig { signer: "example.com/x".into(), subject };
    let empty = RegistrationConfig { signer: String::new(), subject: Subject::default() };
    assert_eq!(read.registrations, [first, empty]);
    for none in [json!(null), json!([]), json!(7)] {
        let read = addon(&json!({"status": {"registrations": none}}));
        assert_eq!(read.registrations, [], "{none}");
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
    let uid =
        |status, message: &str| service_account(Condition::new(status, "R", message.to_owned()));
    let message = "ServiceAccount c1/a-agent (UID: u-1) is ready";
    assert_eq!(uid("True", message), Some("u-1".to_owned()));
    assert_eq!(uid("False", message), None);
    for message in ["", "UID: ", "UID: u-1", "UID: )", &format!("UID: {})", "u".repeat(254))] {
        assert_eq!(uid("True", message), None, "{message}");
    }
}
