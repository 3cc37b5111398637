//! The user: tokens, certificates, impersonation and what is refused.

use super::*;

#[test]
fn token_and_password() {
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
        ("username: a, password: b", basic("a", "b")),
        ("username: a", basic("a", "")),
        ("password: b", basic("", "b")),
    ] {
        assert_eq!(accepted(with_user(user)).auth, expected, "{user}");
    }
    for (user, part) in [
        ("token: a, username: b", "both a token and"),
        ("token: a, password: b", "both a token and"),
        ("tokenFile: token, username: b", "both a token and"),
        ("tokenFile: nowhere", "no such key"),
        ("tokenFile: blank", "tokenFile that holds no token"),
        ("token: 123", "token is not text"),
        ("token: {a: b}", "token is not text"),
        ("username: [a]", "username is not text"),
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
    assert_eq!(accepted(with_user("client-key: nowhere, client-key-data: '@'")).identity, None);
    for (certificate, key, part) in [
        ("tls.crt", "other.key", "do not belong together"),
        ("junk", "tls.key", "client-certificate that holds no certificate"),
        ("empty", "tls.key", "client-certificate that holds no certificate"),
        ("tls.crt", "junk", "client-key that holds no private key"),
        ("tls.crt", "tls.crt", "client-key that holds no private key"),
        ("tls.crt", "''", "client-certificate without a client-key"),
        ("tls.crt", "encrypted.key", "client-key that is encrypted"),
        ("tls.crt", "encrypted-old.key", "client-key that is encrypted"),
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
fn impersonation_becomes_headers() {
    let access = accepted(with_user(
        "as: joe, as-uid: '7', as-groups: [g1, g2], as-user-extra: {'sco pe/%ä': [a, b], none: null}",
    ));
    let expected = [
        ("Impersonate-User", "joe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-sco%20pe%2F%25%C3%A4", "a"),
        ("Impersonate-Extra-sco%20pe%2F%25%C3%A4", "b"),
    ];
    assert_eq!(
        access.impersonate,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert_eq!(accepted(with_user("as-groups: [], as-user-extra: {}")).impersonate, []);
    for (user, part) in [
        ("as-uid: '7'", "without as"),
        ("as-groups: [g]", "without as"),
        ("as-user-extra: {a: []}", "without as"),
        ("as: j, as-groups: g", "as-groups is not a list of texts"),
        ("as: j, as-groups: [1]", "as-groups is not a list of texts"),
        ("as: j, as-user-extra: {a: b}", "as-user-extra is not a map of lists"),
    ] {
        rejected_with(with_user(user), part);
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
    for other in ["token: t", "username: a", "client-certificate: tls.crt, client-key: tls.key"] {
        accepted(with_user(&format!("{other}, {exec}")));
    }
    accepted(with_user("exec: null"));
    rejected_with(
        with_user("token: t, auth-provider: {name: gcp}"),
        "from \"gcp\" (auth-provider)",
    );
}
