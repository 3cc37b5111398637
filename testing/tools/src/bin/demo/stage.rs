//! A hub, a managed cluster and an add-on's pod. The only credential is a bootstrap kubeconfig.

use std::{path::PathBuf, process::Command, time::Duration};

use dev_apiserver::{Options, Request, SignerOptions};
use suite::{
    cluster::Cluster,
    ocm::{Bootstrap, Hub},
    relay::Relay,
    scene::{POD, Scene, manifests},
    sidecar::{Sidecar, bare, free_port, program},
    spoke::{self, BOOTSTRAP, SECRET, Spoke},
};
use tempfile::TempDir;
use tools::measure;

pub const CLUSTER: &str = "cluster1";
pub const AGENT_NAMESPACE: &str = "open-cluster-management-agent";
pub const ADDON_NAMESPACE: &str = "my-addon-system";
pub const LIFETIME: Duration = Duration::from_secs(30);
/// The period of the Lease and of the heartbeat; 60 s by default.
pub const PERIOD: Duration = Duration::from_secs(2);

/// All programs reach the hub through the scene's relay.
pub struct Stage {
    pub spoke: Spoke,
    pub scene: Scene,
}

impl Stage {
    pub fn set() -> Self {
        let signer = SignerOptions {
            lifetime: LIFETIME,
            backdate: Duration::ZERO,
            ..SignerOptions::default()
        };
        let options = Options { signer, ..Options::default() };
        let hub = Hub::on(Cluster::embedded_with("hub", options));
        let managed = Cluster::embedded("managed");
        let directory = || TempDir::new().expect("a temporary directory");
        let scene = Scene {
            hub_relay: Relay::to(&hub.cluster.address),
            managed_relay: Relay::to(&managed.address),
            hub: hub.cluster.clone(),
            managed: managed.clone(),
            cluster: CLUSTER.into(),
            namespace: ADDON_NAMESPACE.into(),
            directory: directory(),
        };
        let spoke = Spoke {
            hub_relay: Relay::to(&hub.cluster.address),
            managed_relay: Relay::to(&managed.address),
            hub,
            managed,
            cluster: CLUSTER.into(),
            how: Bootstrap::Manual,
            namespace: AGENT_NAMESPACE.into(),
            secret: SECRET.into(),
            bootstrap: BOOTSTRAP.into(),
            directory: directory(),
        };
        let stage = Self { spoke, scene };
        stage.furnish();
        stage
    }

    fn furnish(&self) {
        let Self { spoke, scene } = self;
        spoke.managed.create_namespace(AGENT_NAMESPACE);
        spoke.managed.create_namespace(ADDON_NAMESPACE);
        spoke::rights().iter().for_each(|right| spoke.managed.apply(right, AGENT_NAMESPACE));
        manifests("managed").iter().for_each(|right| scene.managed.apply(right, ADDON_NAMESPACE));
        scene.create_pod(POD);
        scene.set_ready(true);
        let address = scene.hub_relay.address.to_string();
        spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, Bootstrap::Manual));
    }

    /// The directory that the dumper writes to.
    pub fn directory(&self) -> PathBuf {
        self.spoke.directory.path().join("hub-kubeconfig")
    }

    // --- the programs, as manifests/csr-bootstrapper/agent.yaml and the components start them ---

    pub fn bootstrapper(&self) -> Sidecar {
        self.spoke.start_as(|command| {
            command.arg("-hub-kubeconfig-dir").arg(self.directory()).args(["-v", "0"]);
        })
    }

    pub fn dumper(&self) -> Sidecar {
        let mut command = bare(&program("hub-kubeconfig-dumper"));
        command
            .arg("-kubeconfig")
            .arg(self.spoke.managed_kubeconfig())
            .arg("-hub-kubeconfig-dir")
            .arg(self.directory())
            .env("POD_NAMESPACE", AGENT_NAMESPACE);
        listening(command)
    }

    /// Uses the agent's Secret, because the hub does not know the add-on yet.
    pub fn lease_sidecar(&self) -> Sidecar {
        let port = free_port();
        let mut command = self.scene.command(port);
        // The last of repeated flags wins.
        command
            .args(["-lease-duration", &PERIOD.as_secs().to_string(), "-v", "0"])
            .args(["-lease-target", "both"])
            .args(["-hub-kubeconfig-secret", SECRET])
            .env("WATCH_NAMESPACE", AGENT_NAMESPACE);
        Sidecar::spawn(command, port)
    }

    // --- requests to the servers ---

    /// Returns the renewals of the add-on's Lease.
    pub fn renewals(&self) -> Vec<Request> {
        let mut requests = measure::requests(&self.scene);
        requests.retain(measure::is_renewal);
        requests
    }

    /// Returns csr-bootstrapper's requests to the hub.
    pub fn asked(&self) -> Vec<Request> {
        let mut requests = self.spoke.hub.cluster.server().requests();
        requests.retain(|request| request.user_agent.starts_with("csr-bootstrapper"));
        requests
    }

    /// Returns the writes of the Secret with the hub's credentials.
    pub fn saved(&self) -> Vec<Request> {
        let mut requests = self.spoke.managed.server().requests();
        requests.retain(|request| {
            let named = request.name == SECRET || request.json()["metadata"]["name"] == SECRET;
            let write = matches!(request.verb.as_str(), "create" | "update" | "patch");
            request.resource == "secrets" && named && write && request.code / 100 == 2
        });
        requests
    }
}

fn listening(mut command: Command) -> Sidecar {
    let port = free_port();
    command.args(["-metrics-host", "127.0.0.1", "-metrics-port", &port.to_string()]);
    Sidecar::spawn(command, port)
}
