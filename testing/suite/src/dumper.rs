//! The stage of hub-kubeconfig-dumper: a cluster with the Secret, the dumper's identity, and its directory for files.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use apiclient::resource::SECRETS;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    files,
    identity::{self, Data, hub_secret},
    real,
    relay::Relay,
    repository::objects,
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
};

pub const SECRET: &str = "hub-kubeconfig-secret";
const ACCOUNT: &str = "my-agent";

pub struct Stage {
    pub cluster: Arc<Cluster>,
    pub relay: Relay,
    pub namespace: String,
    pub directory: TempDir,
}

impl Stage {
    pub fn new(name: &str) -> Self {
        let cluster = if real() { Cluster::real("managed") } else { Cluster::embedded("managed") };
        let namespace = cluster.new_namespace(name);
        for manifest in rights() {
            cluster.apply(&manifest, &namespace);
        }
        let relay = Relay::to(&cluster.address);
        Self { cluster, relay, namespace, directory: TempDir::new().expect("a directory") }
    }

    /// Sets the stage with credentials in the Secret.
    pub fn with_secret(name: &str) -> (Self, Data) {
        let stage = Self::new(name);
        let data = stage.credentials();
        stage.put_secret(&data);
        (stage, data)
    }

    // --- the Secret ---

    /// Returns what OCM writes, with a new certificate each time.
    pub fn credentials(&self) -> Data {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::default().self_signed(&key).expect("a certificate");
        let pair = (certificate.pem(), key.serialize_pem());
        let mut data = hub_secret("hub.example.com:6443", &self.cluster.ca, &pair);
        data.insert("cluster-name".into(), b"cluster1".to_vec());
        data.insert("agent-name".into(), b"agent1".to_vec());
        data
    }

    pub fn put_secret(&self, data: &Data) {
        self.cluster.put_secret(&self.namespace, SECRET, data);
    }

    pub fn delete_secret(&self) {
        self.cluster.delete(&SECRETS.object(&self.namespace, SECRET));
    }

    // --- the files ---

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("spoke/hub-kubeconfig")
    }

    /// Checks that the files are exactly `data`, as one set.
    #[track_caller]
    pub fn shows(&self, data: &Data) {
        assert_eq!(set(&self.path()), *data);
    }

    // --- the dumper ---

    /// Writes the kubeconfig of its service account to a file.
    pub fn managed_kubeconfig(&self) -> PathBuf {
        let (cluster, relay) = (&self.cluster, &self.relay);
        let text = identity::kubeconfig_of_account(cluster, relay, &self.namespace, ACCOUNT);
        files::write(self.directory.path(), "managed.kubeconfig", &text)
    }

    /// Returns the program's command, as in its container.
    pub fn command(&self, port: u16) -> Command {
        let mut command = bare(&program("hub-kubeconfig-dumper"));
        self.arguments(&mut command, port);
        command
    }

    pub fn arguments(&self, command: &mut Command, port: u16) {
        command
            .arg("-kubeconfig")
            .arg(self.managed_kubeconfig())
            .arg("-hub-kubeconfig-dir")
            .arg(self.path())
            .args(["-metrics-port", &port.to_string()])
            .args(VERBOSE)
            .env("POD_NAMESPACE", &self.namespace);
    }

    pub fn start(&self, more: &[&str]) -> Sidecar {
        let port = free_port();
        let mut command = self.command(port);
        command.args(more);
        Sidecar::spawn(command, port)
    }

    /// Starts the dumper and waits until the files exist.
    pub fn start_ready(&self, more: &[&str]) -> Sidecar {
        let sidecar = self.start(more);
        sidecar.wait_for_code("/readyz", 200);
        sidecar
    }

    /// Runs the dumper with `-once`; returns the exit code and the log.
    pub fn once(&self, more: &[&str]) -> (Option<i32>, String) {
        let mut command = self.command(0);
        command.args(["-once", "-wait-timeout=0"]).args(more);
        let mut sidecar = Sidecar::spawn(command, 0);
        (sidecar.wait().code(), sidecar.log())
    }
}

/// Returns the files that are readable by their own paths.
pub fn set(path: &Path) -> Data {
    let entries = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("a name"));
    names
        .filter(|name| !name.starts_with(".."))
        .filter_map(|name| match fs::read(path.join(&name)) {
            Ok(content) => Some((name, content)),
            // A dangling symlink is not readable.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{name}: {error}"),
        })
        .collect()
}

/// Returns the number of generations, and all other names that begin with two dots.
pub fn hidden(path: &Path) -> (usize, Vec<String>) {
    let entries = fs::read_dir(path).expect("the directory").map(|e| e.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().into_string().expect("a name"));
    let names = names.filter(|name| name.starts_with("..")).collect::<Vec<_>>();
    let (generations, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with("..2"));
    (generations.len(), others)
}

/// Returns the component's rights, and the account that has them.
pub fn rights() -> Vec<Value> {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    vec![account, manifest("role"), manifest("rolebinding")]
}

/// Reads a manifest of the component.
pub fn manifest(name: &str) -> Value {
    let names = [("SECRET", SECRET), ("SERVICE-ACCOUNT", ACCOUNT), ("NAMESPACE", ACCOUNT)];
    objects(&format!("components/hub-kubeconfig-dumper/{name}.yaml"), &names).remove(0)
}
