//! Registration and works in one process, by the command line of the klusterlet operator's mode Singleton (ocm
//! `klusterlet-agent-deployment.yaml`), with the paths of its volumes in a temporary directory.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use dev_apiserver::{Resource, SignerOptions};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    ocm::{Bootstrap, Hub, works},
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
    spoke::{AGENT, Spoke},
    stays,
    work::{API, NAMESPACE, config_map},
};

pub(crate) const LOCK: &str = "klusterlet-agent-lock";

/// A spoke between servers that have works.
pub(crate) fn spoke(name: &str) -> Spoke {
    let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
    let group = works().group;
    hub.server().register(Resource::custom(&group, "v1", "manifestworks", "ManifestWork", true));
    let kind = "AppliedManifestWork";
    managed.server().register(Resource::custom(&group, "v1", "appliedmanifestworks", kind, false));
    managed.server().create_namespace(NAMESPACE);
    Spoke::between(Hub::on(hub), managed, name, Bootstrap::Auto)
}

/// The pod `replica`, and its port for HTTPS.
pub(crate) fn start(spoke: &Spoke, replica: &str) -> (Sidecar, u16) {
    let volumes = spoke.directory.path().join(replica);
    fs::create_dir_all(volumes.join("hub-kubeconfig")).expect("a volume");
    let operator = volumes.join("registration-operator");
    symlink(program("klusterlet-agent"), &operator).expect("the link at the image's root");
    let bootstrap = spoke.write_bootstrap(&spoke.bootstrap_kubeconfig());
    let [port, https] = [(); 2].map(|()| free_port());
    let path = |flag: &str, path: PathBuf| format!("--{flag}={}", path.display());
    let mut command = bare(&operator);
    command.args(["agent", &format!("--spoke-cluster-name={}", spoke.cluster)]);
    command.arg(path("bootstrap-kubeconfig", bootstrap));
    command.args([&format!("--agent-id={AGENT}"), "--workload-source-driver=kube"]);
    command.arg(path("workload-source-config", volumes.join("hub-kubeconfig/kubeconfig")));
    command.args(["--feature-gates=RawFeedbackJsonString=true", "--status-sync-interval=60s"]);
    command.args(["--feature-gates=AddonManagement=true", "--kube-api-qps=50"]);
    // What the image has by default, and a pod: its volume, its service account.
    command.arg(path("hub-kubeconfig-dir", volumes.join("hub-kubeconfig")));
    command.arg(path("kubeconfig", spoke.managed.kubeconfig.clone()));
    command.arg(format!("--namespace={}", spoke.namespace));
    command.arg(format!("--listen=127.0.0.1:{https}"));
    command.args(["--metrics-port", &port.to_string(), "--leader-election-retry-period=1s"]);
    command.args(VERBOSE);
    (Sidecar::spawn(command, port), https)
}

/// Sets the one manifest of the work `w` on the hub.
pub(crate) fn apply(spoke: &Spoke, value: &str) {
    let manifests = [config_map("a", value)];
    let (spec, hub) = (json!({"workload": {"manifests": manifests}}), spoke.hub.cluster.server());
    let is_there = hub.alter(API, "manifestworks", &spoke.cluster, "w", |work| {
        work["spec"] = spec.clone();
        true
    });
    if !is_there {
        let metadata = json!({"name": "w", "namespace": spoke.cluster});
        let kind = "ManifestWork";
        hub.put(json!({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}));
    }
}

/// What the manifest's object holds.
pub(crate) fn applied(spoke: &Spoke) -> Option<Value> {
    let object = spoke.managed.server().get("v1", "configmaps", NAMESPACE, "a")?;
    Some(object["data"]["k"].clone())
}

#[track_caller]
pub(crate) fn wait_for_applied(spoke: &Spoke, value: &str) {
    eventually(&format!("{value} is applied"), || applied(spoke) == Some(json!(value)));
}

/// Both clients for the hub take over the new certificate.
#[test]
fn works_go_on_when_the_certificate_rotates() {
    let spoke = spoke("both-rotation");
    let lifetime = Duration::from_secs(20);
    let signer = SignerOptions { lifetime, backdate: Duration::ZERO, auto_approve: false };
    spoke.hub.cluster.server().set_signer(signer);
    let (mut agent, _) = start(&spoke, "a");
    apply(&spoke, "1");
    wait_for_applied(&spoke, "1");
    let first = spoke.wait_for_certificate();
    eventually("the first certificate has expired", || {
        SystemTime::now() > first.not_after + Duration::from_secs(1)
    });
    apply(&spoke, "2");
    wait_for_applied(&spoke, "2");
    assert!(spoke.hub.csrs_of(&spoke.cluster).len() > 1);
    assert_eq!(agent.count("the hub is used as"), 1, "{}", agent.log());
    agent.ends_at_once();
}

#[test]
fn standby_has_neither_duty_until_it_leads() {
    let spoke = spoke("both-standby");
    let (mut leader, _) = start(&spoke, "a");
    apply(&spoke, "1");
    wait_for_applied(&spoke, "1");
    let (mut standby, _) = start(&spoke, "b");
    standby.wait_for("standing by");
    standby.wait_for_code("/readyz", 200);
    apply(&spoke, "2");
    wait_for_applied(&spoke, "2");
    stays("no request to the hub", || !standby.ask("/metrics").1.contains("target=\"hub\""));
    leader.terminate();
    standby.wait_for("became the leader");
    apply(&spoke, "3");
    wait_for_applied(&spoke, "3");
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1, "the credential is used again");
    standby.ends_at_once();
}
