//! The stage of a scenario: a hub, a managed cluster, an add-on's pod in it, and the sidecar's identity with only the
//! rights of the manifests.

use std::{path::PathBuf, process::Command, sync::Arc};

use apiclient::{
    resource::{LEASES, PODS, SECRETS, Target},
    time::parse_micro_time,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    eventually, files,
    identity::{self, Data, hub_secret},
    pause, real,
    relay::Relay,
    repository::objects,
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
    throughout,
};

/// The names of the example in manifests/.
pub const ADDON: &str = "my-addon";
pub const SECRET: &str = "my-addon-hub-kubeconfig";
pub const POD: &str = "my-addon-0";
const GROUP: &str = "system:open-cluster-management:cluster:cluster1:addon:my-addon";

pub struct Scene {
    pub hub: Arc<Cluster>,
    pub managed: Arc<Cluster>,
    /// The relays to both servers.
    pub hub_relay: Relay,
    pub managed_relay: Relay,
    /// The namespace of the Lease on the hub, in place of the cluster's own.
    pub cluster: String,
    /// The namespace of the add-on on the managed cluster.
    pub namespace: String,
    pub directory: TempDir,
}

impl Scene {
    /// Sets the stage: namespaces, rights, a Ready pod and a Secret with the hub's credentials.
    pub fn new(name: &str) -> Self {
        let (hub, managed) = if real() {
            (Cluster::real("hub"), Cluster::real("managed"))
        } else {
            (Cluster::embedded("hub"), Cluster::embedded("managed"))
        };
        Self::on(hub, managed, name)
    }

    /// Sets the stage on the caller's servers.
    pub fn on(hub: Arc<Cluster>, managed: Arc<Cluster>, name: &str) -> Self {
        let (cluster, namespace) = (hub.new_namespace(name), managed.new_namespace(name));
        Self::within(hub, managed, cluster, namespace)
    }

    /// Sets the stage in existing namespaces.
    pub fn within(
        hub: Arc<Cluster>,
        managed: Arc<Cluster>,
        cluster: String,
        namespace: String,
    ) -> Self {
        let scene = Self {
            cluster,
            namespace,
            hub_relay: Relay::to(&hub.address),
            managed_relay: Relay::to(&managed.address),
            directory: TempDir::new().expect("a temporary directory"),
            hub,
            managed,
        };
        for manifest in manifests("managed") {
            scene.managed.apply(&manifest, &scene.namespace);
        }
        for manifest in manifests("hub") {
            scene.hub.apply(&manifest, &scene.cluster);
        }
        scene.create_pod(POD);
        scene.set_ready(true);
        scene.put_secret(&scene.new_credentials());
        scene
    }

    // --- the hub's credentials ---

    /// Returns new credentials for the hub, with a new certificate each time.
    pub fn new_credentials(&self) -> Data {
        self.credentials_for(&self.hub, &self.hub_relay.address.to_string())
    }

    pub fn credentials_for(&self, hub: &Cluster, address: &str) -> Data {
        let pair = identity::certificate(hub, &self.hub_user(), GROUP);
        hub_secret(address, &hub.ca, &pair)
    }

    /// Returns the sidecar's user on the hub.
    pub fn hub_user(&self) -> String {
        format!("{GROUP}:agent:{}", self.cluster)
    }

    pub fn put_secret(&self, data: &Data) {
        self.managed.put_secret(&self.namespace, SECRET, data);
    }

    pub fn delete_secret(&self) {
        self.managed.delete(&SECRETS.object(&self.namespace, SECRET));
    }

    // --- the pod ---

    pub fn create_pod(&self, name: &str) {
        let container = |name: &str| json!({"name": name, "image": "example.com/none:1"});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"serviceAccountName": ADDON, "containers": [container("app"), container("lease")]},
        });
        self.managed.create(&PODS.collection(&self.namespace), &pod);
    }

    /// Sets the Ready condition of the pod.
    pub fn set_ready(&self, ready: bool) {
        let status = if ready { "True" } else { "False" };
        self.set_pod_status(&json!({"conditions": [{"type": "Ready", "status": status}]}));
    }

    pub fn set_pod_status(&self, status: &Value) {
        let target = Target { subresource: Some("status"), ..PODS.object(&self.namespace, POD) };
        self.managed.merge(&target, &json!({"status": status}));
    }

    /// Returns the pod's uid, which changes with every pod of the name.
    pub fn pod_uid(&self) -> Option<String> {
        let pod = self.managed.get(&PODS.object(&self.namespace, POD))?;
        Some(pod["metadata"]["uid"].as_str()?.to_owned())
    }

    pub fn delete_pod(&self) {
        self.managed.delete(&PODS.object(&self.namespace, POD));
    }

    // --- the Leases ---

    /// Returns the Lease on the hub.
    pub fn lease(&self) -> Option<Value> {
        self.hub.get(&self.hub_lease())
    }

    pub fn hub_lease(&self) -> Target<'_> {
        LEASES.object(&self.cluster, ADDON)
    }

    /// Returns the Lease on the managed cluster.
    pub fn managed_lease(&self) -> Option<Value> {
        self.managed.get(&LEASES.object(&self.namespace, ADDON))
    }

    /// Waits for `times` renewals of the Lease on the hub, from now on.
    #[track_caller]
    pub fn wait_for_renewals(&self, times: usize) {
        let mut last = renew_time(self.lease().as_ref());
        for _ in 0..times {
            last = eventually("the Lease is renewed", || {
                renew_time(self.lease().as_ref()).filter(|now| last.as_ref() != Some(now))
            })
            .into();
        }
        // The server's answer may still be on its way.
        pause(100);
    }

    /// Checks that the Lease on the hub stays unchanged, or absent.
    #[track_caller]
    pub fn ages(&self, milliseconds: u64) {
        // A renewal may still be on its way.
        pause(100);
        let before = self.lease();
        throughout(milliseconds, "the Lease ages", || self.lease() == before);
    }

    // --- additional rights, with the manifests' Roles ---

    /// Creates a service account on the hub with the add-on's rights, for tokens.
    pub fn create_hub_account(&self) {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ADDON}});
        self.hub.apply(&account, &self.cluster);
        let mut binding = manifests("hub")
            .into_iter()
            .find(|manifest| manifest["kind"] == "RoleBinding")
            .expect("a RoleBinding on the hub");
        binding["metadata"]["name"] = json!("account");
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": ADDON}]);
        self.hub.apply(&binding, &self.cluster);
    }

    /// Requests a token of that account.
    pub fn hub_token(&self) -> String {
        identity::token(&self.hub, &self.cluster, ADDON)
    }

    /// Returns the data of a Secret whose kubeconfig has a token.
    pub fn token_secret(&self, token: &str) -> Data {
        let kubeconfig = self.hub_kubeconfig(&json!({"token": token}));
        [("kubeconfig".to_owned(), kubeconfig.into_bytes())].into()
    }

    /// Returns a kubeconfig for the hub.
    pub fn hub_kubeconfig(&self, user: &Value) -> String {
        let address = self.hub_relay.address.to_string();
        identity::kubeconfig(&address, &self.hub.ca, user).to_string()
    }

    /// Writes a file to the scene's directory.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        files::write(self.directory.path(), name, content)
    }

    // --- the sidecar ---

    /// Writes the kubeconfig of the sidecar's service account for the managed cluster to a file.
    pub fn managed_kubeconfig(&self) -> PathBuf {
        self.managed_kubeconfig_by(&self.managed_relay, "managed.kubeconfig")
    }

    /// Writes the same through another relay.
    pub fn managed_kubeconfig_by(&self, relay: &Relay, name: &str) -> PathBuf {
        let text = identity::kubeconfig_of_account(&self.managed, relay, &self.namespace, ADDON);
        self.write(name, &text)
    }

    /// Returns the program's command as in its container, with a period of 1 s; more flags may follow.
    pub fn command(&self, port: u16) -> Command {
        let mut command = self.bare_command();
        command
            .args(["-lease-duration", "1", "-startup-delay", "0"])
            .args(["-metrics-port", &port.to_string()])
            .args(VERBOSE)
            .args(["-lease-name", ADDON, "-lease-namespace", &self.cluster])
            .args(["-hub-kubeconfig-secret", SECRET])
            .env("POD_NAME", POD);
        command
    }

    /// Returns the program's command with only the path to its local cluster.
    pub fn bare_command(&self) -> Command {
        let mut command = bare(&program("addon-lease-controller"));
        command
            .arg("-kubeconfig")
            .arg(self.managed_kubeconfig())
            .env("POD_NAMESPACE", &self.namespace);
        command
    }

    /// Starts the sidecar with `more` flags.
    pub fn start(&self, more: &[&str]) -> Sidecar {
        self.start_as(|command| {
            command.args(more);
        })
    }

    /// Starts the sidecar after `change` to its command.
    pub fn start_as(&self, change: impl FnOnce(&mut Command)) -> Sidecar {
        let port = free_port();
        let mut command = self.command(port);
        change(&mut command);
        Sidecar::spawn(command, port)
    }

    /// Starts the sidecar without settings for the hub: it only keeps a Lease on its local cluster.
    pub fn start_managed(&self, more: &[&str]) -> Sidecar {
        let port = free_port();
        let mut command = self.bare_command();
        command
            .args(["-lease-duration", "1", "-startup-delay", "0"])
            .args(["-metrics-port", &port.to_string(), "-lease-name", ADDON])
            .args(VERBOSE)
            .args(more)
            .env("POD_NAME", POD);
        Sidecar::spawn(command, port)
    }
}

/// Returns `spec.renewTime` as written.
pub fn renew_time(lease: Option<&Value>) -> Option<String> {
    let time = lease?["spec"]["renewTime"].as_str()?;
    assert!(parse_micro_time(time).is_some(), "{time} is a MicroTime");
    Some(time.to_owned())
}

/// Returns the rights of the manifests on "managed" or "hub", and the account that has them.
pub fn manifests(part: &str) -> Vec<Value> {
    let component = "components/addon-lease-controller";
    let base = "addon-lease-controller";
    let files = match part {
        "hub" => vec![format!("{base}/hub/role.yaml"), format!("{base}/hub/rolebinding.yaml")],
        _ => vec![
            format!("{component}/role.yaml"),
            format!("{component}/rolebinding.yaml"),
            format!("{base}/managed/hub-secret.yaml"),
            format!("{base}/managed/leader-election.yaml"),
        ],
    };
    let names = [("ADDON", ADDON), ("SERVICE-ACCOUNT", ADDON), ("NAMESPACE", ADDON)];
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ADDON}});
    let account = (part == "managed").then_some(account);
    account.into_iter().chain(files.iter().flat_map(|file| objects(file, &names))).collect()
}
