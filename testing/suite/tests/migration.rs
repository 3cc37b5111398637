//! docs/migration.md: its commands run on the real control plane with OCM's own agent. There are no nodes, so what a
//! kubelet would do is played: a Deployment with replicas is a process that runs.

use std::{path::PathBuf, process::Command};

use serde_json::{Value, json};
use shared::error::Error;
use suite::{
    cluster::{Cluster, resource},
    eventually,
    figures::{block, page, root},
    needs::{Need, needs},
    ocm::{AVAILABLE, Bootstrap, JOINED},
    scene::{ADDON, renew_time},
    spoke::{BOOTSTRAP, SECRET, Spoke},
};

/// Namespace of the agent, here and everywhere.
const NAMESPACE: &str = "open-cluster-management-agent";

/// The commands of a step on the page, in one shell each, and where: `hub` or `managed`.
#[track_caller]
fn commands(step: &str, on: &str) -> Vec<String> {
    let page = page("docs/migration.md");
    let found = block(&page, &format!("run: {step}, {on}"));
    let found = found.unwrap_or_else(|| panic!("the page has no step {step} on {on}"));
    let lines = found.lines().filter(|line| !line.starts_with("```"));
    lines.map(str::to_owned).collect()
}

/// Runs a step as it is on the page, but for the name of the cluster; all that was printed.
#[track_caller]
fn run(step: &str, cluster: &Cluster, on: &str, name: &str) -> String {
    let mut all = String::new();
    for command in commands(step, on) {
        // Only with nodes.
        if command.contains(" rollout status ") {
            continue;
        }
        let output = Command::new("sh")
            .args(["-ec", &command.replace("cluster1", name)])
            .current_dir(root())
            .env("KUBECONFIG", &cluster.kubeconfig)
            .output()
            .expect("a shell");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        all += &String::from_utf8_lossy(&output.stdout);
    }
    all
}

fn ensure_namespace(cluster: &Cluster, name: &str) {
    let all = resource("", "namespaces", "Namespace");
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    match cluster.client.create(&all.everywhere(), &body) {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A Deployment of this name with one container, in the shape of the original's.
fn deploy(cluster: &Cluster, namespace: &str, name: &str, container: &str) {
    ensure_namespace(cluster, namespace);
    let labels = json!({"app": name});
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": container, "image": "example.com/original:v1"}]},
            },
        },
    });
    cluster.create(&deployments().collection(namespace), &body);
}

fn deployments() -> shared::resource::Resource {
    resource("apps", "deployments", "Deployment")
}

fn deployment(cluster: &Cluster, namespace: &str, name: &str) -> Option<Value> {
    cluster.get(&deployments().object(namespace, name))
}

fn replicas(cluster: &Cluster, namespace: &str, name: &str) -> Option<u64> {
    deployment(cluster, namespace, name)?["spec"]["replicas"].as_u64()
}

#[test]
fn from_the_registration_agent_and_back() {
    if !needs(Need::Real, "kubectl and the Go agent are there") {
        return;
    }
    let mut spoke = Spoke::for_go("migrated", Bootstrap::Auto);
    // The names of the page, which no other test has in that namespace.
    spoke.secret = SECRET.into();
    spoke.bootstrap = BOOTSTRAP.into();
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let (managed, name) = (spoke.managed.clone(), spoke.cluster.clone());
    deploy(&managed, "open-cluster-management", "klusterlet", "klusterlet");
    deploy(&managed, NAMESPACE, "klusterlet-registration-agent", "registration-controller");
    let mut go = spoke.start_go_agent(&[]);
    for kind in [JOINED, AVAILABLE] {
        spoke.hub.wait_for_condition(&name, kind, "True");
    }
    spoke.hub.set_lease_duration(&name, 1);
    let requests = spoke.hub.csrs_of(&name).len();

    run("registration operator", &managed, "managed", &name);
    assert_eq!(replicas(&managed, "open-cluster-management", "klusterlet"), Some(0));
    let printed = run("registration stop", &managed, "managed", &name);
    assert!(printed.ends_with(&name), "{printed}");
    assert_eq!(replicas(&managed, NAMESPACE, "klusterlet-registration-agent"), Some(0));
    go.kill();

    run("registration start", &managed, "managed", &name);
    assert_eq!(replicas(&managed, NAMESPACE, "csr-bootstrapper"), Some(1));
    let mut ours = spoke.start(&[]);
    ours.wait_for_code("/readyz", 200);
    let before = renew_time(spoke.hub.heartbeat(&name).as_ref());
    eventually("the heartbeat is renewed", || {
        (renew_time(spoke.hub.heartbeat(&name).as_ref()) != before).then_some(())
    });
    let printed = run("registration check", &spoke.hub.cluster, "hub", &name);
    assert!(printed.contains("condition met"), "{printed}");
    assert_eq!(spoke.hub.csrs_of(&name).len(), requests, "no new request");

    run("registration back", &managed, "managed", &name);
    assert_eq!(deployment(&managed, NAMESPACE, "csr-bootstrapper"), None);
    assert_eq!(replicas(&managed, NAMESPACE, "klusterlet-registration-agent"), Some(1));
    assert_eq!(replicas(&managed, "open-cluster-management", "klusterlet"), Some(1));
    ours.terminate();
    let before = renew_time(spoke.hub.heartbeat(&name).as_ref());
    let _go = spoke.start_go_agent(&[]);
    eventually("the heartbeat is renewed", || {
        (renew_time(spoke.hub.heartbeat(&name).as_ref()) != before).then_some(())
    });
    run("registration check", &spoke.hub.cluster, "hub", &name);
    assert_eq!(spoke.hub.csrs_of(&name).len(), requests, "no new request");
}

#[test]
fn from_klusterlet_addon_lease_controller_and_back() {
    if !needs(Need::Real, "kubectl is there") {
        return;
    }
    let scene = suite::scene::Scene::new("migrated-lease");
    let managed = &scene.managed;
    deploy(managed, "my-addon", ADDON, "klusterlet-addon-lease-controller");
    let image = || {
        let deployment = deployment(managed, "my-addon", ADDON).expect("the Deployment");
        deployment["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    run("lease start", managed, "managed", &scene.cluster);
    assert_eq!(image(), "example.com/spoke-sidecars:v1");
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let printed = run("lease check", &scene.hub, "hub", &scene.cluster);
    assert!(printed.ends_with('Z'), "{printed}");
    run("lease back", managed, "managed", &scene.cluster);
    assert_eq!(image(), "example.com/original:v1");
}

/// What becomes of the objects is in remote_sync/takeover.rs.
#[test]
fn from_sync_controller_and_back() {
    if !needs(Need::Real, "kubectl is there") {
        return;
    }
    let managed = Cluster::real("managed");
    ensure_namespace(&managed, NAMESPACE);
    deploy(&managed, "sync-system", "sync-controller", "manager");
    run("sync stop", &managed, "managed", "cluster1");
    assert_eq!(replicas(&managed, "sync-system", "sync-controller"), Some(0));
    run("sync start", &managed, "managed", "cluster1");
    assert_eq!(replicas(&managed, NAMESPACE, "remote-sync"), Some(1));
    run("sync back", &managed, "managed", "cluster1");
    assert_eq!(deployment(&managed, NAMESPACE, "remote-sync"), None);
    assert_eq!(replicas(&managed, "sync-system", "sync-controller"), Some(1));
}

/// The commands name manifests that there are.
#[test]
fn manifests_are_there() {
    let page = page("docs/migration.md");
    let named = page.split("manifests/").skip(1);
    for rest in named {
        let path = rest.split([')', '\n', ' ']).next().unwrap_or_default();
        let path: PathBuf = root().join("manifests").join(path);
        assert!(path.exists(), "{}", path.display());
    }
}
