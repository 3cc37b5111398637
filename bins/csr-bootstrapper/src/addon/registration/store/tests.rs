use serde_json::{Value, json};

use super::*;
use crate::certificate::authority::template;

fn secret(hosted: bool, name: &str) -> RegistrationSecret {
    let namespace = AddOnNamespace { hosted, name: "addons".into() };
    RegistrationSecret { namespace, name: name.into() }
}

#[test]
fn a_registration_comes_back_with_its_request() {
    let pending = CertificateRequest::new(&template()).unwrap();
    for (secret, stored) in [(secret(true, "a"), Some(&pending)), (secret(false, "b"), None)] {
        let value = value(&secret, "addon", stored);
        let found = request(value.as_bytes());
        let found = found.and_then(|it| CertificateRequest::of_key(it.key.into(), &template()));
        assert_eq!(found.as_ref(), stored);
        let data = Data::from([(key(&secret), value.into_bytes().into())]);
        assert_eq!(all(&data), [(secret, "addon".to_owned())]);
    }
}

/// What somebody wrote there must not lead to requests elsewhere.
#[test]
fn what_is_no_registration_is_nobodys() {
    let name = secret(false, "a");
    let good: Value = serde_json::from_str(&value(&name, "addon", None)).unwrap();
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
        with("addon", json!(7)),
        with("hosted", json!("true")),
        with("namespace", json!("../kube-system")),
        with("name", json!("a/b")),
        with("name", Value::Null),
    ] {
        assert_eq!(read(&key(&name), bad.clone()), 0, "{bad}");
    }
    assert_eq!(read(&key(&name), good.to_string()), 1);
    assert_eq!(read("of another name", good.to_string()), 0);
    let half = with("request", json!({"tls.key": "x", "csr-name": 7}));
    assert!(request(half.as_bytes()).is_none());
    assert_eq!(read(&key(&name), half), 1);
}

#[test]
fn each_secret_has_a_key_of_its_own() {
    let keys = [secret(true, "a"), secret(false, "a"), secret(false, "b")].map(|one| key(&one));
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    assert!(keys.iter().all(|key| key.len() == 32));
}
