//! The stage of hosted mode: the agent and its Secrets are on the management cluster, and the spoke is another cluster.
//! Both grant only the rights of csr-bootstrapper-hosted.

use std::{path::Path, process::Command, sync::Arc};

use serde_json::Value;

use crate::{
    cluster::Cluster,
    identity,
    ocm::{Bootstrap, Hub},
    real,
    relay::Relay,
    repository::objects,
    sidecar::Sidecar,
    spoke::{Spoke, addon_rights, cluster_rights, rights},
};

pub struct Hosted {
    /// The hub, and the management cluster as the managed one of [`Spoke`].
    pub stage: Spoke,
    pub spoke: Arc<Cluster>,
    /// The relay to the spoke.
    pub way: Relay,
}

impl Hosted {
    /// Sets the stage for a cluster that the hub accepts automatically. On the real control plane, the hub's server is
    /// also the management cluster.
    pub fn new(name: &str) -> Self {
        let hub = Hub::new();
        let (management, spoke) = match real() {
            true => (hub.cluster.clone(), Cluster::real("managed")),
            false => (strict("management"), strict("spoke")),
        };
        let namespace = management.new_namespace(name);
        let stage = Spoke::bare(hub, management, namespace, Bootstrap::Auto);
        for manifest in left("") {
            stage.managed.apply(&manifest, &stage.namespace);
        }
        stage.put_bootstrap(&stage.bootstrap_kubeconfig());
        let way = Relay::to(&spoke.address);
        let hosted = Self { stage, spoke, way };
        hosted.spoke.create_namespace(&hosted.stage.namespace);
        hosted.allow(&hosted.spoke);
        hosted
    }

    /// Grants the agent its rights on a spoke that has its namespace.
    pub fn allow(&self, spoke: &Cluster) {
        let all = left("spoke");
        let is_bound = |manifest: &&Value| manifest["kind"] == "ServiceAccount";
        for account in all.iter().filter(is_bound) {
            spoke.apply(account, &self.stage.namespace);
        }
        self.stage.allow_cluster_scoped(spoke, &all);
    }

    /// Creates a namespace for add-ons on both clusters, with the agent's rights there.
    pub fn addon_namespace(&self) -> String {
        let namespace =
            self.stage.managed.new_namespace(&format!("{}-addons", self.stage.namespace));
        self.spoke.create_namespace(&namespace);
        self.stage.allow_addons(&self.spoke, &namespace);
        for mut manifest in hosted_addon_rights() {
            for subject in manifest["subjects"].as_array_mut().into_iter().flatten() {
                subject["namespace"] = self.stage.namespace.as_str().into();
            }
            self.stage.managed.apply(&manifest, &namespace);
        }
        namespace
    }

    /// Returns the kubeconfig of the agent's service account for this spoke, through this relay.
    pub fn kubeconfig(&self, spoke: &Cluster, way: &Relay) -> String {
        let account = left("spoke")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        identity::kubeconfig_of_account(spoke, way, &self.stage.namespace, &account)
    }

    /// Starts the agent with this kubeconfig of the spoke and `more` flags.
    pub fn start_with(&self, kubeconfig: &Path, more: &[&str]) -> Sidecar {
        self.stage.start_as(|command: &mut Command| {
            command.args(["-bootstrap-kubeconfig-secret", &self.stage.bootstrap]).args(more);
            command.arg("-spoke-kubeconfig").arg(kubeconfig);
        })
    }

    /// Starts the agent with a kubeconfig for the stage's spoke, and `more` flags.
    pub fn start(&self, more: &[&str]) -> Sidecar {
        let text = self.kubeconfig(&self.spoke, &self.way);
        self.start_with(&self.stage.write("spoke.kubeconfig", &text), more)
    }
}

/// Starts a server that enforces RBAC.
fn strict(name: &str) -> Arc<Cluster> {
    let cluster = Cluster::embedded(name);
    cluster.server().enforce_rbac();
    cluster
}

/// Returns the rights in manifests/csr-bootstrapper that an overlay does not remove.
pub fn left(overlay: &str) -> Vec<Value> {
    let mut all = [rights(), cluster_rights()].concat();
    for patch in patches(overlay) {
        if patch["patch"].as_str().is_some_and(|patch| patch.starts_with("$patch: delete")) {
            all.retain(|manifest| manifest["kind"] != patch["target"]["kind"]);
        }
    }
    all
}

/// Returns the rights on the management cluster in namespaces of add-on agents.
pub fn hosted_addon_rights() -> Vec<Value> {
    let mut all = addon_rights();
    for patch in patches("addons") {
        let added: Value =
            serde_yaml::from_str(patch["patch"].as_str().expect("a patch")).expect("YAML");
        for operation in added.as_array().expect("operations") {
            assert_eq!((&operation["op"], &operation["path"]), (&"add".into(), &"/rules/-".into()));
            let role = all.iter_mut().find(|manifest| manifest["kind"] == "Role").expect("a Role");
            role["rules"].as_array_mut().expect("rules").push(operation["value"].clone());
        }
    }
    all
}

fn patches(overlay: &str) -> Vec<Value> {
    let path = format!("csr-bootstrapper-hosted/{overlay}/kustomization.yaml");
    objects(&path, &[])[0]["patches"].as_array().expect("patches").clone()
}
