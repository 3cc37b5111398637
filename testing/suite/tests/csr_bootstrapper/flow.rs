//! manifests/hub: the hub's API server puts heartbeats of a joined cluster into their own flow, and nothing else.

use std::{
    path::Path,
    process::{Command, Output},
};

use suite::{
    cluster::resource,
    needs::{Need, needs},
    ocm::{HEARTBEAT, global},
    repository::root,
    spoke::Spoke,
    within,
};

use crate::support::joined;

const FLOW: &str = "open-cluster-management-heartbeats";

fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    command.output().expect("kubectl is on the PATH")
}

/// Applies the manifests; the uid of the flow.
fn apply(spoke: &Spoke) -> String {
    let hub = &spoke.hub.cluster;
    let manifests = root().join("manifests/hub");
    let applied = kubectl(&hub.kubeconfig, &["apply", "-k", &manifests.to_string_lossy()]);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let schemas = resource("flowcontrol.apiserver.k8s.io", "flowschemas", "FlowSchema");
    let schema = hub.get(&global(&schemas, FLOW)).expect("the FlowSchema");
    schema["metadata"]["uid"].as_str().expect("its uid").to_owned()
}

#[test]
fn flow_of_heartbeats_has_only_heartbeats() {
    if !needs(Need::Real, "flows of its API server") {
        return;
    }
    let (spoke, _agent) = joined("flow", &[]);
    let is_served = spoke.hub.cluster.minor() >= 29;
    if !needs(Need::Found(is_served), "FlowSchemas of v1 are there as of Kubernetes 1.29") {
        return;
    }
    let (flow, credential) = (apply(&spoke), spoke.credential_files());
    // The server names the flow in a header, which kubectl shows.
    let is_in_flow = |arguments: &[&str]| {
        let told = kubectl(&credential, &[&["-v=8"], arguments].concat()).stderr;
        let told = String::from_utf8_lossy(&told).to_lowercase();
        assert!(told.contains("x-kubernetes-pf-flowschema-uid"), "{told}");
        told.contains(&flow)
    };
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", spoke.cluster);
    let lease = format!("{leases}/{HEARTBEAT}");
    // The server follows after a moment.
    within(60, "a heartbeat is read in its flow", || is_in_flow(&["get", "--raw", &lease]));
    let heartbeat = spoke.hub.heartbeat(&spoke.cluster).expect("the Lease").to_string();
    let file = spoke.write("lease.json", &heartbeat);
    let file = file.to_string_lossy();
    assert!(is_in_flow(&["replace", "--raw", &lease, "-f", &file]));
    let cluster = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
    for other in [&leases, &format!("{cluster}/{}", spoke.cluster), "/version"] {
        assert!(!is_in_flow(&["get", "--raw", other]), "{other}");
    }
}
