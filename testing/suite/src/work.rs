//! klusterlet-agent between a hub with ManifestWorks and a cluster; both are embedded servers.

use std::path::Path;

use dev_apiserver::{Options, Resource, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    manifest::shipped,
    sidecar::{Sidecar, bare, free_port, program},
    wait::PATIENCE,
    within,
};

const GROUP: &str = "work.open-cluster-management.io";
pub const API: &str = "work.open-cluster-management.io/v1";
pub const CLUSTER_API: &str = "cluster.open-cluster-management.io/v1";
/// The names of the cluster, and of the applied objects' namespace.
pub const CLUSTER: &str = "c";
pub const NAMESPACE: &str = "n";

pub struct Stage {
    pub hub: Server,
    pub managed: Server,
    directory: TempDir,
}

impl Stage {
    pub fn new() -> Self {
        let stage = Self::without_hub_kubeconfig();
        let (group, _) = CLUSTER_API.split_once('/').expect("a group");
        let kind = Resource::custom(group, "v1", "managedclusters", "ManagedCluster", false);
        stage.hub.register(kind);
        stage.write_hub_kubeconfig();
        stage
    }

    /// Sets the stage without the hub's kubeconfig file; the hub does not serve ManagedClusters either.
    pub fn without_hub_kubeconfig() -> Self {
        let start = || Server::start(Options::default()).expect("a server");
        let (hub, managed) = (start(), start());
        hub.register(Resource::custom(GROUP, "v1", "manifestworks", "ManifestWork", true));
        let kind = "AppliedManifestWork";
        managed.register(Resource::custom(GROUP, "v1", "appliedmanifestworks", kind, false));
        hub.create_namespace(CLUSTER);
        managed.create_namespace(NAMESPACE);
        let directory = TempDir::new().expect("a directory");
        let file = directory.path().join("managed");
        std::fs::write(file, managed.kubeconfig()).expect("a kubeconfig");
        Self { hub, managed, directory }
    }

    pub fn write_hub_kubeconfig(&self) {
        let file = self.directory.path().join("hub");
        std::fs::write(file, self.hub.kubeconfig()).expect("a kubeconfig");
    }

    /// Makes the kubeconfig refer to the same hub by another URL.
    pub fn move_hub(&self) {
        let kubeconfig = self.hub.kubeconfig().replace("127.0.0.1", "localhost");
        std::fs::write(self.directory.path().join("hub"), kubeconfig).expect("a kubeconfig");
    }

    /// Starts the program with a short grace period, without HTTPS and, by default, without leader election.
    pub fn start(&self, flags: &[&str]) -> Sidecar {
        self.start_file(&program("klusterlet-agent"), flags)
    }

    /// Starts the shipped program, for measurements of memory.
    pub fn start_shipped(&self) -> Sidecar {
        self.start_file(&shipped("klusterlet-agent"), &[])
    }

    fn start_file(&self, file: &Path, flags: &[&str]) -> Sidecar {
        let port = free_port();
        let mut command = bare(file);
        command.args(["agent", "--spoke-cluster-name=c", "--listen=", "-v=2"]);
        command.args(["--namespace=n", "--appliedmanifestwork-eviction-grace-period=1s"]);
        command.args([&format!("--metrics-port={port}"), "--disable-leader-election"]).args(flags);
        for (flag, file) in [("workload-source-config", "hub"), ("kubeconfig", "managed")] {
            command.arg(format!("--{flag}={}", self.directory.path().join(file).display()));
        }
        Sidecar::spawn(command, port)
    }

    /// Creates the work `name` on the hub, or replaces its spec.
    pub fn put_work(&self, name: &str, spec: Value) {
        if self.work(name).is_null() {
            let metadata = json!({"name": name, "namespace": CLUSTER});
            let kind = "ManifestWork";
            self.hub
                .put(json!({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}));
        } else {
            self.alter_work(name, "spec", spec);
        }
    }

    /// Sets the manifests of the work `w`.
    pub fn apply(&self, manifests: &[Value]) {
        self.put_work("w", json!({"workload": {"manifests": manifests}}));
    }

    pub fn alter_work(&self, name: &str, field: &str, value: Value) {
        self.hub.alter(API, "manifestworks", CLUSTER, name, |object| {
            object[field] = value.clone();
            true
        });
    }

    pub fn work(&self, name: &str) -> Value {
        self.hub.get(API, "manifestworks", CLUSTER, name).unwrap_or_default()
    }

    pub fn delete_work(&self, name: &str) {
        self.hub.delete(API, "manifestworks", CLUSTER, name);
    }

    pub fn put_managed_cluster(&self) {
        let metadata = json!({"name": CLUSTER});
        let kind = "ManagedCluster";
        self.hub.put(json!({"apiVersion": CLUSTER_API, "kind": kind, "metadata": metadata}));
    }

    /// Deletes the work without the agent's finalizer, as if the hub had lost it.
    pub fn lose_work(&self, name: &str) {
        self.hub.alter(API, "manifestworks", CLUSTER, name, |object| {
            object["metadata"]["finalizers"] = json!([]);
            true
        });
        self.delete_work(name);
    }

    /// Returns the value in a ConfigMap.
    pub fn data(&self, name: &str) -> Option<Value> {
        Some(self.managed.get("v1", "configmaps", NAMESPACE, name)?["data"]["k"].clone())
    }

    pub fn set_data(&self, name: &str, value: &str) {
        self.managed.alter("v1", "configmaps", NAMESPACE, name, |object| {
            object["data"]["k"] = value.into();
            true
        });
    }

    pub fn records(&self) -> Vec<Value> {
        self.managed.list(API, "appliedmanifestworks", "")
    }

    /// Returns the condition Applied of a manifest of the work `w`.
    pub fn manifest_applied(&self, ordinal: usize) -> Value {
        let manifest = &self.work("w")["status"]["resourceStatus"]["manifests"][ordinal];
        let conditions = manifest["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "Applied").unwrap_or_default()
    }

    /// Waits until Applied has this status for the current spec.
    #[track_caller]
    pub fn wait_for_applied(&self, name: &str, status: &str) {
        self.wait_for_applied_within(PATIENCE, name, status);
    }

    /// Waits for the same within this number of seconds.
    #[track_caller]
    pub fn wait_for_applied_within(&self, seconds: u64, name: &str, status: &str) {
        within(seconds, &format!("Applied {status}"), || {
            let work = self.work(name);
            let conditions = work["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| {
                condition["type"] == "Applied"
                    && condition["status"] == status
                    && condition["observedGeneration"] == work["metadata"]["generation"]
            })
        });
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a manifest without content.
pub fn object(api: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}})
}

/// Returns a ConfigMap's manifest.
pub fn config_map(name: &str, value: &str) -> Value {
    let mut map = object("v1", "ConfigMap", name);
    map["data"] = json!({"k": value});
    map
}

/// Returns a manifest of a kind that [`Resource::custom`] registers.
pub fn thing(name: &str, spec: Value) -> Value {
    let mut thing = object("example.com/v1", "Thing", name);
    thing["spec"] = spec;
    thing
}
