//! The user: tokens, certificates and what is refused.

use super::*;

#[test]
fn token_or_its_file() {
    let tok = token;
    for (user, expected) in [
        ("", Auth::None),
        ("token: ''", Auth::None),
        ("token: null", Auth::None),
        ("token: a", tok("a")),
        ("tokenFile: token", tok("tok-file")),
        ("tokenFile: ./token", tok("tok-file")),
        ("tokenFile: /spoke/hub/token", tok("tok-file")),
        ("token: a, tokenFile: token", tok("tok-file")),
        ("token: a, tokenFile: nowhere", tok("a")),
        ("token: a, tokenFile: blank", tok("a")),
    ] {
        assert_eq!(accepted(with_user(user)).auth, expected, "{user}");
    }
    for (user, part) in [
        ("tokenFile: nowhere", "no such key"),
        ("tokenFile: blank", "tokenFile that holds no token"),
        ("token: 123", "token must be text"),
        ("token: {a: b}", "token must be text"),
    ] {
        rejected_with(with_user(user), part);
    }
}

#[test]
fn certificate_and_key_must_match() {
    let pair = |certificate: &str, key: &str| {
        with_user(&format!("client-certificate: {certificate}, client-key: {key}"))
    };
    for (certificate, key) in [
        ("tls.crt", "tls.key"),
        ("./tls.crt", "/elsewhere/tls.key"),
        ("tls.crt", "parameters.key"),
        ("tls.crt", "pkcs8.key"),
        ("v1.crt", "tls.key"),
    ] {
        assert!(accepted(pair(certificate, key)).identity.is_some(), "{certificate} {key}");
    }
    let bundle = base64(&format!("{KEY}{CERT}{CA}"));
    let text = with_user(&format!(
        "token: t, client-certificate-data: {bundle}, client-key-data: {bundle}"
    ));
    assert!(accepted(text).identity.is_some());
    assert!(accepted(with_user("client-key: nowhere, client-key-data: '@'")).identity.is_none());
    for (certificate, key, part) in [
        ("tls.crt", "other.key", "do not belong together"),
        ("junk", "tls.key", "client-certificate that holds no certificate"),
        ("empty", "tls.key", "client-certificate that holds no certificate"),
        ("tls.crt", "junk", "client-key that holds no private key"),
        ("tls.crt", "tls.crt", "client-key that holds no private key"),
        ("tls.crt", "''", "client-certificate without a client-key"),
        ("tls.crt", "encrypted.key", "client-key that holds no private key, or an encrypted one"),
        (
            "tls.crt",
            "encrypted-old.key",
            "client-key that holds no private key, or an encrypted one",
        ),
        ("p521.crt", "p521.key", "client-key that is not RSA"),
        ("tls.crt, client-certificate-data: AAAA", "tls.key", "both client-certificate and"),
        ("tls.crt", "tls.key, client-key-data: AAAA", "both client-key and"),
    ] {
        let sentence = rejected(pair(certificate, key));
        assert!(sentence.contains("user \"u\" has ") && sentence.contains(part), "{sentence}");
    }
    let der =
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", base64("no DER"));
    let text =
        with_user(&format!("client-certificate-data: {}, client-key: tls.key", base64(&der)));
    rejected_with(text, "client-certificate that cannot be read");
}

#[test]
fn what_would_make_another_user_of_it_is_refused() {
    for (user, field) in [
        ("as: joe", "as"),
        ("as-uid: '7'", "as-uid"),
        ("as-groups: [g]", "as-groups"),
        ("as-user-extra: {a: [b]}", "as-user-extra"),
        ("username: a", "username"),
        ("password: b", "password"),
        ("auth-provider: {name: gcp}", "auth-provider"),
    ] {
        let refused = format!("user \"u\" has {field}, which is not supported");
        rejected_with(with_user(&format!("token: t, {user}")), &refused);
        rejected_with(config("{server: 'http://h'}", &format!("{{{user}}}")), &refused);
    }
}

#[test]
fn exec_plugins_are_rejected_where_they_would_run() {
    let exec =
        "exec: {command: aws, args: [eks, secret-marker], env: [{name: A, value: secret-marker}]}";
    let sentence = rejected(with_user(exec));
    assert!(sentence.contains("user \"u\" gets credentials from \"aws\" (exec)"), "{sentence}");
    assert!(!sentence.contains("secret-marker"));
    rejected_with(with_user("exec: {}"), "(exec), which is not supported");
    rejected_with(with_user("exec: text"), "(exec), which is not supported");
    for other in ["token: t", "client-certificate: tls.crt, client-key: tls.key"] {
        accepted(with_user(&format!("{other}, {exec}")));
    }
    accepted(with_user("exec: null"));
}
