//! A Secret that is not this cluster's keeps its content, whatever an add-on names: no CSR is posted for it, and the
//! add-on's condition says why.

use apiclient::resource::SECRETS;
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    ocm::{AVAILABLE, Bootstrap, Hub},
    spoke::{BOOTSTRAP, Spoke},
    stays,
};

use super::support::*;
use crate::support::{account, grant};

/// The klusterlet operator gives its agents all Secrets.
fn allow_as_the_operator(spoke: &Spoke, namespace: &str) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    ]);
    grant(&spoke.managed, (namespace, "operator"), ("User", &account(spoke)), &rules);
}

fn install(spoke: &Spoke, addon: &str, namespace: &str) {
    spoke.hub.add_addon(&spoke.cluster, addon, namespace);
    let status = json!({"registrations": of_signer(KUBE_CLIENT)});
    spoke.hub.set_addon_status(&spoke.cluster, addon, &status);
}

/// An add-on that names somebody else's Secret: namespace, name, and what its condition says.
type Conflict<'a> = (&'a str, &'a str, &'a str);

/// Installs the add-ons and waits for their conditions. Nothing is written or requested, also once they are gone.
#[track_caller]
fn are_left(spoke: &Spoke, conflicts: &[Conflict<'_>]) {
    let versions = || -> Vec<_> {
        let secret = |(namespace, addon, _): &Conflict<'_>| {
            let name = format!("{addon}-hub-kubeconfig");
            let secret = spoke.managed.get(&SECRETS.object(namespace, &name)).expect("it stays");
            secret["metadata"]["resourceVersion"].clone()
        };
        conflicts.iter().map(secret).collect()
    };
    let before = versions();
    let requests = spoke.hub.csrs_of(&spoke.cluster).len();
    for (namespace, addon, _) in conflicts {
        install(spoke, addon, namespace);
    }
    for (_, addon, words) in conflicts {
        eventually(&format!("the condition of {addon} says {words}"), || {
            let addon = spoke.hub.addon(&spoke.cluster, addon)?;
            let conditions = addon["status"]["conditions"].as_array()?.clone();
            conditions.into_iter().find(|it| {
                it["status"] == "False"
                    && it["reason"] == "SecretConflict"
                    && it["message"].as_str().is_some_and(|it| it.contains(words))
            })
        });
    }
    assert!(spoke.count_events("SecretConflict") > 0, "there is an Event too");
    stays("nothing is written or requested", || {
        spoke.hub.csrs_of(&spoke.cluster).len() == requests && versions() == before
    });
    for (_, addon, _) in conflicts {
        spoke.hub.delete_addon(&spoke.cluster, addon);
    }
    stays("the Secrets outlive the add-ons", || versions() == before);
}

#[test]
fn secrets_of_others_are_left_whatever_an_add_on_names() {
    let (spoke, _agent, namespace) = stage("addon-conflict", &[]);
    allow_as_the_operator(&spoke, &spoke.namespace);
    let put = |addon: &str, secret: Value| {
        let mut secret = secret;
        secret["apiVersion"] = json!("v1");
        secret["kind"] = json!("Secret");
        secret["metadata"] = json!({"name": format!("{addon}-hub-kubeconfig")});
        spoke.managed.create(&SECRETS.collection(&namespace), &secret);
    };
    let theirs =
        json!({"cluster-name": "YQ==", "kubeconfig": "eA==", "tls.crt": "eA==", "tls.key": "eA=="});
    put("anothers", json!({"data": theirs}));
    put("nobodys", json!({"data": {"password": "eA=="}}));
    let pair = json!({"tls.crt": "eA==", "tls.key": "eA=="});
    put("typed", json!({"type": "kubernetes.io/tls", "data": pair}));
    // A write could never arrive.
    put("immutable", json!({"immutable": true}));
    assert_eq!(BOOTSTRAP, "bootstrap-hub-kubeconfig", "what an add-on of that name has");
    let conflicts = [
        (&*spoke.namespace, "bootstrap", "csr-bootstrapper's own"),
        (&*namespace, "anothers", "another cluster's"),
        (&*namespace, "nobodys", "no cluster-name"),
        (&*namespace, "typed", "is not Opaque"),
        (&*namespace, "immutable", "is immutable"),
    ];
    are_left(&spoke, &conflicts);
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
    let [first, second] = &spokes;
    let namespace = first.addon_namespace();
    allow_as_the_operator(second, &namespace);
    install(first, ADDON, &namespace);
    hub.approve_next(&first.cluster);
    certificate(&managed, &namespace, KUBE_CLIENT_SECRET, None);
    are_left(second, &[(&namespace, ADDON, "another cluster's")]);
}
