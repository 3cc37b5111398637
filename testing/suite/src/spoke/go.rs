//! OCM's own agent on the same stage, for comparison; only on the real control plane, whose build includes it.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use apiclient::{error::Error, resource::Target};
use serde_json::json;

use super::{AGENT, BOOTSTRAP, SECRET, Spoke};
use crate::{
    cluster::{Cluster, resource},
    ocm::{Bootstrap, Hub},
    sidecar::{Sidecar, bare, free_port, program},
};

/// Outside of a pod, the agent uses this namespace, whatever `--namespace` says.
const NAMESPACE: &str = "open-cluster-management-agent";
/// OCM's program that contains all agents.
const OPERATOR: &str = "registration-operator";

impl Spoke {
    /// Sets the stage for the Go agent: all agents share one namespace, but have different Secrets.
    pub fn for_go(name: &str, how: Bootstrap) -> Self {
        let managed = Cluster::real("managed");
        let unique = managed.new_namespace(name);
        ensure_namespace(&managed);
        let mut spoke = Self::bare(Hub::new(), managed, unique, how);
        spoke.namespace = NAMESPACE.into();
        spoke.secret = format!("{SECRET}-{}", spoke.cluster);
        spoke.bootstrap = format!("{BOOTSTRAP}-{}", spoke.cluster);
        spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
        spoke
    }

    /// Starts the Go agent with the same flags, names and relays; with all rights on the managed cluster, because it
    /// also reads nodes. Claims and add-ons are off: they need kinds that are not installed.
    pub fn start_go_agent(&self, more: &[&str]) -> Sidecar {
        self.start_agent(&go("registration"), more)
    }

    /// Starts it with the work agent in one process, as in the mode Singleton of a Klusterlet.
    pub fn start_go_singleton(&self, more: &[&str]) -> Sidecar {
        self.start_singleton(&go(OPERATOR), more)
    }

    /// Starts klusterlet-agent like [`Spoke::start_go_singleton`]; its file name selects the operator's command line.
    pub fn start_own_singleton(&self, more: &[&str]) -> Sidecar {
        let file = self.directory.path().join(OPERATOR);
        if !file.exists() {
            symlink(program("klusterlet-agent"), &file).expect("a link as at the image's root");
        }
        let namespace = format!("--namespace={}", self.namespace);
        self.start_singleton(&file, &[&[&namespace, "--metrics-port=0"], more].concat())
    }

    fn start_singleton(&self, file: &Path, more: &[&str]) -> Sidecar {
        let kubeconfig = self.directory.path().join("hub-kubeconfig/kubeconfig");
        let config = format!("--workload-source-config={}", kubeconfig.display());
        let work = ["--workload-source-driver=kube", &config, "--status-sync-interval=60s"];
        self.start_agent(file, &[&work, more].concat())
    }

    /// Starts OCM's work agent, with the hub kubeconfig from the dumper.
    pub fn start_work_agent(&self, kubeconfig: &Path) -> Sidecar {
        let mut command = bare(&go("work"));
        command
            .arg("agent")
            .arg("--kubeconfig")
            .arg(self.administrators_kubeconfig())
            .arg(format!("--workload-source-config={}", kubeconfig.display()))
            .args(["--workload-source-driver=kube", "--status-sync-interval=60s"])
            .args(["--spoke-cluster-name", &self.cluster, "--agent-id", AGENT])
            .args(["--disable-leader-election", "-v", "2"])
            .args(["--listen", &format!("127.0.0.1:{}", free_port())])
            .env("TMPDIR", self.directory.path());
        Sidecar::spawn(command, 0)
    }

    fn start_agent(&self, file: &Path, more: &[&str]) -> Sidecar {
        let mut command = bare(file);
        command
            .arg("agent")
            .arg("--kubeconfig")
            .arg(self.administrators_kubeconfig())
            .arg("--bootstrap-kubeconfig")
            .arg(self.write_bootstrap(&self.bootstrap_kubeconfig()))
            .arg("--hub-kubeconfig-dir")
            .arg(self.directory.path().join("hub-kubeconfig"))
            .args(["--bootstrap-kubeconfig-secret", &self.bootstrap])
            .args(["--hub-kubeconfig-secret", &self.secret])
            .args(["--cluster-name", &self.cluster, "--agent-id", AGENT])
            .args(["--cluster-healthcheck-period", "1s", "--disable-leader-election", "-v", "2"])
            .args(["--listen", &format!("127.0.0.1:{}", free_port())])
            .arg("--feature-gates=ClusterClaim=false,AddonManagement=false")
            .args(more)
            .env("TMPDIR", self.directory.path());
        Sidecar::spawn(command, 0)
    }

    fn administrators_kubeconfig(&self) -> PathBuf {
        let text = fs::read_to_string(&self.managed.kubeconfig).expect("the kubeconfig");
        let relay = self.managed_relay.address.to_string();
        self.write("go.kubeconfig", &text.replace(&self.managed.address, &relay))
    }
}

/// Returns the path of a program of Open Cluster Management.
pub fn go(program: &str) -> PathBuf {
    PathBuf::from(env::var_os("E2E_ASSETS").expect("the real control plane")).join(program)
}

fn ensure_namespace(managed: &Cluster) {
    let namespaces = resource("", "namespaces", "Namespace");
    let target = Target { resource: &namespaces, namespace: None, name: None, subresource: None };
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    match managed.client.create(&target, &body) {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
