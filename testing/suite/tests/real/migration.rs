//! docs/migration.md: its commands run on the real control plane with OCM's own agent. There are no nodes, so what a
//! kubelet would do is played: a Deployment with replicas is a process that runs.

use std::{
    fs,
    process::{Command, Stdio},
};

use apiclient::{error::Error, resource::Resource};
use serde_json::{Value, json};
use suite::{
    cluster::{Cluster, resource},
    eventually,
    needs::{Need, needs},
    ocm::{AVAILABLE, Bootstrap, JOINED},
    scene::{ADDON, renew_time},
    sidecar::{Sidecar, bare, free_port, program},
    spoke::{BOOTSTRAP, SECRET, Spoke},
    within,
};

use crate::root;

/// Namespace of the agent, here and everywhere.
const NAMESPACE: &str = "open-cluster-management-agent";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The commands of a step on the page, in one shell each, and where: `hub` or `managed`.
#[track_caller]
fn commands(step: &str, on: &str) -> Vec<String> {
    let page = read("docs/migration.md");
    let block = page.split_once(&format!("<!-- run: {step}, {on} -->\n"));
    let block = block.unwrap_or_else(|| panic!("the page has no step {step} on {on}")).1;
    let block = block.split_once("<!-- end -->").expect("the end of the block").0;
    block.lines().filter(|line| !line.starts_with("```")).map(str::to_owned).collect()
}

/// Runs a step as it is on the page, but for the name of the cluster; all that was printed.
#[track_caller]
fn run(step: &str, cluster: &Cluster, on: &str, name: &str) -> String {
    run_with(step, cluster, on, &[("cluster1", name)])
}

/// The same with each first text replaced by the second.
#[track_caller]
fn run_with(step: &str, cluster: &Cluster, on: &str, here: &[(&str, &str)]) -> String {
    let mut all = String::new();
    for mut command in commands(step, on) {
        // Only with a kubelet.
        if command.contains(" port-forward ") {
            continue;
        }
        for (there, here) in here {
            command = command.replace(there, here);
        }
        if let Some((before, rest)) = command.split_once(" rollout status deployment/") {
            let namespace = before.rsplit(' ').next().expect("a namespace");
            roll_out(cluster, namespace, rest.split(' ').next().expect("a name"));
        }
        let output = Command::new("sh")
            .args(["-ec", &command])
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

/// Says of a Deployment what its controller would, once its pods are ready.
fn roll_out(cluster: &Cluster, namespace: &str, name: &str) {
    let object = deployment(cluster, namespace, name).expect("the Deployment");
    let replicas = &object["spec"]["replicas"];
    let status = json!({
        "observedGeneration": object["metadata"]["generation"], "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    });
    let all = deployments();
    let target = all.object(namespace, name);
    cluster.merge(&target.status(), &json!({"status": status}));
}

fn deployments() -> Resource {
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
    // As in the manifest, which grants no right to namespaces.
    let mut ours = spoke.start(&["-managed-namespaces=false"]);
    ours.wait_for_code("/readyz", 200);
    let before = renew_time(spoke.hub.heartbeat(&name).as_ref());
    eventually("the heartbeat is renewed", || {
        renew_time(spoke.hub.heartbeat(&name).as_ref()) != before
    });
    let printed = run("registration check", &spoke.hub.cluster, "hub", &name);
    assert!(printed.contains("condition met"), "{printed}");
    run("operator check", &spoke.hub.cluster, "hub", &name);
    assert_eq!(spoke.hub.csrs_of(&name).len(), requests, "no new request");

    run("registration back", &managed, "managed", &name);
    assert_eq!(deployment(&managed, NAMESPACE, "csr-bootstrapper"), None);
    assert_eq!(replicas(&managed, NAMESPACE, "klusterlet-registration-agent"), Some(1));
    assert_eq!(replicas(&managed, "open-cluster-management", "klusterlet"), Some(1));
    ours.terminate();
    let before = renew_time(spoke.hub.heartbeat(&name).as_ref());
    let _go = spoke.start_go_agent(&[]);
    eventually("the heartbeat is renewed", || {
        renew_time(spoke.hub.heartbeat(&name).as_ref()) != before
    });
    run("registration check", &spoke.hub.cluster, "hub", &name);
    assert_eq!(spoke.hub.csrs_of(&name).len(), requests, "no new request");
}

/// What the operator does with its image is in csr_bootstrapper/klusterlet.rs.
#[test]
fn from_the_image_of_the_klusterlet_and_back() {
    if !needs(Need::Real, "OCM's klusterlet operator is there") {
        return;
    }
    let spoke = Spoke::for_klusterlet("migrated-image");
    let deployment = spoke.install(&spoke.namespace, &json!({}));
    let name = deployment["metadata"]["name"].as_str().expect("a name").to_owned();
    let klusterlet = format!("klusterlet {}", spoke.klusterlet());
    for (step, image) in [
        ("operator start", "example.com/spoke-sidecars:v1"),
        ("operator back", "quay.io/open-cluster-management/registration:v1.2.0"),
    ] {
        run_with(step, &spoke.managed, "managed", &[("klusterlet klusterlet", &klusterlet)]);
        within(60, "the operator changes the Deployment", || {
            let object = self::deployment(&spoke.managed, &spoke.namespace, &name)?;
            let containers = &object["spec"]["template"]["spec"]["containers"];
            (containers[0]["image"] == image).then_some(())
        });
        let here = [(NAMESPACE, &*spoke.namespace), ("klusterlet-registration-agent", &name)];
        let printed = run_with("operator check", &spoke.managed, "managed", &here);
        assert!(printed.contains("successfully rolled out"), "{printed}");
    }
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

/// The program with the flags of a step, and `more` of them where the page leaves some out.
fn remote_sync(step: &str, more: &[&str]) -> Command {
    let [line] = &commands(step, "managed")[..] else { panic!("{step} is one command") };
    let flags = line.strip_prefix("remote-sync ").and_then(|rest| rest.strip_suffix('…'));
    let flags = flags.unwrap_or_else(|| panic!("{line}"));
    let mut command = bare(&program("remote-sync"));
    let hub = Cluster::real("hub").kubeconfig.display().to_string();
    for words in [&*flags.replace("FILE", &hub)].iter().chain(more) {
        command.args(words.split_whitespace());
    }
    command
}

fn definitions() -> Resource {
    resource("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
}

fn kind() -> Resource {
    resource("example.com", "widgets", "Widget")
}

/// What becomes of the objects is in remote_sync/takeover.rs.
#[test]
fn from_sync_controller_and_back() {
    if !needs(Need::Real, "kubectl is there") {
        return;
    }
    let (managed, hub) = (Cluster::real("managed"), Cluster::real("hub"));
    ensure_namespace(&managed, NAMESPACE);
    deploy(&managed, "sync-system", "sync-controller", "manager");
    let widgets = read("manifests/examples/widgets/crd.yaml");
    let widgets: Value = serde_yaml::from_str(&widgets).expect("YAML");
    let [source, target] = [&hub, &managed].map(|cluster| cluster.new_namespace("migrated-sync"));
    for (cluster, namespace, name) in [(&hub, &source, "blue"), (&managed, &target, "green")] {
        cluster.create(&definitions().everywhere(), &widgets);
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": namespace}, "spec": {"size": 3},
        });
        eventually("widgets are served", || {
            cluster.client.create(&kind().collection(namespace), &widget).ok()
        });
    }
    let port = free_port();
    let more = format!(
        "-kubeconfig {} -namespace {target} -source-namespace {source} -target-namespace {target} \
         -leader-election=false -metrics-port {port} -v 5",
        managed.kubeconfig.display(),
    );
    let kind_and_hub = format!(
        "-resource widgets.example.com -remote-kubeconfig hub={}",
        hub.kubeconfig.display()
    );
    let log = remote_sync("sync dry run", &[&more]).output().expect("it runs").stderr;
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains("dry run"), "{log}");
    let mut rights = remote_sync("sync rights", &[&kind_and_hub, &more]);
    let rights = rights.stdout(Stdio::piped()).output().expect("it runs");
    let [rights, errors] =
        [&rights.stdout, &rights.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(rights.contains("ClusterRole"), "{rights}{errors}");
    run("sync stop", &managed, "managed", "cluster1");
    assert_eq!(replicas(&managed, "sync-system", "sync-controller"), Some(0));
    let here = [("hub.kubeconfig", &*hub.kubeconfig.display().to_string())];
    run_with("sync start", &managed, "managed", &here);
    assert_eq!(replicas(&managed, NAMESPACE, "remote-sync"), Some(1));
    let mut command = bare(&program("remote-sync"));
    command.args(kind_and_hub.split_whitespace()).args(more.split_whitespace());
    let ours = Sidecar::spawn(command, port);
    eventually("the widget is copied", || managed.get(&kind().object(&target, "blue")));
    let here = [("localhost:8387", &*format!("localhost:{port}"))];
    eventually("it is ready, and the pair in sync", || {
        let printed = run_with("sync check", &managed, "managed", &here);
        printed.starts_with("ok\n") && printed.contains("state=\"insync\"} 1")
    });
    drop(ours);
    run("sync back", &managed, "managed", "cluster1");
    assert_eq!(deployment(&managed, NAMESPACE, "remote-sync"), None);
    assert_eq!(replicas(&managed, "sync-system", "sync-controller"), Some(1));
}
