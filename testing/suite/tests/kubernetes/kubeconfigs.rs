//! Valid and invalid kubeconfigs, and what kubectl and our programs make of each; the differences are on
//! purpose and say so.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    identity::{certificate, token},
    scene::Scene,
};

use Fate::{Answered, Refused, Unreachable};

/// What became of a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It cannot be used.
    Refused,
    /// It can, and a server answered, whatever it said.
    Answered,
    /// It can, but no server could be talked to.
    Unreachable,
}

/// What kubeconfigs are made of.
pub struct Parts {
    pub server: String,
    pub ca: String,
    other_ca: String,
    pub token: String,
    pub pair: (String, String),
    other_key: String,
}

impl Parts {
    pub fn of(scene: &Scene) -> Self {
        let user = "kubectl-and-us";
        // Not the add-on's own: the audit looks at that one.
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": user}});
        scene.managed.apply(&account, &scene.namespace);
        Self {
            server: format!("https://{}", scene.managed.address),
            ca: BASE64_STANDARD.encode(&scene.managed.ca),
            other_ca: BASE64_STANDARD.encode(&scene.hub.ca),
            token: token(&scene.managed, &scene.namespace, user),
            pair: certificate(&scene.managed, user, user),
            other_key: certificate(&scene.managed, user, user).1,
        }
    }

    fn config(&self, cluster: Value, user: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "users": [{"name": "c", "user": user}],
        })
    }

    fn cluster(&self) -> Value {
        json!({"server": self.server, "certificate-authority-data": self.ca})
    }

    /// The good cluster with changes.
    fn with_cluster(&self, changes: Value) -> String {
        self.config(merged(self.cluster(), changes), json!({"token": self.token})).to_string()
    }

    fn with_user(&self, user: Value) -> String {
        self.config(self.cluster(), user).to_string()
    }

    /// The good kubeconfig with changes at the top.
    fn with(&self, changes: Value) -> String {
        merged(self.config(self.cluster(), json!({"token": self.token})), changes).to_string()
    }

    fn good(&self) -> String {
        self.with(json!({}))
    }

    fn yaml(&self) -> String {
        let config: Value = serde_json::from_str(&self.good()).expect("JSON");
        serde_yaml::to_string(&config).expect("YAML")
    }
}

fn merged(mut object: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().into_iter().flatten() {
        if value.is_null() {
            object.as_object_mut().expect("an object").remove(key);
        } else {
            object[key] = value.clone();
        }
    }
    object
}

/// A name, the text, what kubectl makes of it, and what we make of it.
pub type Row = (&'static str, String, Fate, Fate);

/// All of them.
pub fn table(p: &Parts) -> Vec<Row> {
    [tokens(p), certificates(p), users(p), servers(p), authorities(p), texts(p), entries(p)]
        .concat()
}

fn same(name: &'static str, text: String, fate: Fate) -> Row {
    (name, text, fate, fate)
}

fn tokens(p: &Parts) -> Vec<Row> {
    let row = |name, user, fate| same(name, p.with_user(user), fate);
    let token = &p.token;
    vec![
        row("token", json!({"token": token}), Answered),
        row("worthless token", json!({"token": "worthless"}), Answered),
        row("token that is a number", json!({"token": 7}), Refused),
        row("token file", json!({"tokenFile": "token"}), Answered),
        row("token file before token", json!({"tokenFile": "token", "token": "x"}), Answered),
        row("no such token file", json!({"tokenFile": "none"}), Refused),
        row("a token instead", json!({"tokenFile": "none", "token": token}), Answered),
    ]
}

fn certificates(p: &Parts) -> Vec<Row> {
    let row = |name, user, fate| same(name, p.with_user(user), fate);
    let data = |text: &str| BASE64_STANDARD.encode(text);
    let (crt, key, other) = (data(&p.pair.0), data(&p.pair.1), data(&p.other_key));
    let pair =
        |crt: &str, key: &str| json!({"client-certificate-data": crt, "client-key-data": key});
    let files = |crt: &str, key: &str| json!({"client-certificate": crt, "client-key": key});
    vec![
        row("pair", pair(&crt, &key), Answered),
        row("pair of files", files("tls.crt", "tls.key"), Answered),
        row(
            "file and data",
            json!({"client-certificate": "tls.crt", "client-key-data": key}),
            Answered,
        ),
        row("both file and data", merged(pair(&crt, &key), files("tls.crt", "tls.key")), Refused),
        row("without a key", json!({"client-certificate-data": crt}), Refused),
        row("without a certificate", json!({"client-key-data": key, "token": p.token}), Answered),
        row("no such file", files("tls.crt", "none"), Refused),
        row("pair of two", pair(&crt, &other), Refused),
        row("not PEM", pair("eA==", &key), Refused),
        row("not base64", pair("?", &key), Refused),
    ]
}

fn users(p: &Parts) -> Vec<Row> {
    let row = |name, user, fate| same(name, p.with_user(user), fate);
    let token = &p.token;
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential", "status": {"token": token}});
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "echo", "args": [credential.to_string()]});
    let password = json!({"username": "a", "password": "b"});
    let all = json!({"token": token, "username": "a", "password": "b"});
    vec![
        row("token and password", all, Refused),
        row("groups without a user", json!({"token": token, "as-groups": ["g"]}), Refused),
        row("auth-provider", json!({"auth-provider": {"name": "gcp"}}), Refused),
        // No API server takes a password since Kubernetes 1.19.
        ("password", p.with_user(password), Answered, Refused),
        (
            "impersonation",
            p.with_user(json!({"token": token, "as": "somebody"})),
            Answered,
            Refused,
        ),
        // A sidecar starts no processes.
        ("exec", p.with_user(json!({"exec": exec})), Answered, Refused),
        // kubectl asks for a name and a password at the terminal.
        ("no user of that name", p.with(json!({"users": null})), Refused, Answered),
    ]
}

fn servers(p: &Parts) -> Vec<Row> {
    let row = |name, cluster, fate| same(name, p.with_cluster(cluster), fate);
    let server = |url: &str| json!({"server": url});
    let named = p.server.replace("//", "//a:b@");
    vec![
        row("nobody listens", server("https://127.0.0.1:9"), Unreachable),
        row("server without a scheme", server(&p.server.replace("https://", "")), Answered),
        row("server of another scheme", server("ftp://127.0.0.1"), Refused),
        row("server with a slash at the end", server(&format!("{}/", p.server)), Answered),
        row("another server name", json!({"tls-server-name": "kubernetes"}), Answered),
        row("wrong server name", json!({"tls-server-name": "example.com"}), Unreachable),
        row("proxy that is away", json!({"proxy-url": "http://127.0.0.1:9"}), Unreachable),
        row("proxy of another scheme", json!({"proxy-url": "ftp://127.0.0.1:9"}), Refused),
        // Nobody would know which of two identities counts.
        ("server with a user name", p.with_cluster(server(&named)), Answered, Refused),
    ]
}

fn authorities(p: &Parts) -> Vec<Row> {
    let row = |name, cluster, fate| same(name, p.with_cluster(cluster), fate);
    let file =
        |name: &str| json!({"certificate-authority": name, "certificate-authority-data": null});
    let data = |text: &str| json!({"certificate-authority-data": text});
    let insecure = json!({"insecure-skip-tls-verify": true});
    let without_authority =
        json!({"insecure-skip-tls-verify": true, "certificate-authority-data": null});
    vec![
        row("authority in a file", file("ca.crt"), Answered),
        row("no such authority file", file("none"), Refused),
        row("authority of another", data(&p.other_ca), Unreachable),
        row("authority that is none", data("eA=="), Refused),
        row("roots of the system", file(""), Unreachable),
        row("any certificate", without_authority, Answered),
        row("any certificate and an authority", insecure, Refused),
    ]
}

fn texts(p: &Parts) -> Vec<Row> {
    let yaml = p.yaml();
    let aliases = |count: usize| format!("x: &x y\nz: [{}]\n{yaml}", vec!["*x"; count].join(", "));
    let large = format!("{}{}", " ".repeat(1 << 20), p.good());
    vec![
        same("YAML", yaml.clone(), Answered),
        same("CRLF", yaml.replace('\n', "\r\n"), Answered),
        same("BOM", format!("\u{feff}{yaml}"), Answered),
        same("NUL", format!("{yaml}\0"), Refused),
        same("not a kubeconfig", "junk: [".to_owned(), Refused),
        same("a list", "[]".to_owned(), Refused),
        ("aliases", aliases(100), Answered, Refused),
        // What could cost more than a sidecar has.
        ("larger than 1 MiB", large, Answered, Refused),
        // What could hide a part that somebody believes to count.
        ("a second document", format!("{yaml}---\n{yaml}"), Answered, Refused),
        // kubectl then asks localhost:8080, which is never what a sidecar is for.
        ("empty", String::new(), Unreachable, Refused),
    ]
}

fn entries(p: &Parts) -> Vec<Row> {
    let row = |name, changes, fate| same(name, p.with(changes), fate);
    let twice = json!([{"name": "c", "user": {"token": p.token}}, {"name": "c", "user": {}}]);
    vec![
        row("fields that nobody knows", json!({"extra": {"a": [1]}, "preferences": {}}), Answered),
        row("without kind and version", json!({"kind": null, "apiVersion": null}), Answered),
        row("another kind", json!({"kind": "Pod"}), Refused),
        row("another version", json!({"apiVersion": "v2"}), Refused),
        row("a name twice", json!({"users": twice}), Refused),
        row("no context of that name", json!({"current-context": "x"}), Refused),
        // As with the empty one.
        ("no current context", p.with(json!({"current-context": null})), Unreachable, Refused),
        ("no cluster of that name", p.with(json!({"clusters": null})), Unreachable, Refused),
    ]
}
