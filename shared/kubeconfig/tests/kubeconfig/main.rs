//! Tests of the kubeconfig rules, one property each. "As kubectl" means: measured with client-go v0.34.3
//! (`clientcmd.BuildConfigFromFlags`, then `rest.TransportFor`) on the same texts.

// Clippy does not recognise the helpers below as test code.
#![allow(clippy::unwrap_used)]

mod cluster;
mod contexts;
mod files;
mod fixtures;
mod lookup;
mod secrecy;
mod text;
mod user;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::{
    self, Env,
    config::{Auth, ClusterConfig, Result, Trust},
    from_secret, in_cluster, load,
    secret::Data,
};

use self::fixtures::*;

const SECRET: &str = "agent/hub";

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
        Err(error) => {
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

/// Reads a kubeconfig that may refer to any file.
fn from_file(path: &Path) -> Result<ClusterConfig> {
    load_with(Some(path), None, &[], Path::new("/nowhere"))
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

fn pod(host: &str, port: &str) -> [(&'static str, OsString); 2] {
    [("KUBERNETES_SERVICE_HOST", host.into()), ("KUBERNETES_SERVICE_PORT", port.into())]
}

fn account(dir: &Dir) -> PathBuf {
    dir.write("sa/token", "sa-token\n");
    dir.write("sa/ca.crt", CA);
    dir.write("sa/namespace", "sa-namespace\n");
    dir.0.join("sa")
}
