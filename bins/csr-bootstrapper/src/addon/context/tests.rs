use serde_json::{Value, json};

use super::*;
use crate::certificate::authority::template;

fn secret(hosted: bool, name: &str) -> RegistrationSecret {
    RegistrationSecret { hosted, namespace: "addons".into(), name: name.into() }
}

fn data(secret: &RegistrationSecret, request: Option<&CertificateRequest>) -> Data {
    let values = values(secret, Some(("addon", request))).into_iter();
    values.filter_map(|(key, value)| Some((key, value?))).collect()
}

#[test]
fn a_registration_comes_back_with_its_request() {
    let pending = CertificateRequest::new(&template()).unwrap();
    for (secret, stored) in [(secret(true, "a"), Some(&pending)), (secret(false, "b"), None)] {
        let data = data(&secret, stored);
        assert_eq!(request(&data, &secret, &template()).as_ref(), stored);
        let other = CsrTemplate { dns_names: vec!["other".into()], ..template() };
        let other = request(&data, &secret, &other).map(|request| request.name);
        assert!(stored.is_none_or(|stored| other.is_some_and(|name| name != stored.name)));
        assert_eq!(all(&data), [(secret.clone(), "addon".to_owned())].into());
        let removed = values(&secret, None);
        assert!(data.keys().all(|key| removed.get(key) == Some(&None)));
    }
}

/// What somebody wrote there must not lead to requests elsewhere.
#[test]
fn unreadable_registrations_are_ignored() {
    let name = secret(false, "a");
    let good: Value = serde_json::from_slice(&data(&name, None)[&key(&name)]).unwrap();
    let with = |field: &str, value: Value| {
        let mut stored = good.clone();
        stored[field] = value;
        stored.to_string()
    };
    let read = |key: &str, value: String| {
        all(&Data::from([(key.to_owned(), value.into_bytes().into())])).len()
    };
    for bad in [
        "junk".to_owned(),
        "{}".to_owned(),
        "7".to_owned(),
        with("hosted", json!("true")),
        with("namespace", json!("../kube-system")),
        with("name", json!("a/b")),
        with("name", Value::Null),
    ] {
        assert_eq!(read(&key(&name), bad.clone()), 0, "{bad}");
    }
    assert_eq!(read(&key(&name), good.to_string()), 1);
    assert_eq!(read("of another name", good.to_string()), 0);
}

#[test]
fn each_secret_has_a_key_of_its_own() {
    let keys = [secret(true, "a"), secret(false, "a"), secret(false, "b")].map(|one| key(&one));
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    assert!(keys.iter().all(|key| key.len() == 32));
}

#[test]
fn secret_is_ours_if_it_says_so_or_is_empty() {
    let (c1, c2) = ("YzE=", "YzI=");
    for ours in [
        json!({"data": {"cluster-name": c1, "tls.crt": "eA=="}}),
        json!({"data": {"cluster-name": c1}, "type": "Opaque"}),
        json!({"data": {}}),
        json!({}),
    ] {
        assert_eq!(conflict_of(&ours, "c1"), None, "{ours}");
    }
    for other in [
        json!({"data": {"cluster-name": c2, "tls.crt": ""}}),
        json!({"data": {"tls.crt": ""}}),
        json!({"data": {"cluster-name": "%"}}),
        json!({"data": {"cluster-name": c1}, "type": "kubernetes.io/tls"}),
        json!({"data": {"cluster-name": c1}, "immutable": true}),
        json!({"type": "kubernetes.io/service-account-token"}),
    ] {
        assert!(conflict_of(&other, "c1").is_some(), "{other}");
    }
}
