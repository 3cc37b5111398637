//! A Secret that is not this cluster's keeps its content, whatever an add-on names: no CSR is posted for it, and the
//! add-on's condition says why.

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    identity::Data,
    ocm::{AVAILABLE, Bootstrap, Hub, reasons},
    spoke::{BOOTSTRAP, Spoke},
    stays,
};

use super::support::*;

const THEIRS: &str = "theirs";

fn content(pairs: &[(&str, &str)]) -> Data {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

fn version(cluster: &Cluster, namespace: &str, name: &str) -> Option<Value> {
    Some(cluster.get(&SECRETS.object(namespace, name))?["metadata"]["resourceVersion"].clone())
}

/// Waits for the condition about the Secret, and checks that nothing is written or requested, also once the add-on is gone.
#[track_caller]
fn is_left(spoke: &Spoke, (namespace, name): (&str, &str), addon: &str, words: &str) {
    let before = version(&spoke.managed, namespace, name);
    assert!(before.is_some());
    eventually("the condition says why", || {
        let addon = spoke.hub.addon(&spoke.cluster, addon)?;
        let conditions = addon["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|it| {
            it["status"] == "False"
                && it["reason"] == "SecretConflict"
                && it["message"].as_str().is_some_and(|it| it.contains(words))
        })
    });
    assert!(spoke.count_events("SecretConflict") > 0, "there is an Event too");
    let is_unchanged = || version(&spoke.managed, namespace, name) == before;
    let is_quiet = || csrs_of(spoke, addon) == 0 && is_unchanged();
    stays("nothing is written or requested", is_quiet);
    spoke.hub.delete_addon(&spoke.cluster, addon);
    stays("the Secret outlives the add-on", is_unchanged);
}

fn csrs_of(spoke: &Spoke, addon: &str) -> usize {
    let all = spoke.hub.csrs_of(&spoke.cluster);
    let label = "open-cluster-management.io/addon-name";
    all.iter().filter(|csr| csr["metadata"]["labels"][label] == addon).count()
}

fn install(spoke: &Spoke, addon: &str, namespace: &str) {
    spoke.hub.add_addon(&spoke.cluster, addon, namespace);
    let status = json!({"registrations": of_signer(KUBE_CLIENT)});
    spoke.hub.set_addon_status(&spoke.cluster, addon, &status);
}

#[test]
fn addon_named_bootstrap_leaves_the_bootstrap_secret() {
    let (spoke, _agent, _) = stage("addon-bootstrap", &[]);
    allow_all_as_the_operator(&spoke);
    install(&spoke, "bootstrap", &spoke.namespace);
    is_left(&spoke, (&spoke.namespace, BOOTSTRAP), "bootstrap", "csr-bootstrapper's own");
}

#[test]
fn credential_of_another_cluster_is_left() {
    let (spoke, _agent, namespace) = stage("addon-anothers", &[]);
    let theirs = content(&[
        ("cluster-name", "another-cluster"),
        ("kubeconfig", THEIRS),
        ("tls.crt", THEIRS),
        ("tls.key", THEIRS),
    ]);
    spoke.managed.put_secret(&namespace, KUBE_CLIENT_SECRET, &theirs);
    install(&spoke, ADDON, &namespace);
    is_left(&spoke, (&namespace, KUBE_CLIENT_SECRET), ADDON, "another cluster's");
}

#[test]
fn secret_without_cluster_name_is_left_by_tokens() {
    let (spoke, _agent, namespace) =
        stage("addon-nobodys", &["-addon-kubeclient-registration-auth", "token"]);
    let theirs = content(&[("password", THEIRS)]);
    spoke.managed.put_secret(&namespace, KUBE_CLIENT_SECRET, &theirs);
    install(&spoke, ADDON, &namespace);
    is_left(&spoke, (&namespace, KUBE_CLIENT_SECRET), ADDON, "no cluster-name");
}

#[test]
fn secret_with_a_type_is_left() {
    let (spoke, _agent, namespace) = stage("addon-typed", &[]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": KUBE_CLIENT_SECRET},
        "data": {"tls.crt": BASE64_STANDARD.encode(THEIRS), "tls.key": BASE64_STANDARD.encode(THEIRS)},
    });
    spoke.managed.create(&SECRETS.collection(&namespace), &secret);
    install(&spoke, ADDON, &namespace);
    is_left(&spoke, (&namespace, KUBE_CLIENT_SECRET), ADDON, "has type kubernetes.io/tls");
}

/// A write could never arrive.
#[test]
fn immutable_secret_is_left_and_told() {
    let (spoke, _agent, namespace) = stage("addon-immutable", &[]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "immutable": true,
        "metadata": {"name": KUBE_CLIENT_SECRET},
    });
    spoke.managed.create(&SECRETS.collection(&namespace), &secret);
    install(&spoke, ADDON, &namespace);
    is_left(&spoke, (&namespace, KUBE_CLIENT_SECRET), ADDON, "is immutable");
}

#[test]
fn secret_that_its_owner_empties_gets_the_credential() {
    let (spoke, _agent, namespace) = stage("addon-emptied", &[]);
    spoke.managed.put_secret(&namespace, KUBE_CLIENT_SECRET, &content(&[("password", THEIRS)]));
    install(&spoke, ADDON, &namespace);
    told(&spoke, "ClusterCertificateRotated", "False");
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.merge(&secret, &json!({"data": {"password": null}}));
    spoke.hub.approve_next(&spoke.cluster);
    certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    told(&spoke, "ClusterCertificateRotated", "True");
}

/// Hosted add-ons have one namespace by default.
#[test]
fn addons_of_two_clusters_in_one_namespace_do_not_fight() {
    let (hub, managed) = (Hub::new(), Cluster::embedded("managed"));
    let spokes = ["addon-one", "addon-two"]
        .map(|name| Spoke::between(hub.clone(), managed.clone(), name, Bootstrap::Auto));
    let _agents = spokes.each_ref().map(|spoke| spoke.start(&[]));
    for spoke in &spokes {
        hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    }
    let namespace = spokes[0].addon_namespace();
    let [first, second] = &spokes;
    bind(second, &namespace, "csr-bootstrapper-addons");
    install(first, ADDON, &namespace);
    hub.approve_next(&first.cluster);
    certificate(&managed, &namespace, KUBE_CLIENT_SECRET, None);
    install(second, ADDON, &namespace);
    is_left(second, (&namespace, KUBE_CLIENT_SECRET), ADDON, "another cluster's");
    let pending = |csr: &Value| reasons(csr).is_empty();
    assert!(!hub.csrs_of(&second.cluster).iter().any(pending));
}

/// The klusterlet operator gives its agents all Secrets.
fn allow_all_as_the_operator(spoke: &Spoke) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "operator"},
        "rules": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        ],
    });
    spoke.managed.apply(&role, &spoke.namespace);
    bind(spoke, &spoke.namespace, "operator");
}

fn bind(spoke: &Spoke, namespace: &str, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": format!("{role}-also")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "csr-bootstrapper", "namespace": spoke.namespace}],
    });
    spoke.managed.apply(&binding, namespace);
}
