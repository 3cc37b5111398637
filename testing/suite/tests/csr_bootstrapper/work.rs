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
    eventually, identity,
    needs::{Need, needs},
    ocm::{SET_LABEL, bindings, is_true, replica_sets, serve_applied_works, sets, works},
    sidecar::VERBOSE,
    spoke::{
        Spoke,
        klusterlet::{klusterlets, operate},
    },
    within,
};

use crate::support::joined;

/// The name of the replica set, and of its ManifestWorks.
const NAME: &str = "klusterlet-image";
const IMAGE: &str = "example.com/spoke-sidecars:v1";

/// Puts the cluster into a set of its own, and binds a namespace of the hub to that, which it returns.
fn bound_namespace(spoke: &Spoke) -> String {
    let (hub, name) = (&spoke.hub.cluster, &spoke.namespace);
    let namespace = hub.new_namespace("works");
    let object = |kind: &Resource, spec: Value| {
        json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let (sets, bindings) = (sets(), bindings());
    hub.create(&sets.everywhere(), &object(&sets, json!({})));
    let binding = object(&bindings, json!({"clusterSet": name}));
    hub.create(&bindings.collection(&namespace), &binding);
    spoke.hub.change(&spoke.cluster, &json!({"metadata": {"labels": {SET_LABEL: name}}}));
    namespace
}

/// Applies the example of manifests/ in this namespace, for the clusters of the set and the spoke's own Klusterlet.
fn apply(spoke: &Spoke, namespace: &str) {
    let file = "../../manifests/hub/manifestworkreplicaset.yaml";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    let text = text.expect("the manifest").replace("global", &spoke.namespace);
    let text = text.replace("name: klusterlet\n", &format!("name: {}\n", spoke.klusterlet()));
    let text = text.replace("[klusterlet]", &format!("[{}]", spoke.klusterlet()));
    let text = ["name", "namespace"].iter().fold(text, |text, field| {
        text.replace(&format!("{field}: spoke-sidecars\n"), &format!("{field}: {}\n", namespace))
    });
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(&spoke.hub.cluster.kubeconfig).args(["apply", "-f", "-"]);
    let mut kubectl = command.stdin(Stdio::piped()).spawn().expect("kubectl is on the PATH");
    kubectl.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    assert!(kubectl.wait().expect("it ends").success());
}

/// The Klusterlet keeps all its other fields, and stays when the replica set goes.
#[test]
fn replica_set_changes_one_field_of_the_klusterlet() {
    if !needs(Need::Real, "OCM's operator, work manager and work agent are there") {
        return;
    }
    let (spoke, _agent) = joined("work", &[]);
    operate(&spoke.managed);
    // The definition demands the prefix.
    let namespace = format!("open-cluster-management-{}", spoke.namespace);
    let kind = klusterlets();
    let klusterlet = kind.cluster_object(spoke.klusterlet());
    let spec =
        json!({"clusterName": spoke.cluster, "namespace": namespace, "imagePullSpec": "old"});
    let api = kind.api_version();
    let metadata = json!({"name": spoke.klusterlet()});
    let object =
        json!({"apiVersion": api, "kind": "Klusterlet", "metadata": metadata, "spec": spec});
    spoke.managed.create(&kind.everywhere(), &object);
    serve_applied_works(&spoke.managed);
    let (_dumper, kubeconfig) = spoke.start_dumper(&VERBOSE);
    eventually("the dumper writes the kubeconfig", || kubeconfig.is_file());
    let account = format!("{}-work-sa", spoke.klusterlet());
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    within(60, "the operator makes the work agent's account", || {
        spoke.managed.get(&accounts.object(&namespace, &account))
    });
    let way = &spoke.managed_relay;
    let local = identity::kubeconfig_of_account(&spoke.managed, way, &namespace, &account);
    let file = spoke.write("work.kubeconfig", &local);
    let _agent = spoke.start_work_agent_as(&file, &kubeconfig);
    let bound = bound_namespace(&spoke);
    apply(&spoke, &bound);
    spoke.hub.change(&spoke.cluster, &json!({"metadata": {"labels": {"spoke-sidecars": "true"}}}));

    let (works, sets) = (works(), replica_sets());
    let (work, set) = (works.object(&spoke.cluster, NAME), sets.object(&bound, NAME));
    let hub = &spoke.hub.cluster;
    // The controllers may only just have started.
    within(60, "there is a ManifestWork for the cluster", || hub.get(&work).is_some());
    within(60, "the work agent says that it is applied", || {
        hub.get(&work).is_some_and(|work| is_true(&work, "Applied"))
    });
    let live = || spoke.managed.get(&klusterlet).expect("the Klusterlet")["spec"].clone();
    let mut wanted = spec;
    wanted["imagePullSpec"] = json!(IMAGE);
    for (field, value) in wanted.as_object().expect("fields") {
        assert_eq!(&live()[field], value, "{field}");
    }
    within(60, "the replica set counts it", || {
        let set = hub.get(&set).expect("the replica set");
        set["status"]["summary"]["applied"] == json!(1) && is_true(&set, "ManifestworkApplied")
    });

    hub.delete(&set);
    within(60, "the ManifestWork goes", || hub.get(&work).is_none());
    assert_eq!(live()["imagePullSpec"], json!(IMAGE));
}
