//! The cluster: server, trust and proxy.

use super::*;

#[test]
fn the_server_is_normalised_as_client_go_does() {
    for (given, expected) in [
        ("https://h:6443", "https://h:6443"),
        ("HTTPS://h", "https://h"),
        ("https://h/", "https://h"),
        ("https://h:/", "https://h"),
        ("https://h/k8s/clusters/c1/?x=1#f", "https://h/k8s/clusters/c1"),
        ("https://h?x=1", "https://h"),
        ("https://[::1]:6443/p", "https://[::1]:6443/p"),
        ("http://localhost:8001", "http://localhost:8001"),
        ("h:6443", "http://h:6443"),
        ("h", "http://h"),
        ("h:6443/", "http://h:6443"),
        ("10.0.0.1:80", "http://10.0.0.1:80"),
    ] {
        assert_eq!(accepted(on_server(given)).server, expected);
    }
    for given in [
        "https://",
        "https:///x",
        "ftp://h",
        "h/path",
        "https://h h",
        " https://h",
        "https://h:99999",
        "https://a:pass@h",
        "://",
    ] {
        rejected_with(on_server(given), "is not an http or https URL");
    }
}

#[test]
fn without_tls_credentials_and_ca_are_ignored() {
    for server in ["http://h", "h:6443"] {
        let ca = "certificate-authority: nowhere, tls-server-name: x, proxy-url: 'http://p'";
        let user = "{token: t, exec: {command: aws}}";
        let access = accepted(config(&format!("{{server: '{server}', {ca}}}"), user));
        assert_eq!(
            (access.trust, access.server_name, access.auth, access.identity),
            (Trust::System, None, Auth::None, None)
        );
        assert_eq!(access.proxy.as_deref(), Some("http://p"));
    }
}

#[test]
fn trust_is_the_bundle_or_the_system_or_anything() {
    let bundle = Trust::Bundle(CA.into());
    assert_eq!(accepted(with_cluster("")).trust, Trust::System);
    assert_eq!(accepted(with_cluster("certificate-authority-data: ''")).trust, Trust::System);
    assert_eq!(accepted(with_cluster("certificate-authority: ca.crt")).trust, bundle);
    assert_eq!(accepted(with_cluster("insecure-skip-tls-verify: true")).trust, Trust::Anything);
    for pem in [CA.to_owned(), format!("\u{feff}{CA}")] {
        let text = with_cluster(&format!("certificate-authority-data: {}", base64(&pem)));
        assert_eq!(accepted(text).trust, bundle);
    }
    for pem in [
        CA.replace('\n', "\r\n"),
        format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{CA}"),
        format!("a comment\n{CA}{CA}"),
    ] {
        let text = with_cluster(&format!("certificate-authority-data: {}", base64(&pem)));
        assert_eq!(accepted(text).trust, Trust::Bundle(pem.into()));
    }
    for (fields, part) in [
        (
            "insecure-skip-tls-verify: true, certificate-authority: ca.crt",
            "both insecure-skip-tls-verify",
        ),
        (
            "certificate-authority: ca.crt, certificate-authority-data: AAAA",
            "both certificate-authority and",
        ),
        ("certificate-authority: junk", "holds no certificate"),
        ("certificate-authority: empty", "holds no certificate"),
        ("certificate-authority: ./nowhere", "\"./nowhere\" that cannot be read"),
        ("certificate-authority: nowhere", "\"(not shown)\" that cannot be read"),
        ("certificate-authority: ..", "cannot be read"),
        ("insecure-skip-tls-verify: 'true'", "insecure-skip-tls-verify must be true or false"),
        ("certificate-authority: 1", "certificate-authority must be text"),
        ("certificate-authority-data: 1234", "certificate-authority-data must be text"),
    ] {
        rejected_with(with_cluster(fields), part);
    }
}

#[test]
fn base64_is_read_as_in_go() {
    let ca = base64(CA);
    let (head, tail) = ca.split_at(40);
    let text = |value: &str| with_cluster(&format!("certificate-authority-data: {value}"));
    accepted(text(&format!("\"{head}\\r\\n{tail}\\n\"")));
    // Non-zero bits after the last byte are ignored.
    let loose =
        base64(&format!("{CA}{}", &"\n\n\n"[..(4 - CA.len() % 3) % 3])).replace("Cg==", "Ch==");
    assert!(loose.ends_with("Ch=="));
    accepted(text(&loose));
    for bad in [
        format!("'{head} {tail}'"),
        ca.trim_end_matches('=').to_owned() + "A",
        "'@@@'".into(),
        "-_-_".into(),
    ] {
        rejected_with(text(&bad), "certificate-authority-data is not base64");
    }
}

#[test]
fn proxy_and_server_name_are_used() {
    for (given, expected) in [
        ("http://p:3128", "http://p:3128"),
        ("https://us%20er:p%40ss@p/", "https://us%20er:p%40ss@p/"),
        ("SOCKS5://p:1080", "socks5://p:1080"),
    ] {
        let access = accepted(with_cluster(&format!("proxy-url: '{given}'")));
        assert_eq!(access.proxy.as_deref(), Some(expected));
    }
    for given in ["p:3128", "socks5h://p", "ftp://p", "http://", "/p"] {
        rejected_with(with_cluster(&format!("proxy-url: '{given}'")), "proxy-url that is not");
    }
    let access = accepted(with_cluster("tls-server-name: api.example"));
    assert_eq!((access.server_name.as_deref(), access.proxy), (Some("api.example"), None));
}
