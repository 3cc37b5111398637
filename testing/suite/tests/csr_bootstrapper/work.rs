//! OCM's work manager and work agent with a cluster that csr-bootstrapper joined: what a ManifestWorkReplicaSet brings.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use apiclient::resource::Resource;
use serde_json::{Value, json};
use suite::{
    cluster::resource,
    eventually,
    needs::{Need, needs},
    ocm::{replica_sets, serve_applied_works, works},
    sidecar::VERBOSE,
    spoke::Spoke,
    within,
};

use crate::{placement::Chooser, support::joined};

/// The name of the replica set, of its ManifestWorks, and of what they bring.
const NAME: &str = "my-agent";

/// Applies the example of manifests/, for the clusters of the chooser's set; what it brings goes to the agent's namespace.
fn apply(spoke: &Spoke, chooser: &Chooser<'_>) {
    let file = "../../manifests/hub/manifestworkreplicaset.yaml";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    let text = text.expect("the manifest").replace("global", chooser.set());
    let text = text.replace(": open-cluster-management-agent", &format!(": {}", spoke.namespace));
    let text = ["name", "namespace"].iter().fold(text, |text, field| {
        text.replace(
            &format!("{field}: spoke-sidecars\n"),
            &format!("{field}: {}\n", chooser.namespace),
        )
    });
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(&spoke.hub.cluster.kubeconfig).args(["apply", "-f", "-"]);
    let mut kubectl = command.stdin(Stdio::piped()).spawn().expect("kubectl is on the PATH");
    kubectl.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    assert!(kubectl.wait().expect("it ends").success());
}

/// Whether a condition of the object is true.
fn is_true(object: &Value, kind: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The Role of the dumper has a name of its own.
fn brought() -> [(Resource, String); 4] {
    let rbac = |plural, kind| resource("rbac.authorization.k8s.io", plural, kind);
    let rights = format!("{NAME}-hub-kubeconfig-dumper");
    [
        (resource("", "serviceaccounts", "ServiceAccount"), NAME.to_owned()),
        (rbac("roles", "Role"), rights.clone()),
        (rbac("rolebindings", "RoleBinding"), rights),
        (resource("apps", "deployments", "Deployment"), NAME.to_owned()),
    ]
}

#[test]
fn work_of_a_replica_set_arrives_and_goes() {
    if !needs(Need::Real, "OCM's work manager and work agent are there") {
        return;
    }
    let (spoke, _agent) = joined("work", &[]);
    let has_sidecars = spoke.managed.minor() >= 29;
    if !needs(Need::Found(has_sidecars), "native sidecars are there as of Kubernetes 1.29") {
        return;
    }
    serve_applied_works(&spoke.managed);
    let (_dumper, kubeconfig) = spoke.start_dumper(&VERBOSE);
    eventually("the dumper writes the kubeconfig", || kubeconfig.is_file());
    let agent = spoke.start_work_agent(&kubeconfig);
    let chooser = Chooser::new(&spoke);
    apply(&spoke, &chooser);

    let (works, sets) = (works(), replica_sets());
    let (work, set) = (works.object(&spoke.cluster, NAME), sets.object(&chooser.namespace, NAME));
    let hub = &spoke.hub.cluster;
    // The controllers may only just have started.
    within(60, "there is a ManifestWork for the cluster", || hub.get(&work).is_some());
    within(60, "the work agent says that it is applied", || {
        hub.get(&work).is_some_and(|work| is_true(&work, "Applied"))
    });
    let find =
        |(kind, name): &(Resource, String)| spoke.managed.get(&kind.object(&spoke.namespace, name));
    for one in &brought() {
        assert!(find(one).is_some(), "no {} {}:\n{}", one.0.kind, one.1, agent.log());
    }
    let deployment = find(&brought()[3]).expect("the Deployment");
    let sidecar = &deployment["spec"]["template"]["spec"]["initContainers"][0];
    assert_eq!(sidecar["name"], "hub-kubeconfig-dumper");
    within(60, "the replica set counts it", || {
        let set = hub.get(&set).expect("the replica set");
        set["status"]["summary"]["applied"] == json!(1) && is_true(&set, "ManifestworkApplied")
    });

    hub.delete(&set);
    within(60, "all of it goes", || brought().iter().all(|one| find(one).is_none()));
    within(60, "so does the ManifestWork", || hub.get(&work).is_none());
}
