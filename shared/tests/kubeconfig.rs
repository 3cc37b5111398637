//! Tests of the kubeconfig rules, one property each. "As kubectl" means: measured with client-go v0.34.3
//! (`clientcmd.BuildConfigFromFlags`, then `rest.TransportFor`) on the same texts.

// Clippy does not recognise the helpers below as test code.
#![allow(clippy::unwrap_used)]

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process,
    time::Instant,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use shared::{
    config::{Auth, ClusterConfig, Trust},
    error::{Error, Result},
    kubeconfig::{self, Env, Reach, from_secret, in_cluster, load},
    secret::Data,
};

const SECRET: &str = "agent/hub";

// ---- helpers

/// A kubeconfig with one cluster, user and context; each part is flow YAML.
fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: k, cluster: {cluster}}}]\n\
         users: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u, namespace: ns}}}}]\n"
    )
}

fn on_server(url: &str) -> String {
    config(&format!("{{server: {url:?}}}"), "{}")
}

fn with_cluster(fields: &str) -> String {
    config(&format!("{{server: 'https://h:6443', {fields}}}"), "{}")
}

fn with_user(fields: &str) -> String {
    config("{server: 'https://h:6443'}", &format!("{{{fields}}}"))
}

/// Loads a kubeconfig from a Secret that also holds every fixture.
fn secret(text: impl AsRef<[u8]>) -> Result<ClusterConfig> {
    let mut data: Data = [
        ("ca.crt", CA),
        ("tls.crt", CERT),
        ("v1.crt", CERT_V1),
        ("tls.key", KEY),
        ("parameters.key", KEY_WITH_PARAMETERS),
        ("pkcs8.key", KEY_PKCS8),
        ("encrypted.key", KEY_ENCRYPTED),
        ("encrypted-old.key", KEY_ENCRYPTED_OLD),
        ("other.key", KEY_OTHER),
        ("p521.crt", CERT_P521),
        ("p521.key", KEY_P521),
        ("token", "\n tok-file \r\n"),
        ("junk", "junk"),
        ("blank", " \n"),
        ("empty", ""),
    ]
    .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec().into()))
    .into();
    data.insert("kubeconfig".into(), text.as_ref().to_vec().into());
    from_secret(SECRET, &data)
}

#[track_caller]
fn accepted(text: impl AsRef<[u8]>) -> ClusterConfig {
    secret(text).unwrap()
}

/// Returns the error message; asserts that it is `BadConfig` and names its source.
#[track_caller]
fn rejected(text: impl AsRef<[u8]>) -> String {
    match secret(text) {
        Err(error @ Error::BadConfig(_)) => {
            assert!(error.message().starts_with("Secret agent/hub"), "{error}");
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn rejected_with(text: impl AsRef<[u8]>, part: &str) {
    let sentence = rejected(text);
    assert!(sentence.contains(part), "{sentence:?} has no {part:?}");
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn token(text: &str) -> Auth {
    Auth::Token(text.to_owned().into())
}

fn basic(name: &str, password: &str) -> Auth {
    Auth::Basic(name.to_owned(), password.to_owned().into())
}

/// Reads a kubeconfig that may refer to any file.
fn from_file(path: &Path) -> Result<ClusterConfig> {
    kubeconfig::from_file(path, Reach::Anywhere)
}

/// A private directory, removed at the end of the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kubeconfig-{name}-{}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Calls `load` with these environment variables, and `account` as the service account's directory.
fn load_with(
    flag: Option<&Path>,
    master: Option<&str>,
    variables: &[(&str, OsString)],
    account: &Path,
) -> Result<ClusterConfig> {
    let variable =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
    load(flag, master, &Env { variable: &variable, service_account: account })
}

fn listed(paths: &[&Path]) -> OsString {
    std::env::join_paths(paths).unwrap()
}

fn pod(host: &str, port: &str) -> [(&'static str, OsString); 2] {
    [("KUBERNETES_SERVICE_HOST", host.into()), ("KUBERNETES_SERVICE_PORT", port.into())]
}

fn account(dir: &Dir) -> PathBuf {
    dir.write("sa/token", "sa-token\n");
    dir.write("sa/ca.crt", CA);
    dir.write("sa/namespace", "sa-namespace\n");
    dir.0.join("sa")
}

// ---- text

#[test]
fn yaml_json_bom_and_crlf_are_read() {
    let plain = on_server("https://h");
    let json = r#"{"current-context":"c","clusters":[{"name":"k","cluster":{"server":"https://h"}}],
        "contexts":[{"name":"c","context":{"cluster":"k","namespace":"\ud83d\ude00"}}]}"#;
    for text in [
        plain.clone(),
        plain.replace('\n', "\r\n"),
        format!("\u{feff}{plain}"),
        format!("---\n{plain}...\n"),
        json.to_owned(),
        format!("\u{feff}\n  {json}"),
        "{current-context: c, clusters: [{name: k, cluster: {server: 'https://h'}}], contexts: [{name: c, context: {cluster: k}}]}".into(),
    ] {
        assert_eq!(accepted(&text).server, "https://h", "{text}");
    }
}

#[test]
fn unknown_fields_and_numeric_keys_are_ignored() {
    let text = format!(
        "{}1: x\npreferences: {{}}\nextensions: []\nshoe-size: 43\n",
        with_cluster("disable-compression: true, x: [1]")
    );
    assert_eq!(accepted(text).namespace.as_deref(), Some("ns"));
}

#[test]
fn kind_and_version_may_be_absent_but_not_wrong() {
    let plain = on_server("https://h");
    accepted(plain.replace("apiVersion: v1\nkind: Config\n", ""));
    accepted(plain.replace("kind: Config\n", ""));
    rejected_with(plain.replace("kind: Config", "kind: Pod"), "its kind is not Config");
    rejected_with(plain.replace("apiVersion: v1", "apiVersion: v2"), "its apiVersion is not v1");
}

#[test]
fn an_empty_configuration_is_reported() {
    for text in ["", "\n \n", "# nothing\n", "null", "{}", "kind: Config", "users: null"] {
        rejected_with(text, "has no configuration");
    }
}

#[test]
fn text_that_is_not_a_kubeconfig_is_rejected() {
    let deep = "[".repeat(10_000);
    for (text, part) in [
        ("- a\n", "not a map"),
        ("hello", "not a map"),
        ("a: [", "is not YAML: line"),
        ("{\"a\": 1}}", "is not"),
        ("a: 1\n---\nb: 2\n", "one YAML document"),
        ("a\0b", "NUL"),
        (&deep, "is not YAML"),
        ("x: &a [*a]", "is not"),
        ("users: {}", "users that are not a list"),
        ("users: [[]]", "has a user that is not"),
        ("users: [{name: 1}]", "has a user that is not"),
        ("users: [{name: a, user: text}]", "has a user that is not"),
        ("current-context: 3", "current-context that is not text"),
    ] {
        rejected_with(text, part);
    }
    rejected_with(b"\xff\xfea\0", "UTF-8");
}

#[test]
fn aliases_work_within_the_memory_budget() {
    let text = format!("x: &a 'https://a'\n{}", config("{server: *a}", "{}"));
    assert_eq!(accepted(text).server, "https://a");

    let laughs: String = (1..10)
        .map(|level| {
            format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(","))
        })
        .collect();
    let quadratic = format!("a: &a {}\nb: [{}]\n", "x".repeat(400_000), "*a,".repeat(100_000));
    for text in [format!("a0: &a0 lol\n{laughs}"), quadratic] {
        let start = Instant::now();
        rejected_with(text, "needs more than 3072 KiB of memory");
        assert!(start.elapsed().as_millis() < 500);
    }
}

#[test]
fn merge_keys_are_rejected_because_they_would_lose_fields() {
    rejected_with(format!("x: &a {{as: joe}}\n{}", with_user("<<: *a")), "merge key");
}

// ---- contexts, entries, merging

#[test]
fn duplicate_names_are_rejected_even_if_unused() {
    for list in
        ["users: [{name: z}, {name: z}]", "clusters: [{}, {}]", "contexts: [{name: z}, {name: z}]"]
    {
        let kind = list.split(':').next().unwrap();
        let text = on_server("https://h").replacen(
            &format!("{kind}: ["),
            &format!("{}, ", list.trim_end_matches(']')),
            1,
        );
        rejected_with(text, &format!("has two {kind} named"));
    }
}

#[test]
fn only_entries_of_the_current_context_are_checked() {
    let unused = "users: [{name: z, user: {exec: {command: aws}, token: 1, client-key: nowhere}}, ";
    let access = accepted(with_user("token: t").replacen("users: [", unused, 1));
    assert_eq!(access.auth, token("t"));
}

#[test]
fn an_unknown_context_is_an_error_but_a_missing_user_is_anonymous() {
    let text = with_user("token: t");
    rejected_with(
        text.replace("current-context: c", "current-context: zz"),
        "has no context \"zz\"",
    );
    assert_eq!(accepted(text.replace("user: u,", "user: zz,")).auth, Auth::None);
    assert_eq!(accepted(text.replace("user: {token: t}", "user: null")).auth, Auth::None);
    rejected_with(text.replace("cluster: k,", "cluster: zz,"), "has no configuration");
    rejected_with(text.replace("current-context: c\n", ""), "has no configuration");
    rejected_with(config("{tls-server-name: x}", "{}"), "cluster \"k\" has no server");
}

#[test]
fn the_first_file_wins_for_each_entry() {
    let dir = Dir::new("first");
    let one = dir.write("one/config", "users: [{name: u, user: {tokenFile: token}}]\n");
    dir.write("one/token", "from-one");
    let two = dir.write("two/config", with_user("username: a, password: b"));
    dir.write("two/token", "from-two");
    let missing = dir.0.join("missing");
    let load = |paths: &[&Path]| load_with(None, None, &[("KUBECONFIG", listed(paths))], &dir.0);

    // The second user `u` is ignored entirely, and the token file is found next to the first kubeconfig.
    let access = load(&[Path::new(""), &missing, &one, &two, &one]).unwrap();
    assert_eq!(access.auth, token("from-one"));
    assert_eq!(load(&[&two, &one]).unwrap().auth, basic("a", "b"));

    let other =
        dir.write("other", "current-context: d\ncontexts: [{name: d, context: {cluster: k}}]");
    assert_eq!(load(&[&one, &other, &two]).unwrap().auth, Auth::None);

    let bad = dir.write("bad", "a: [");
    let error = load(&[&two, &bad]).unwrap_err();
    assert!(error.message().contains("bad is not YAML"), "{error}");
}

// ---- cluster

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
        let user = "{token: t, exec: {command: aws}, as: joe}";
        let access = accepted(config(&format!("{{server: '{server}', {ca}}}"), user));
        assert_eq!(
            (access.trust, access.server_name, access.auth, access.identity),
            (Trust::System, None, Auth::None, None)
        );
        assert_eq!(access.impersonate, [("Impersonate-User".into(), "joe".into())]);
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
        ("insecure-skip-tls-verify: 'true'", "insecure-skip-tls-verify is not true or false"),
        ("certificate-authority: 1", "certificate-authority is not text"),
        ("certificate-authority-data: 1234", "certificate-authority-data is not text"),
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

// ---- user

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

// ---- files and Secrets

#[test]
fn relative_paths_resolve_against_the_kubeconfig() {
    let dir = Dir::new("relative");
    dir.write("pki/ca.crt", CA);
    dir.write("pki/tls.crt", CERT);
    let key = dir.write("elsewhere/tls.key", KEY);
    let user =
        format!("{{client-certificate: ../pki/tls.crt, client-key: {key:?}, tokenFile: token}}");
    dir.write("conf/token", "t\n");
    let path = dir.write(
        "conf/config",
        config("{server: 'https://h', certificate-authority: ../pki/ca.crt}", &user),
    );
    let access = from_file(&path).unwrap();
    assert_eq!(access.trust, Trust::Bundle(CA.into()));
    assert_eq!(access.auth, token("t"));
    let identity = access.identity.unwrap();
    assert_eq!((&*identity.certificate, &**identity.key), (CERT.as_bytes(), KEY.as_bytes()));
}

#[test]
fn m3_a_foreign_kubeconfig_reads_only_files_next_to_it() {
    let dir = Dir::new("beside");
    let elsewhere = dir.write("elsewhere/token", "the pod's own\n");
    let read = |user: &str, cluster: &str| {
        let cluster = format!("{{server: 'https://h', {cluster}}}");
        let path = dir.write("conf/config", config(&cluster, &format!("{{{user}}}")));
        kubeconfig::from_file(&path, Reach::Beside)
    };
    dir.write("conf/token", "t\n");
    dir.write("conf/pki/ca.crt", CA);
    let inside = dir.0.join("conf/token");
    for user in ["tokenFile: token".to_owned(), format!("tokenFile: {inside:?}")] {
        let access = read(&user, "certificate-authority: pki/ca.crt").unwrap();
        assert_eq!(access.auth, token("t"), "{user}");
    }
    let service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
    for (user, cluster) in [
        (format!("tokenFile: {elsewhere:?}"), String::new()),
        ("tokenFile: ../elsewhere/token".to_owned(), String::new()),
        (format!("tokenFile: {service_account}/token"), String::new()),
        (format!("tokenFile: {service_account}/ca.crt"), String::new()),
        (format!("client-certificate: {elsewhere:?}, client-key: tls.key"), String::new()),
        (String::new(), format!("certificate-authority: {elsewhere:?}")),
    ] {
        let error = read(&user, &cluster).unwrap_err();
        let why = "it is not in the directory of the kubeconfig, see -kubeconfig-files-anywhere";
        assert!(error.message().ends_with(why), "{user} {cluster}: {error}");
    }
    // The CA of the pod's own cluster is no secret; it just does not exist here.
    let error = read("", &format!("certificate-authority: {service_account}/ca.crt")).unwrap_err();
    assert!(error.message().contains("No such file"), "{error}");
    let in_secret = format!("certificate-authority: {service_account}/ca.crt");
    assert_eq!(
        accepted(with_cluster(&in_secret)).trust,
        Trust::Bundle(CA.into()),
        "a Secret's keys go by the file name alone"
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = Dir::new("unreadable");
    let big = dir.write("big", " ".repeat((1 << 20) + 1));
    let fits = dir.write("fits", " ".repeat(1 << 20));
    let names_big = dir.write("names-big", with_cluster("certificate-authority: big"));
    let names_dir = dir.write("names-dir", with_user("tokenFile: ."));
    let pasted = dir.write(
        "pasted",
        with_user(&format!("client-certificate: big, client-key: {}", base64(KEY))),
    );
    dir.write("tls.crt", CERT);
    for (path, part) in [
        (&dir.0, "cannot be read: Is a directory"),
        (&dir.0.join("missing"), "missing does not exist"),
        (&big, "larger than 1 MiB"),
        (&fits, "has no configuration"),
        (&names_big, "\"(not shown)\" that cannot be read: it is larger than 1 MiB"),
        (&names_dir, "\".\" that cannot be read: Is a directory"),
    ] {
        let error = from_file(path).unwrap_err();
        assert!(matches!(&error, Error::BadConfig(_) if error.message().contains(part)), "{error}");
        assert!(error.message().starts_with(&format!("kubeconfig {}", path.display())), "{error}");
    }
    fs::write(&big, CERT).unwrap();
    let error = from_file(&pasted).unwrap_err();
    assert!(error.message().contains("client-key \"(not shown)\" that cannot be read"), "{error}");
}

#[test]
fn a_secret_reads_no_files() {
    let dir = Dir::new("secret");
    let on_disk = dir.write("only-on-disk", "t");
    rejected_with(with_user(&format!("tokenFile: {on_disk:?}")), "the Secret has no such key");
    let error = from_secret(SECRET, &Data::new()).unwrap_err();
    assert_eq!(error.message(), "Secret agent/hub has no key \"kubeconfig\"");
    let big = Data::from([("kubeconfig".to_owned(), vec![b' '; (1 << 20) + 1].into())]);
    assert!(from_secret(SECRET, &big).is_err());
}

/// The kubeconfig as Open Cluster Management's registration agent writes it.
#[test]
fn the_hub_kubeconfig_of_ocm_is_read() {
    let text = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: https://hub:6443\n  name: hub\n\
         contexts:\n- context:\n    cluster: hub\n    namespace: configuration\n    user: default-auth\n  name: default-context\n\
         current-context: default-context\nkind: Config\npreferences: {{}}\n\
         users:\n- name: default-auth\n  user:\n    client-certificate: tls.crt\n    client-key: tls.key\n",
        base64(CA)
    );
    let access = accepted(text);
    assert_eq!(
        (&*access.server, access.namespace.as_deref()),
        ("https://hub:6443", Some("configuration"))
    );
    assert!(access.identity.is_some());
}

// ---- lookup order

#[test]
fn flag_then_variable_then_pod_then_home() {
    let dir = Dir::new("order");
    let account = account(&dir);
    let flag = dir.write("flag", on_server("https://flag"));
    let listed = dir.write("listed", on_server("https://listed"));
    dir.write("home/.kube/config", on_server("https://home"));
    let home = ("HOME", dir.0.join("home").into_os_string());
    let [host, port] = pod("10.0.0.1", "443");
    let list = ("KUBECONFIG", listed.into_os_string());
    let all = [list, host.clone(), port.clone(), home.clone()];
    let server = |flag: Option<&Path>, variables: &[(&str, OsString)]| {
        load_with(flag, None, variables, &account).map(|access| access.server)
    };
    assert_eq!(server(Some(&flag), &all).unwrap(), "https://flag");
    assert_eq!(server(Some(Path::new("")), &all).unwrap(), "https://listed");
    assert_eq!(server(None, &all[1..]).unwrap(), "https://10.0.0.1:443");
    assert_eq!(server(None, &all[3..]).unwrap(), "https://home");
    // KUBECONFIG names no existing file: the pod wins, not the home directory.
    let nothing = [("KUBECONFIG", OsString::from("/nowhere::")), host, port, home];
    assert_eq!(server(None, &nothing).unwrap(), "https://10.0.0.1:443");
    let error = server(None, &[("KUBECONFIG", "/nowhere".into())]).unwrap_err();
    assert!(
        error.message().contains("/nowhere") && error.message().contains("KUBERNETES_SERVICE_HOST"),
        "{error}"
    );
    assert!(matches!(server(None, &[]), Err(Error::BadConfig(_))));
    // The file that the flag names must exist.
    let error = server(Some(Path::new("/nowhere")), &all).unwrap_err();
    assert_eq!(error.message(), "kubeconfig /nowhere does not exist");
}

#[test]
fn master_overrides_the_server_of_files_only() {
    let dir = Dir::new("master");
    let account = account(&dir);
    let path =
        dir.write("config", config("{server: 'https://h', tls-server-name: n}", "{token: t}"));
    let access = load_with(Some(&path), Some("https://m:1/"), &[], &account).unwrap();
    assert_eq!(
        (&*access.server, access.server_name, access.auth),
        ("https://m:1", None, token("t"))
    );
    let access = load_with(Some(&path), Some(""), &[], &account).unwrap();
    assert_eq!((&*access.server, access.server_name.as_deref()), ("https://h", Some("n")));
    let access = load_with(None, Some("http://localhost:8080"), &[], &account).unwrap();
    assert_eq!((&*access.server, access.auth), ("http://localhost:8080", Auth::None));
    let access = load_with(None, Some("https://m"), &pod("10.0.0.1", "443"), &account).unwrap();
    assert_eq!(access.server, "https://10.0.0.1:443");
    let error = load_with(Some(&path), Some("ftp://m"), &[], &account).unwrap_err();
    assert!(error.message().starts_with("-master is not"), "{error}");
}

#[test]
fn in_cluster_uses_the_service_account() {
    let dir = Dir::new("pod");
    let account = account(&dir);
    let load = |variables: &[(&str, OsString)]| {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
        };
        in_cluster(&Env { variable: &variable, service_account: &account })
    };
    let [host, port] = pod("fd00::1", "443");
    let access = load(&[host.clone(), port.clone()]).unwrap();
    let expected = ClusterConfig {
        server: "https://[fd00::1]:443".into(),
        trust: Trust::Bundle(CA.into()),
        server_name: None,
        identity: None,
        auth: token("sa-token"),
        impersonate: vec![],
        proxy: None,
        namespace: Some("sa-namespace".into()),
    };
    assert_eq!(access, expected);
    let named = [host.clone(), port.clone(), ("POD_NAMESPACE", "pod-namespace".into())];
    assert_eq!(load(&named).unwrap().namespace.as_deref(), Some("pod-namespace"));

    for variables in
        [vec![], vec![host.clone()], vec![host.clone(), ("KUBERNETES_SERVICE_PORT", "".into())]]
    {
        let error = load(&variables).unwrap_err();
        assert!(error.message().contains("must be set"), "{error}");
    }
    assert!(load(&pod("a b", "443")).is_err());
    assert!(load(&pod("10.0.0.1", "tcp://1")).is_err());

    // A bad CA or a missing namespace is accepted; a bad token is not.
    fs::write(account.join("ca.crt"), "junk").unwrap();
    fs::remove_file(account.join("namespace")).unwrap();
    let access = load(&pod("10.0.0.1", "443")).unwrap();
    assert_eq!((access.trust, access.namespace), (Trust::System, None));
    fs::write(account.join("token"), "\n").unwrap();
    assert!(load(&pod("10.0.0.1", "443")).unwrap_err().message().contains("holds no usable token"));
    fs::remove_file(account.join("token")).unwrap();
    assert!(load(&pod("10.0.0.1", "443")).unwrap_err().message().contains("cannot be read"));
}

// ---- nothing leaks, nothing panics

/// The marker stands in every place where a credential can be, even in values of the wrong type.
#[test]
fn no_credential_in_errors_or_debug() {
    const MARK: &str = "s3cr3tMARKER";
    let dir = Dir::new("leak");
    let mut texts: Vec<String> = [
        "token: M, username: a",
        "token: M, exec: {command: x}",
        "token: [M]",
        "token: {M: M}",
        "token: !M M",
        "token: !!int M",
        "token: \"M",
        "token: *M",
        "username: a, password: M",
        "password: M, token: M",
        "password: [M]",
        "client-certificate: tls.crt, client-key-data: M",
        "client-certificate-data: M, client-key-data: M",
        "client-certificate: tls.crt, client-key-data: [M]",
        "exec: {command: x, args: [M], env: [{name: M, value: M}]}",
        "auth-provider: {name: oidc, config: {refresh-token: M}}",
        "token: M, tokenFile: nowhere",
        "token: M\n  x: - y",
    ]
    .map(|user| with_user(user).replace('M', MARK).replace(&format!("h{MARK}"), "hM"))
    .into();
    texts.push(on_server(&format!("https://a:{MARK}@h")));
    texts.push(with_cluster(&format!("proxy-url: 'ftp://a:{MARK}@h'")));
    texts.push(with_user(&format!(
        "client-certificate: tls.crt, client-key: {}",
        base64(&MARK.repeat(20))
    )));
    texts.push(format!("{{\"users\": [{{\"name\": \"u\", \"user\": {{\"token\": \"{MARK}\"}}}}]"));
    texts.push(format!("{MARK}: {MARK}: {MARK}"));
    texts.push(format!("- {MARK}"));
    texts.push(format!("apiVersion: {MARK}"));
    dir.write("tls.crt", CERT);
    let (mark, coded) = (MARK, base64(&MARK.repeat(20)));
    for text in texts {
        let path = dir.write("config", &text);
        for result in [secret(&text), from_file(&path)] {
            let shown = match &result {
                Ok(access) => format!("{access:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains(mark) && !shown.contains(&coded[..20]), "{text}\n{shown}");
        }
    }
    let token = dir.write("token", [b"\xff", MARK.as_bytes()].concat());
    let path = dir.write("config", with_user(&format!("tokenFile: {token:?}")));
    assert!(!from_file(&path).unwrap_err().message().contains(MARK));
}

#[test]
fn random_bytes_cause_no_panic() {
    let seed = format!("{}{}", with_cluster(&format!("certificate-authority-data: {}", base64(CA))),
        "users: [{name: u, user: {token: t, as: j, as-groups: [a], client-certificate: tls.crt, client-key: tls.key}}]\n")
        .replacen("users: [{name: u, user: {}}]\n", "", 1);
    let snippets: [&[u8]; 14] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b": ",
        b"\n",
        b"*a",
        b"&a ",
        b"<<: ",
        b"\xff",
        b"\"",
        b"null",
        b"- ",
        b"\xef\xbb\xbf",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    assert!(secret(&seed).is_ok());
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut text = seed.clone().into_bytes();
        for _ in 0..=random(3) {
            let at = random(text.len());
            match random(4) {
                0 => text[at] = u8::try_from(random(256)).unwrap(),
                1 => drop(text.drain(at..(at + random(20)).min(text.len()))),
                2 => text.truncate(at.max(1)),
                _ => drop(text.splice(at..at, snippets[random(snippets.len())].iter().copied())),
            }
        }
        refused += usize::from(secret(&text).is_err());
    }
    assert!((1_000..20_000).contains(&refused), "{refused}");
}

// ---- fixtures

// Generated once, valid for 100 years, with OpenSSL 3. The CA:
//   openssl ecparam -name prime256v1 -genkey -noout -out ca.key
//   openssl req -x509 -key ca.key -subj /CN=test-ca -days 36500 -out ca.crt
// `tls.key`, `other.key` and, with `secp521r1`, `p521.key`: like `ca.key`. The certificates, v1 without `-extfile`:
//   openssl req -new -key tls.key -subj /O=system:masters/CN=admin
//   openssl x509 -req -CA ca.crt -CAkey ca.key -days 36500 -extfile ext
// The other forms of the key:
//   openssl pkcs8 -topk8 -nocrypt
//   openssl pkcs8 -topk8
//   openssl ec -aes128

const CA: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBezCCASGgAwIBAgIURlbzRsD7x8h6uXprVeaAeHe08bYwCgYIKoZIzj0EAwIw\n\
EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjExMjM1MjJaGA8yMTI2MTAyODEy\n\
MzUyMlowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n\
A0IABM5vuTdMSeGRgRdOl+ULJZ7Ks/GRRippBMj6KXm0YAxfwPbLhO/3vY/XNzM4\n\
1mHPLqQcO6ehjRzvBmI/pqrn9DijUzBRMB0GA1UdDgQWBBTomshZb12TeqEc9CtR\n\
bxacMuZA1TAfBgNVHSMEGDAWgBTomshZb12TeqEc9CtRbxacMuZA1TAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQDasZ1r96/YshEYYgfwuy/1o68S\n\
2SubfgRhV2Xy+h06xwIgCmEpNv4sud0d6Qlo2gr4ehIzowjb+4c02lldfXACx/4=\n\
-----END CERTIFICATE-----\n\
";
const CERT: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBjjCCATSgAwIBAgIBAjAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd0ZXN0LWNh\n\
MCAXDTI2MTEyMTEyMzUyMloYDzIxMjYxMDI4MTIzNTIyWjApMRcwFQYDVQQKDA5z\n\
eXN0ZW06bWFzdGVyczEOMAwGA1UEAwwFYWRtaW4wWTATBgcqhkjOPQIBBggqhkjO\n\
PQMBBwNCAAT/R1vKl5xLv3jKQErF1EoPoEcveF/m9GwbrRcPdp7KOfjMsOadbJXA\n\
GpPhKAnuNt0fCeBdmKlNDzLswnnB2rTgo2IwYDAJBgNVHRMEAjAAMBMGA1UdJQQM\n\
MAoGCCsGAQUFBwMCMB0GA1UdDgQWBBT2/C3yKci1ZjhPV3gpIJGd28cPbTAfBgNV\n\
HSMEGDAWgBTomshZb12TeqEc9CtRbxacMuZA1TAKBggqhkjOPQQDAgNIADBFAiEA\n\
rp2xFS5FTSOq6M6hozRaDcc1Ua4nrENOWWRdc0bQmKsCIBUJu6ZoNJzA7niQPgTb\n\
izZudQ0c6jMJog5SJ6QIvYIE\n\
-----END CERTIFICATE-----\n\
";
const CERT_V1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBJDCBywIBAzAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd0ZXN0LWNhMCAXDTI2\n\
MTEyMTEyMzUyMloYDzIxMjYxMDI4MTIzNTIyWjApMRcwFQYDVQQKDA5zeXN0ZW06\n\
bWFzdGVyczEOMAwGA1UEAwwFYWRtaW4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
AAT/R1vKl5xLv3jKQErF1EoPoEcveF/m9GwbrRcPdp7KOfjMsOadbJXAGpPhKAnu\n\
Nt0fCeBdmKlNDzLswnnB2rTgMAoGCCqGSM49BAMCA0gAMEUCIDFuFcaWEkJswgJA\n\
Pq4eK4NGc71tb8uRxkgDBMEv9bAsAiEAleA1JHu6ZUYeHQUg7WRcMxXthIjDsyyK\n\
f2ALt0me208=\n\
-----END CERTIFICATE-----\n\
";
const KEY: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIDRcIJ/CqugqfmsX0fOspGom2z9GwyP906skvmFiOau7oAoGCCqGSM49\n\
AwEHoUQDQgAE/0dbypecS794ykBKxdRKD6BHL3hf5vRsG60XD3aeyjn4zLDmnWyV\n\
wBqT4SgJ7jbdHwngXZipTQ8y7MJ5wdq04A==\n\
-----END EC PRIVATE KEY-----\n\
";
const KEY_WITH_PARAMETERS: &str = "\
-----BEGIN EC PARAMETERS-----\n\
BggqhkjOPQMBBw==\n\
-----END EC PARAMETERS-----\n\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIDRcIJ/CqugqfmsX0fOspGom2z9GwyP906skvmFiOau7oAoGCCqGSM49\n\
AwEHoUQDQgAE/0dbypecS794ykBKxdRKD6BHL3hf5vRsG60XD3aeyjn4zLDmnWyV\n\
wBqT4SgJ7jbdHwngXZipTQ8y7MJ5wdq04A==\n\
-----END EC PRIVATE KEY-----\n\
";
const KEY_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgNFwgn8Kq6Cp+axfR\n\
86ykaibbP0bDI/3TqyS+YWI5q7uhRANCAAT/R1vKl5xLv3jKQErF1EoPoEcveF/m\n\
9GwbrRcPdp7KOfjMsOadbJXAGpPhKAnuNt0fCeBdmKlNDzLswnnB2rTg\n\
-----END PRIVATE KEY-----\n\
";
const KEY_ENCRYPTED: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgzCTThEYNKJgICCAAw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEED6dcKJeUhLXRk4NYGMLeYUEgZCf\n\
JY6ckNsoSwrPxSPusV4zsJioNh3eABV2z48iaswHHdTKoLKHZfFIEQYbKX8/PA5w\n\
XeyGKM3VCzxXU0jJnwBWdFK/k4WW0PYxmRHAoHNyZBX5ULFcSdtO5dTXYlPmXYYo\n\
JgiouwsP+Nzy+7yZVjYPd3g0En52VULMaby5m2HJFYizbUlFjU4Rb7vT1owoj4o=\n\
-----END ENCRYPTED PRIVATE KEY-----\n\
";
const KEY_ENCRYPTED_OLD: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
Proc-Type: 4,ENCRYPTED\n\
DEK-Info: AES-128-CBC,BA71104EC0855915D44DF5DD181ABF57\n\
\n\
rEm4Iw9gxu4ik/O8ynklKyw7n8H5fy+U3bNcUUcfeouQJpBWmjwaPxVkG67sFiLi\n\
hMhcikgLzT5uvlnYUJQQQPaXhlCySpTI59JFkZDO6G7kmZDzE42LRpzDhS7sYkNi\n\
2BS7cvi6/KsqfW10xuTjoBg9fT+eMkqeGX2ESeGthEE=\n\
-----END EC PRIVATE KEY-----\n\
";
const KEY_OTHER: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIBiEUFwhIwY/StgOZ4nt6RbUE7cnFdbBwj7TDwyYaYvEoAoGCCqGSM49\n\
AwEHoUQDQgAEO6LHyNhXXEthDdj/zCSiRG1o28zRSGLKue5U8d1HL1doPDKUOuEF\n\
Y2GexXzEVzhTiCLTRitfWswB042gorY/yA==\n\
-----END EC PRIVATE KEY-----\n\
";
const CERT_P521: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBtzCCAV2gAwIBAgIBBDAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd0ZXN0LWNh\n\
MCAXDTI2MTEyMTEyMzUyMloYDzIxMjYxMDI4MTIzNTIyWjAPMQ0wCwYDVQQDDARw\n\
NTIxMIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQArxZFx2Rjvv9ljuaChK+9nZ7h\n\
LstHbpFcTyLOR/wKSuI5PtoH3VnZ20QRafiFSppsTw2ofpDbSGuzE2WtW/4iteIB\n\
d7jHjROI3YY37zepCl1aK4aEJC0PIuJLHUAPeO69A2LmOBOgYVboG/Tth23dFR6Y\n\
H/sCt7+Ax8N5bIge9605sVajYjBgMAkGA1UdEwQCMAAwEwYDVR0lBAwwCgYIKwYB\n\
BQUHAwIwHQYDVR0OBBYEFFCNlASNlAfN39W/dS8cdsz6fNvnMB8GA1UdIwQYMBaA\n\
FOiayFlvXZN6oRz0K1FvFpwy5kDVMAoGCCqGSM49BAMCA0gAMEUCIA9uu6Mb8bTo\n\
WGqfctY4CJmMeCqAY7uujkOw+caYCif5AiEAqVHabKI2mfrU6KCI3LCskjvJ3DyG\n\
vhiQnT6nUDFhEJw=\n\
-----END CERTIFICATE-----\n\
";
const KEY_P521: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MIHcAgEBBEIB7Wh0dPJxzpbIg2WT3ArdEiAh9bAPO5hEsehxM47mGo1DDxyJuR4a\n\
UID9X0uXjcEQFZn5gPwIkE0X8c/yv3Y25pigBwYFK4EEACOhgYkDgYYABACvFkXH\n\
ZGO+/2WO5oKEr72dnuEuy0dukVxPIs5H/ApK4jk+2gfdWdnbRBFp+IVKmmxPDah+\n\
kNtIa7MTZa1b/iK14gF3uMeNE4jdhjfvN6kKXVorhoQkLQ8i4ksdQA947r0DYuY4\n\
E6BhVugb9O2Hbd0VHpgf+wK3v4DHw3lsiB73rTmxVg==\n\
-----END EC PRIVATE KEY-----\n\
";
