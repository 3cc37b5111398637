//! The stage of a cluster on which OCM's klusterlet operator installs its agent; only on the real control plane, whose
//! build includes the operator. The rights are the ones that the operator grants.

use std::{fs, path::Path, sync::OnceLock};

use apiclient::{
    error::Error,
    resource::{Resource, Target},
};
use serde_json::{Value, json};

use super::{Spoke, go::go};
use crate::{
    cluster::{Cluster, resource},
    ocm::{Bootstrap, Hub},
    sidecar::{Sidecar, bare, free_port},
    sync::definitions,
    within,
};

const GROUP: &str = "operator.open-cluster-management.io";

pub fn klusterlets() -> Resource {
    resource(GROUP, "klusterlets", "Klusterlet")
}

impl Spoke {
    /// Sets the stage in a separate namespace, where the operator may install the agent, with a bootstrap Secret.
    pub fn for_klusterlet(name: &str) -> Self {
        let managed = Cluster::real("managed");
        operate(&managed);
        // The CustomResourceDefinition requires the prefix.
        let namespace = managed.new_namespace(&format!("open-cluster-management-{name}"));
        let spoke = Self::bare(Hub::new(), managed, namespace, Bootstrap::Auto);
        spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
        spoke
    }

    /// Makes the operator install the agent; returns its Deployment in this namespace.
    #[track_caller]
    pub fn install(&self, namespace: &str, more: &Value) -> Value {
        let mut spec = json!({
            "clusterName": self.cluster, "namespace": self.namespace,
            "registrationImagePullSpec": "example.com/csr-bootstrapper:1",
        });
        for (key, value) in more.as_object().expect("fields") {
            spec[key] = value.clone();
        }
        let klusterlet = json!({
            "apiVersion": klusterlets().api_version(), "kind": "Klusterlet",
            "metadata": {"name": self.klusterlet()}, "spec": spec,
        });
        self.managed.create(&klusterlets().everywhere(), &klusterlet);
        let deployments = resource("apps", "deployments", "Deployment");
        let name = format!("{}-registration-agent", self.klusterlet());
        within(60, "the operator installs the agent", || {
            self.managed.get(&deployments.object(namespace, &name))
        })
    }

    /// Returns the name of its Klusterlet.
    pub fn klusterlet(&self) -> &str {
        &self.namespace
    }
}

/// Runs the operator once for all tests of a program; the control plane ends it.
pub fn operate(managed: &Cluster) -> &'static Sidecar {
    static OPERATOR: OnceLock<Sidecar> = OnceLock::new();
    OPERATOR.get_or_init(|| {
        let namespace = "open-cluster-management";
        let object = json!({"kind": "Namespace", "metadata": {"name": namespace}});
        ensure(managed, &resource("", "namespaces", "Namespace"), object);
        let file = "0000_00_operator.open-cluster-management.io_klusterlets.crd.yaml";
        let text = fs::read_to_string(go("crds").join(file)).expect("the definition");
        let definition = serde_yaml::from_str(&text).expect("YAML");
        ensure(managed, &definitions().resource, definition);
        within(60, "Klusterlets are served", || {
            managed
                .client
                .get(&klusterlets().cluster_object("none"))
                .is_err_and(|error| matches!(error, Error::NotFound(_)))
        });
        start(namespace, &managed.kubeconfig)
    })
}

fn start(namespace: &str, kubeconfig: &Path) -> Sidecar {
    let mut command = bare(&go("registration-operator"));
    command
        .args(["klusterlet", "--namespace", namespace, "--disable-leader-election"])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--listen", &format!("127.0.0.1:{}", free_port()), "--deployment-replicas=1"]);
    Sidecar::spawn(command, 0)
}

fn ensure(managed: &Cluster, kind: &Resource, mut object: Value) {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    let target = Target { resource: kind, namespace: None, name: None, subresource: None };
    match managed.client.create(&target, &object) {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
