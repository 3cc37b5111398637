//! The stage of a cluster that joins a hub: its namespace with only the rights of the manifests, the relays to both
//! servers, the bootstrap credentials, and their results.

pub mod go;
pub mod klusterlet;

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, SystemTime},
};

use apiclient::{
    client::{Client, Reload, Timeouts},
    resource::{LEASES, SECRETS},
    time::micro_time,
};
use dev_apiserver::Issued;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::{Cluster, resource},
    eventually, files,
    identity::{self, Data},
    listing::list,
    ocm::{AUTO, Bootstrap, Hub, PREFIX},
    real,
    relay::Relay,
    repository::objects,
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
    within,
};

pub const SECRET: &str = "hub-kubeconfig-secret";
pub const PENDING: &str = "hub-kubeconfig-secret-pending";
pub const BOOTSTRAP: &str = "bootstrap-hub-kubeconfig";
pub const AGENT: &str = "agent1";

// Log lines: some tests wait for them, others rule them out.

/// The session with the hub ends.
pub const EXPIRED: &str = "the certificate for the hub has expired";
/// The hub at a new address refuses the certificate of the old one.
pub const UNKNOWN: &str = "the hub at the new address does not know this agent";

pub struct Spoke {
    pub hub: Arc<Hub>,
    pub managed: Arc<Cluster>,
    /// The relays to both servers.
    pub hub_relay: Relay,
    pub managed_relay: Relay,
    /// The cluster's name on the hub.
    pub cluster: String,
    /// The identity with which it requests to join.
    pub how: Bootstrap,
    /// The namespace of the agent on the managed cluster.
    pub namespace: String,
    /// The names of its Secrets.
    pub secret: String,
    pub bootstrap: String,
    pub directory: TempDir,
}

impl Spoke {
    /// Sets the stage for a cluster that a person must accept, with a bootstrap Secret; its name begins with `name`.
    pub fn new(name: &str) -> Self {
        Self::joining(Hub::new(), name, Bootstrap::Manual)
    }

    /// Sets the stage for a cluster that the hub accepts automatically.
    pub fn auto(name: &str) -> Self {
        Self::joining(Hub::new(), name, Bootstrap::Auto)
    }

    /// Sets the stage on the caller's hub.
    pub fn joining(hub: Arc<Hub>, name: &str, how: Bootstrap) -> Self {
        let managed = if real() { Cluster::real("managed") } else { Cluster::embedded("managed") };
        Self::between(hub, managed, name, how)
    }

    /// Sets the stage on the caller's servers.
    pub fn between(hub: Arc<Hub>, managed: Arc<Cluster>, name: &str, how: Bootstrap) -> Self {
        let namespace = managed.new_namespace(name);
        let spoke = Self::bare(hub, managed, namespace, how);
        for manifest in rights() {
            spoke.managed.apply(&manifest, &spoke.namespace);
        }
        spoke.allow_cluster_scoped(&spoke.managed, &cluster_rights());
        spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
        spoke
    }

    /// The cluster is named after its new namespace, so that its name is new too.
    pub(crate) fn bare(
        hub: Arc<Hub>,
        managed: Arc<Cluster>,
        namespace: String,
        how: Bootstrap,
    ) -> Self {
        let prefix = if how == Bootstrap::Auto { AUTO } else { "" };
        Self {
            cluster: format!("{prefix}{namespace}"),
            how,
            secret: SECRET.into(),
            bootstrap: BOOTSTRAP.into(),
            hub_relay: Relay::to(&hub.cluster.address),
            managed_relay: Relay::to(&managed.address),
            directory: TempDir::new().expect("a temporary directory"),
            namespace,
            hub,
            managed,
        }
    }

    /// Grants the agent the cluster-scoped rights among these manifests.
    pub(crate) fn allow_cluster_scoped(&self, cluster: &Cluster, manifests: &[Value]) {
        let is_cluster_scoped =
            |it: &&Value| it["kind"].as_str().is_some_and(|kind| kind.starts_with("Cluster"));
        for mut manifest in manifests.iter().filter(is_cluster_scoped).cloned() {
            let name = manifest["metadata"]["name"].as_str().expect("a name").to_owned();
            let name = name.replace(&account(), &self.namespace);
            manifest["metadata"]["name"] = name.as_str().into();
            let kind = if manifest["kind"] == "ClusterRole" {
                let rules = manifest["rules"].as_array_mut().expect("rules");
                rules.retain(|rule| rule["resources"][0] != "leases");
                ("clusterroles", "ClusterRole")
            } else {
                manifest["roleRef"]["name"] = name.as_str().into();
                manifest["subjects"][0]["namespace"] = self.namespace.as_str().into();
                ("clusterrolebindings", "ClusterRoleBinding")
            };
            let all = resource("rbac.authorization.k8s.io", kind.0, kind.1);
            cluster.create(&all.everywhere(), &manifest);
        }
    }

    /// Creates a namespace for add-ons, with the agent's rights on their Leases and Secrets there.
    pub fn addon_namespace(&self) -> String {
        let namespace = self.managed.new_namespace(&format!("{}-addons", self.namespace));
        self.allow_addons(&self.managed, &namespace);
        namespace
    }

    /// Grants the agent its rights in a namespace of add-ons.
    pub fn allow_addons(&self, cluster: &Cluster, namespace: &str) {
        for mut manifest in cluster_rights().into_iter().chain(addon_rights()) {
            // As a Role, because other tests on the real control plane have add-ons too.
            let kind = manifest["kind"].as_str().expect("a kind").replacen("Cluster", "", 1);
            manifest["kind"] = kind.into();
            for subject in manifest["subjects"].as_array_mut().into_iter().flatten() {
                subject["namespace"] = self.namespace.as_str().into();
            }
            if manifest["kind"] == "RoleBinding" {
                manifest["roleRef"]["kind"] = "Role".into();
            }
            cluster.apply(&manifest, namespace);
        }
    }

    /// Installs an add-on whose agent has just renewed its Lease, and provides the API server certificate that its
    /// manager wants.
    pub fn register_addon(&self, namespace: &str, name: &str) {
        let lease = json!({
            "apiVersion": LEASES.api_version(), "kind": "Lease", "metadata": {"name": name},
            "spec": {"renewTime": micro_time(SystemTime::now())},
        });
        self.managed.create(&LEASES.collection(namespace), &lease);
        self.hub.add_addon(&self.cluster, name, namespace);
        let registrations = json!([{"signerName": "kubernetes.io/kube-apiserver-client"}]);
        self.hub.set_addon_status(&self.cluster, name, &json!({"registrations": registrations}));
        self.hub.approve_next(&self.cluster);
    }

    /// Waits until the hub shows the Lease and the certificate of such an add-on.
    #[track_caller]
    pub fn wait_until_registered(&self, name: &str) {
        // The Go agent checks every 30 s.
        within(60, &format!("the hub knows all of {name}"), || {
            let addon = self.hub.addon(&self.cluster, name)?;
            let conditions = addon["status"]["conditions"].to_string();
            let told = ["ManagedClusterAddOnLeaseUpdated", "ClientCertificateUpdated"];
            told.iter().all(|reason| conditions.contains(reason)).then_some(())
        });
    }

    // --- the bootstrap credentials ---

    /// Returns a bootstrap kubeconfig with a new token, through the relay.
    pub fn bootstrap_kubeconfig(&self) -> String {
        self.hub.bootstrap_kubeconfig(&self.hub_relay.address.to_string(), self.how)
    }

    /// Puts a kubeconfig into the bootstrap Secret.
    pub fn put_bootstrap(&self, kubeconfig: &str) {
        let data = [("kubeconfig".to_owned(), kubeconfig.as_bytes().to_vec())].into();
        self.put_secret(&self.bootstrap, &data);
    }

    /// Writes a bootstrap kubeconfig to a file.
    pub fn write_bootstrap(&self, kubeconfig: &str) -> PathBuf {
        self.write("bootstrap.kubeconfig", kubeconfig)
    }

    // --- Secrets ---

    pub fn put_secret(&self, name: &str, data: &Data) {
        self.managed.put_secret(&self.namespace, name, data);
    }

    /// Returns the decoded data of a Secret; None if it does not exist or is empty.
    pub fn read_secret(&self, name: &str) -> Option<Data> {
        self.managed.read_secret(&self.namespace, name).filter(|data| !data.is_empty())
    }

    pub fn delete_secret(&self, name: &str) {
        self.managed.delete(&SECRETS.object(&self.namespace, name));
    }

    /// Returns the content of the Secret with the hub's credentials.
    pub fn credential(&self) -> Option<Data> {
        self.read_secret(&self.secret)
    }

    /// Returns what is stored while a CSR waits for approval.
    pub fn pending(&self) -> Option<Data> {
        self.stored(false)
    }

    /// Returns what is stored for add-ons.
    pub fn stored_for_addons(&self) -> Option<Data> {
        self.stored(true)
    }

    /// Returns what is stored for add-ons, whose keys have a `_`, or for the cluster.
    fn stored(&self, for_addons: bool) -> Option<Data> {
        let mut data = self.read_secret(PENDING)?;
        data.retain(|key, _| key.contains('_') == for_addons);
        Some(data).filter(|data| !data.is_empty())
    }

    /// Returns the certificate in the Secret.
    pub fn certificate(&self) -> Option<Issued> {
        Issued::of(self.credential()?.get("tls.crt")?)
    }

    /// Waits until the Secret holds a certificate of this cluster's agent.
    #[track_caller]
    pub fn wait_for_certificate(&self) -> Issued {
        let certificate = eventually("the Secret holds a certificate", || self.certificate());
        assert_eq!(certificate.bearer.common_name, self.user());
        certificate
    }

    /// Returns the agent's user on the hub.
    pub fn user(&self) -> String {
        format!("{PREFIX}{}:{AGENT}", self.cluster)
    }

    /// Returns a client for the hub with the Secret's credentials, like any consumer of it.
    pub fn as_agent(&self) -> Client {
        let access = kubeconfig::from_file(&self.credential_files());
        let timing = Timeouts::with_request(Duration::from_secs(10));
        Client::new("hub", access.expect("the kubeconfig"), Reload::Never, timing)
            .expect("a client")
    }

    /// Writes the Secret's data to files, like the dumper; returns the kubeconfig's path.
    pub fn credential_files(&self) -> PathBuf {
        for (key, value) in self.credential().expect("the Secret") {
            fs::write(self.directory.path().join(key), value).expect("the file is written");
        }
        self.directory.path().join("kubeconfig")
    }

    // --- Events ---

    /// Returns the Events in the namespace, of both groups.
    pub fn events(&self) -> Vec<Value> {
        let events = resource("", "events", "Event");
        let all = list(&self.managed.client, &events.collection(&self.namespace), "");
        all.expect("the Events are listed")
    }

    /// Returns the number of Events with this reason.
    pub fn count_events(&self, reason: &str) -> usize {
        self.events().iter().filter(|event| event["reason"] == reason).count()
    }

    // --- the agent ---

    /// Writes a file to the stage's directory.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        files::write(self.directory.path(), name, content)
    }

    /// Writes the kubeconfig of the agent's service account for the managed cluster to a file.
    pub fn managed_kubeconfig(&self) -> PathBuf {
        let (cluster, relay) = (&self.managed, &self.managed_relay);
        let text = identity::kubeconfig_of_account(cluster, relay, &self.namespace, &account());
        self.write("managed.kubeconfig", &text)
    }

    /// Returns the program's command as in its container, without bootstrap credentials.
    pub fn command(&self, port: u16) -> Command {
        let mut command = bare(&program("csr-bootstrapper"));
        command
            .arg("-kubeconfig")
            .arg(self.managed_kubeconfig())
            .args(["-cluster-name", &self.cluster, "-agent-id", AGENT])
            .args(["-disable-leader-election", "-cluster-healthcheck-period", "1s"])
            .args(["-metrics-port", &port.to_string()])
            .args(VERBOSE)
            .env("POD_NAMESPACE", &self.namespace);
        command
    }

    /// Starts it with the bootstrap Secret and `more` flags.
    pub fn start(&self, more: &[&str]) -> Sidecar {
        self.start_as(|command| {
            command.args(["-bootstrap-kubeconfig-secret", &self.bootstrap]).args(more);
        })
    }

    /// Starts it with a bootstrap file and `more` flags.
    pub fn start_with_file(&self, more: &[&str]) -> Sidecar {
        let file = self.write_bootstrap(&self.bootstrap_kubeconfig());
        self.start_as(|command| {
            command.arg("-bootstrap-kubeconfig").arg(file).args(more);
        })
    }

    /// Starts it after `change` to its command, which has no bootstrap credentials yet.
    pub fn start_as(&self, change: impl FnOnce(&mut Command)) -> Sidecar {
        let port = free_port();
        let mut command = self.command(port);
        change(&mut command);
        Sidecar::spawn(command, port)
    }

    /// Starts hub-kubeconfig-dumper with the agent's Secret, as in its pod; returns it and the path that others read.
    pub fn start_dumper(&self, flags: &[&str]) -> (Sidecar, PathBuf) {
        let (port, files) = (free_port(), self.directory.path().join("files"));
        let mut command = bare(&program("hub-kubeconfig-dumper"));
        command
            .arg("-kubeconfig")
            .arg(self.managed_kubeconfig())
            .arg("-hub-kubeconfig-dir")
            .arg(&files)
            .args(["-namespace", &self.namespace, "-hub-kubeconfig-secret", &self.secret])
            .args(["-metrics-host", "127.0.0.1", "-metrics-port", &port.to_string()])
            .args(flags);
        (Sidecar::spawn(command, port), files.join("kubeconfig"))
    }
}

/// Returns the objects of manifests/csr-bootstrapper, with components, that grant rights on the managed cluster; and
/// the right to create Secrets, which the klusterlet operator grants.
pub fn rights() -> Vec<Value> {
    let mut all = shipped_rights();
    all.extend(manifests(&["leader-election/role", "leader-election/rolebinding"]));
    let name = "csr-bootstrapper-create-secrets";
    let rbac = "rbac.authorization.k8s.io";
    all.push(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}],
    }));
    let mut binding = manifests(&["rolebinding"]).remove(0);
    binding["metadata"]["name"] = name.into();
    binding["roleRef"]["name"] = name.into();
    all.push(binding);
    all
}

/// Returns what manifests/csr-bootstrapper alone grants in its namespace.
fn shipped_rights() -> Vec<Value> {
    manifests(&["serviceaccount", "role", "rolebinding"])
}

/// Returns the empty Secrets that manifests/csr-bootstrapper/secrets ships.
pub fn shipped_secrets() -> Vec<Value> {
    manifests(&["secrets/secrets"])
}

/// Returns the rights outside its namespace, including the components'.
pub fn cluster_rights() -> Vec<Value> {
    let namespaces = ["managed-namespaces/clusterrole", "managed-namespaces/clusterrolebinding"];
    manifests(&[["clusterrole", "clusterrolebinding"], namespaces].concat())
}

/// Returns the rights on the credentials of add-ons.
pub fn addon_rights() -> Vec<Value> {
    manifests(&["addons/role", "addons/rolebinding"])
}

fn manifests(names: &[&str]) -> Vec<Value> {
    let of = |name: &&str| objects(&format!("csr-bootstrapper/{name}.yaml"), &[]);
    names.iter().flat_map(of).collect()
}

/// Returns the service account of the manifests.
fn account() -> String {
    shipped_rights()[0]["metadata"]["name"].as_str().expect("a name").to_owned()
}
