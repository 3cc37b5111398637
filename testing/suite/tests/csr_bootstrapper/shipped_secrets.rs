//! With the rights of the base alone, which cannot create a Secret: those that the manifests ship empty are filled and
//! emptied.

use serde_json::{Value, json};
use shared::resource::SECRETS;
use suite::{
    cluster::{Cluster, resource},
    eventually,
    needs::{Need, needs},
    ocm::{AVAILABLE, Bootstrap, Hub},
    spoke::{Spoke, shipped_secrets},
};

use crate::{
    addon_registration::support::{
        ADDON, KUBE_CLIENT, KUBE_CLIENT_SECRET, STORE, certificate, gone,
    },
    support::beats_again,
};

/// A stage with just the base's rights and Secrets.
fn stage(name: &str) -> Spoke {
    let managed = Cluster::embedded("managed");
    managed.server().enforce_rbac();
    let spoke = Spoke::between(Hub::new(), managed, name, Bootstrap::Auto);
    let roles = resource("rbac.authorization.k8s.io", "roles", "Role");
    spoke.managed.delete(&roles.object(&spoke.namespace, "csr-bootstrapper-create-secrets"));
    for secret in shipped_secrets() {
        spoke.managed.create(&SECRETS.collection(&spoke.namespace), &secret);
    }
    spoke
}

fn uids(spoke: &Spoke) -> Vec<Value> {
    let uid = |secret: Value| {
        let name = secret["metadata"]["name"].as_str().expect("a name").to_owned();
        spoke.managed.get(&SECRETS.object(&spoke.namespace, &name)).expect("it stays")["metadata"]["uid"].clone()
    };
    shipped_secrets().into_iter().map(uid).collect()
}

#[test]
fn shipped_secrets_are_enough_to_join_and_to_register_addons() {
    if !needs(Need::Embedded, "the spoke has a server of its own") {
        return;
    }
    let spoke = stage("shipped");
    let before = uids(&spoke);
    let mut agent = spoke.start(&[]);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    eventually("the stored request is emptied", || spoke.pending().is_none().then_some(()));
    let namespace = spoke.addon_namespace();
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    let status = json!({"registrations": [{"signerName": KUBE_CLIENT}]});
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &status);
    spoke.hub.approve_next(&spoke.cluster);
    certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert!(spoke.read_secret(STORE).is_some());
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    eventually("nothing is stored", || spoke.read_secret(STORE).is_none().then_some(()));
    agent.stops_as_asked();
    // What is left of one certificate is used for the next.
    spoke.managed.merge(
        &SECRETS.object(&spoke.namespace, &spoke.secret),
        &json!({"data": {"tls.crt": null, "tls.key": null}}),
    );
    let agent = spoke.start(&[]);
    spoke.wait_for_certificate();
    beats_again(&agent, 1);
    assert_eq!(uids(&spoke), before);
    assert_eq!(agent.count("forbidden"), 0, "{}", agent.log());
}
