use std::time::{Duration, SystemTime};

use serde_json::json;

use super::*;

pub(in crate::addon) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// An add-on with this object's fields.
pub(in crate::addon) fn addon(more: &Value) -> Value {
    let mut addon = json!({
        "metadata": {"name": "test", "namespace": "cluster1", "uid": "u-1", "resourceVersion": "7"},
        "status": {"namespace": "addons"},
    });
    for field in ["metadata", "spec", "status"] {
        for (key, value) in more[field].as_object().into_iter().flatten() {
            addon[field][key] = value.clone();
        }
    }
    addon
}

#[test]
fn addon_lease_customized_is_somebody_elses() {
    let mode = |mode: &str| AddOn::of(&addon(&json!({"status": {"healthCheck": {"mode": mode}}})));
    assert!(mode("Customized").unwrap().customized);
    assert!(!mode("Lease").unwrap().customized);
}

/// Upstream's queueKeyFunc.
#[test]
fn addon_lease_install_namespace() {
    let namespace = |told: &str, installed: &str| {
        let spec = json!({"installNamespace": installed});
        let more = json!({"spec": spec, "status": {"namespace": told}});
        AddOn::of(&addon(&more)).map(|addon| addon.namespace.name)
    };
    assert_eq!(namespace("told", "installed").as_deref(), Some("told"));
    assert_eq!(namespace("", "installed").as_deref(), Some("installed"));
    assert_eq!(namespace("", "").as_deref(), Some("open-cluster-management-agent-addon"));
    for odd in ["../kube-system", "A", "a/b", "a?watch=true"] {
        assert_eq!(namespace(odd, ""), None, "it would change the path of a request");
    }
}

#[test]
fn a_hosted_add_on_is_on_the_management_cluster() {
    let annotation = |cluster: &str| {
        let hosting = json!({"addon.open-cluster-management.io/hosting-cluster-name": cluster});
        AddOn::of(&addon(&json!({"metadata": {"annotations": hosting}}))).unwrap()
    };
    let namespace = annotation("hosting1").namespace;
    assert_eq!(namespace, AddOnNamespace { hosted: true, name: "addons".into() });
    assert!(!annotation("").namespace.hosted);
}

#[test]
fn registrations_are_read_with_their_subjects() {
    let subject = json!({"user": "u", "groups": ["b", "a", "b", 7], "organizationUnit": ["x"]});
    let all = json!([{"signerName": "example.com/x", "subject": subject}, {}]);
    let read = AddOn::of(&addon(&json!({"status": {"registrations": all}}))).unwrap();
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let subject = Subject { user: "u".into(), groups: texts(&["a", "b"]), units: texts(&["x"]) };
    let first = RegistrationConfig { signer: "example.com/x".into(), subject };
    let empty = RegistrationConfig { signer: String::new(), subject: Subject::default() };
    assert_eq!(read.registrations, [first, empty]);
    for none in [json!(null), json!([]), json!(7)] {
        let read = AddOn::of(&addon(&json!({"status": {"registrations": none}}))).unwrap();
        assert_eq!(read.registrations, [], "{none}");
    }
}

#[test]
fn registrations_weigh_as_much_as_their_texts_and_more() {
    let weight = |user: String, groups: Vec<String>| {
        let subject = json!({"user": user, "groups": groups});
        let all = json!([{"signerName": "example.com/x", "subject": subject}]);
        AddOn::of(&addon(&json!({"status": {"registrations": all}}))).unwrap().length()
    };
    let least = weight(String::new(), Vec::new());
    assert!(least > REGISTRATION_LENGTH);
    assert_eq!(weight("x".repeat(1000), Vec::new()), least + 1000);
    let once = weight(String::new(), vec![String::new()]);
    assert!(once > least, "an empty text costs something too");
    assert_eq!(weight(String::new(), vec![String::new(); 10_000]), once, "each counts once");
}

#[test]
fn addon_token_waits_for_its_service_account() {
    let condition = |status, message: &str| Condition::new(status, "R", message.to_owned());
    let uid = |condition| service_account(Some(condition));
    let message = "ServiceAccount c1/a-agent (UID: u-1) is ready";
    assert_eq!(uid(condition("True", message)), Ok("u-1".to_owned()));
    let not_yet = Err("the hub has not made its ServiceAccount yet");
    assert_eq!(uid(condition("False", message)), not_yet);
    assert_eq!(service_account(None), not_yet);
    for message in ["", "UID: ", "UID: u-1", "UID: )", &format!("UID: {})", "u".repeat(254))] {
        assert!(uid(condition("True", message)).is_err(), "{message}");
    }
}

#[test]
fn addon_without_its_hosting_cluster_stays_hosted_for_a_moment() {
    let of = |hosting: Option<&str>| {
        let annotations = json!({"addon.open-cluster-management.io/hosting-cluster-name": hosting});
        AddOn::of(&json!({"metadata": {"name": "a", "annotations": annotations}})).unwrap()
    };
    let (now, later) = (Instant::now(), Instant::now() + UNHOSTED_TIMEOUT);
    let hosted = of(Some("h"));
    let unhosted = Arc::new(of(None).following(Some(&hosted), now));
    let again = Arc::new(of(None).following(Some(&unhosted), now + UNHOSTED_TIMEOUT / 2));
    assert_eq!((again.hosted_until, &again), (Some(now + UNHOSTED_TIMEOUT), &unhosted));
    assert!(unhosted.at(now).namespace.hosted && unhosted.at(now).hosting_cluster.is_some());
    assert_eq!(*unhosted.at(later), of(None));
    assert_eq!(of(None).following(Some(&unhosted), later), of(None));
    assert_eq!(hosted.clone().following(Some(&unhosted), now), hosted, "it is back");
    assert_eq!(of(None).following(None, now), of(None));
}
