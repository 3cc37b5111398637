use serde_json::json;

use super::*;
use crate::{addon::managed_cluster_addon::MAX_SECRET_NAME, certificate::authority::template};

pub(in crate::addon) fn secret(hosted: bool, name: &str) -> RegistrationSecret {
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
    for (key, addon, is_readable) in [
        ("spoke_addons_a.b", "addon", true),
        ("hosted_addons_a", "addon", true),
        ("spoke_addons_a", "../x", false),
        ("spoke_addons_a", "\u{7f}", false),
        ("spoke_../kube-system_a", "addon", false),
        ("spoke_addons_A", "addon", false),
        ("spoke_addons_a_tls.key", "addon", false),
        ("other_addons_a", "addon", false),
        ("spoke_addons", "addon", false),
        ("", "addon", false),
    ] {
        let data = Data::from([(key.to_owned(), addon.as_bytes().to_vec().into())]);
        assert_eq!(!all(&data).is_empty(), is_readable, "{key}");
    }
}

#[test]
fn longest_names_fit_into_a_key() {
    let namespace = "n".repeat(63);
    let longest = RegistrationSecret { hosted: true, namespace, name: "s".repeat(MAX_SECRET_NAME) };
    assert_eq!(private_key(&longest).len(), 253);
    assert_eq!(secret_of(&key(&longest)), Some(longest));
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
