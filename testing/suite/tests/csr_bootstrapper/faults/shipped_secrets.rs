//! With only the base's rights, which exclude the creation of Secrets: the agent fills and empties the empty Secrets
//! that the manifests ship.

use apiclient::resource::SECRETS;
use serde_json::{Value, json};
use suite::{
    cluster::{Cluster, resource},
    eventually,
    ocm::{AVAILABLE, Bootstrap, Hub},
    sidecar::Sidecar,
    spoke::{PENDING, SECRET, Spoke, shipped_secrets},
};

use crate::{
    addon_registration::support::{
        ADDON, KUBE_CLIENT, KUBE_CLIENT_SECRET, add, certificate, gone, of_signer,
    },
    support::beats,
};

/// A stage with just the base's rights and Secrets.
fn stage(name: &str, how: Bootstrap) -> Spoke {
    let managed = Cluster::embedded("managed");
    managed.server().enforce_rbac();
    let spoke = Spoke::between(Hub::new(), managed, name, how);
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
    let spoke = stage("shipped", Bootstrap::Auto);
    let before = uids(&spoke);
    let mut agent = spoke.start(&[]);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    eventually("the stored request is emptied", || spoke.pending().is_none());
    let namespace = spoke.addon_namespace();
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert!(spoke.stored_for_addons().is_some());
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    eventually("nothing is stored", || spoke.stored_for_addons().is_none());
    agent.stops_as_asked();
    // What is left of one certificate is used for the next.
    spoke.managed.merge(
        &SECRETS.object(&spoke.namespace, &spoke.secret),
        &json!({"data": {"tls.crt": null, "tls.key": null}}),
    );
    let agent = spoke.start(&[]);
    spoke.wait_for_certificate();
    eventually("a heartbeat", || beats(&agent) >= 1.0);
    assert_eq!(uids(&spoke), before);
    assert_eq!(agent.count("forbidden"), 0, "{}", agent.log());
}

/// Waits until /readyz says `what`, and an Event too.
fn is_told(spoke: &Spoke, agent: &Sidecar, what: &str) {
    eventually(&format!("/readyz says {what}"), || agent.ask("/readyz").1.contains(what));
    eventually(&format!("an Event says {what}"), || {
        spoke.events().iter().any(|event| {
            event["reason"] == "SecretSaveFailed" && event["message"].to_string().contains(what)
        })
    });
}

/// Deletes the Secret, if it exists, and applies secrets/ again, as the sentence says.
fn ship_again(spoke: &Spoke, name: &str) {
    spoke.delete_secret(name);
    let secret = shipped_secrets().into_iter().find(|it| it["metadata"]["name"] == name);
    spoke.managed.create(&SECRETS.collection(&spoke.namespace), &secret.expect("it is shipped"));
}

#[test]
fn unwritable_secrets_are_reported_until_applied_again() {
    const AGAIN: &str =
        "is immutable: delete it, and apply manifests/csr-bootstrapper/secrets again";
    const MISSING: &str = "does not exist: apply manifests/csr-bootstrapper/secrets";
    for (name, what) in [(SECRET, AGAIN), (PENDING, AGAIN), (PENDING, MISSING)] {
        let spoke = stage("unwritable", Bootstrap::Auto);
        let target = SECRETS.object(&spoke.namespace, name);
        match what {
            MISSING => spoke.managed.delete(&target),
            _ => drop(spoke.managed.merge(&target, &json!({"immutable": true}))),
        }
        let agent = spoke.start(&[]);
        is_told(&spoke, &agent, &format!("secrets {}/{name} {what}", spoke.namespace));
        let requests = usize::from(name == SECRET);
        assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), requests, "no key without its Secret");
        ship_again(&spoke, name);
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
        eventually("all is well", || agent.ask("/readyz").1 == "ok\n");
    }
}
