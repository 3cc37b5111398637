//! With the rights of the base alone, which cannot create a Secret: those that the manifests ship empty are filled and
//! emptied.

use apiclient::resource::SECRETS;
use serde_json::{Value, json};
use suite::{
    cluster::{Cluster, resource},
    eventually,
    needs::{Need, needs},
    ocm::{AVAILABLE, Bootstrap, Hub},
    sidecar::Sidecar,
    spoke::{PENDING, SECRET, Spoke, shipped_secrets},
};

use crate::{
    addon_registration::support::{
        ADDON, KUBE_CLIENT, KUBE_CLIENT_SECRET, STORE, certificate, gone,
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
    if !needs(Need::Embedded, "the spoke has a server of its own") {
        return;
    }
    let spoke = stage("shipped", Bootstrap::Auto);
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
    eventually("a heartbeat", || beats(&agent) >= 1.0);
    assert_eq!(uids(&spoke), before);
    assert_eq!(agent.count("forbidden"), 0, "{}", agent.log());
}

/// Waits until /readyz says `what`, and an Event too.
fn is_told(spoke: &Spoke, agent: &Sidecar, what: &str) {
    eventually(&format!("/readyz says {what}"), || {
        agent.ask("/readyz").1.contains(what).then_some(())
    });
    eventually(&format!("an Event says {what}"), || {
        let says = |event: &Value| {
            event["reason"] == "SecretSaveFailed" && event["message"].to_string().contains(what)
        };
        spoke.events().iter().any(says).then_some(())
    });
}

/// Deletes the Secret and applies secrets/ again, as the sentence says.
fn ship_again(spoke: &Spoke, name: &str) {
    spoke.delete_secret(name);
    ship(spoke, name);
}

fn ship(spoke: &Spoke, name: &str) {
    let secret = shipped_secrets().into_iter().find(|it| it["metadata"]["name"] == name);
    spoke.managed.create(&SECRETS.collection(&spoke.namespace), &secret.expect("it is shipped"));
}

#[test]
fn immutable_secrets_are_told_until_replaced() {
    if !needs(Need::Embedded, "the spoke has a server of its own") {
        return;
    }
    for name in [SECRET, PENDING] {
        let spoke = stage("immutable", Bootstrap::Auto);
        let target = SECRETS.object(&spoke.namespace, name);
        spoke.managed.merge(&target, &json!({"immutable": true}));
        let agent = spoke.start(&[]);
        let sentence = format!(
            "secrets {}/{name} is immutable: delete it, and apply manifests/csr-bootstrapper/secrets again",
            spoke.namespace
        );
        is_told(&spoke, &agent, &sentence);
        ship_again(&spoke, name);
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
        eventually("all is well", || (agent.ask("/readyz").1 == "ok\n").then_some(()));
    }
}

#[test]
fn request_that_cannot_be_emptied_is_told_while_ready() {
    if !needs(Need::Embedded, "the spoke has a server of its own") {
        return;
    }
    let spoke = stage("unemptied", Bootstrap::Manual);
    let agent = spoke.start(&[]);
    let csr = spoke.hub.next_csr(&spoke.cluster);
    spoke.managed.merge(&SECRETS.object(&spoke.namespace, PENDING), &json!({"immutable": true}));
    spoke.hub.approve_csr(&csr);
    spoke.wait_for_certificate();
    is_told(&spoke, &agent, &format!("{PENDING} is immutable: delete it"));
    assert_eq!(agent.ask("/readyz").0, 200);
    ship_again(&spoke, PENDING);
    eventually("it is over", || (!agent.ask("/readyz").1.contains("immutable")).then_some(()));
}

#[test]
fn missing_pending_secret_is_told_until_applied() {
    if !needs(Need::Embedded, "the spoke has a server of its own") {
        return;
    }
    let spoke = stage("upgraded", Bootstrap::Auto);
    spoke.delete_secret(PENDING);
    let agent = spoke.start(&[]);
    let sentence = format!(
        "secrets {}/{PENDING} does not exist: apply manifests/csr-bootstrapper/secrets",
        spoke.namespace
    );
    is_told(&spoke, &agent, &sentence);
    assert!(spoke.hub.csrs_of(&spoke.cluster).is_empty());
    ship(&spoke, PENDING);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
}
