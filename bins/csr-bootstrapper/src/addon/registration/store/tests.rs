use super::*;
use crate::certificate::authority::template;

fn secret(hosted: bool, name: &str) -> RegistrationSecret {
    let namespace = AddOnNamespace { hosted, name: "addons".into() };
    RegistrationSecret { namespace, name: name.into() }
}

/// The content of a store with these values.
fn stored(values: &[String]) -> Data {
    let entry =
        |(number, value): (usize, &String)| (number.to_string(), value.clone().into_bytes().into());
    values.iter().enumerate().map(entry).collect()
}

#[test]
fn a_registration_comes_back_with_its_request() {
    let request = CertificateRequest::new(&template()).unwrap();
    let (with, without) = (secret(true, "a"), secret(false, "b"));
    let pending = StoredRegistration { addon: "a".into(), request: Some((&request).into()) };
    let settled = StoredRegistration { addon: "b".into(), request: None };
    let values = [pending.to_json(&with).to_string(), settled.to_json(&without).to_string()];
    let read = read(&stored(&values));
    assert_eq!(read, [(with, pending), (without, settled)]);
    let found = read[0].1.request.clone().unwrap();
    assert_eq!(CertificateRequest::of_key(found.key, &template()), Some(request));
}

/// What somebody wrote there must not lead to requests elsewhere.
#[test]
fn what_is_no_registration_is_nobodys() {
    let good = StoredRegistration { addon: "a".into(), request: None }.to_json(&secret(false, "a"));
    let mut values = vec!["junk".to_owned(), "{}".to_owned(), "7".to_owned()];
    for (field, value) in [
        ("addon", json!(7)),
        ("hosted", json!("true")),
        ("namespace", json!("../kube-system")),
        ("name", json!("a/b")),
        ("name", Value::Null),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        values.push(bad.to_string());
    }
    assert_eq!(read(&stored(&values)), []);
    values.push(good.to_string());
    assert_eq!(read(&stored(&values)).len(), 1, "and does no harm to the others");
    let mut half = good;
    half["request"] = json!({"tls.key": "x", "csr-name": 7});
    let read = read(&stored(&[half.to_string()]));
    assert_eq!(read[0].1.request, None);
}

#[test]
fn each_secret_has_a_key_of_its_own() {
    let keys = [secret(true, "a"), secret(false, "a"), secret(false, "b")].map(|one| key(&one));
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    assert!(keys.iter().all(|key| key.len() == 32));
}
