//! Credentials that no add-on needs any more are deleted, and no others; a cluster that was deleted on the hub
//! is not made again.

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{eventually, ocm::addons, pause, spoke::Spoke, stays, throughout};

use crate::{
    addon_registration::{certificate::keys, support::*},
    support::{beats, beats_again, joins},
};

#[track_caller]
fn store_is_gone(spoke: &Spoke) {
    eventually("nothing is stored", || spoke.read_secret(STORE).is_none());
}

#[test]
fn addon_credential_follows_signer_and_namespace_and_goes() {
    let (spoke, _agent, namespace, _) = registered("addon-gone");
    let other = spoke.addon_namespace();
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &json!({"namespace": other}));
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    spoke.hub.approve_next(&spoke.cluster);
    certificate(&spoke.managed, &other, KUBE_CLIENT_SECRET, None);
    register(&spoke, &of_signer(CUSTOM));
    gone(&spoke.managed, &other, KUBE_CLIENT_SECRET);
    let name = spoke.hub.approve_next(&spoke.cluster);
    sign(&spoke, &name, &user(&spoke));
    let (data, _) = certificate(&spoke.managed, &other, CUSTOM_SECRET, None);
    assert_eq!(keys(&data), ["cluster-name", "tls.crt", "tls.key"]);
    has_driver(&spoke, "");
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    gone(&spoke.managed, &other, CUSTOM_SECRET);
    store_is_gone(&spoke);
}

/// Upstream forgets them.
#[test]
fn addon_credential_goes_at_the_next_start() {
    let (spoke, mut agent, namespace, _) = registered("addon-orphan");
    agent.stops_as_asked();
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    let _agent = spoke.start(&[]);
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    store_is_gone(&spoke);
}

/// Its agent may need the credential to clean up.
#[test]
fn addon_credential_stays_while_the_add_on_is_being_deleted() {
    let (spoke, mut agent, namespace, _) = registered("addon-deleting");
    let target = addons();
    let target = target.object(&spoke.cluster, ADDON);
    spoke.hub.cluster.hold(&target);
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    let is_there = || data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).is_some();
    stays("the credential stays", is_there);
    agent.stops_as_asked();
    let agent = spoke.start(&[]);
    agent.wait_for_code("/readyz", 200);
    stays("the credential stays after a restart", is_there);
    spoke.hub.cluster.release(&target);
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
}

/// Somebody took the name for something else.
#[test]
fn addon_secret_of_another_cluster_is_kept() {
    let (spoke, agent, namespace, _) = registered("addon-foreign");
    let other = BASE64_STANDARD.encode("another-cluster");
    let mut agent = agent;
    agent.stops_as_asked();
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.merge(&secret, &json!({"data": {"cluster-name": other}}));
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    let agent = spoke.start(&[]);
    agent.wait_for("keeping the Secret: it is another cluster's");
    store_is_gone(&spoke);
    assert!(spoke.managed.get(&secret).is_some());
}

#[test]
fn addon_secret_keeps_what_others_put_into_it() {
    let (spoke, _agent, namespace, _) = registered("addon-more");
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.merge(&secret, &json!({"data": {"theirs": "eA=="}}));
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    store_is_gone(&spoke);
    let data = data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).expect("the Secret");
    assert_eq!(data, [("theirs".to_owned(), b"x".to_vec())].into());
}

/// A hub that no longer accepts the cluster says nothing about its add-ons.
#[test]
fn addon_credential_survives_a_denied_cluster() {
    let (spoke, _agent, namespace, _) = registered("addon-kept");
    spoke.hub.deny(&spoke.cluster);
    pause(1500);
    let is_there = || data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).is_some();
    stays("the credential stays", is_there);
    eventually("so does the store", || spoke.read_secret(STORE));
}

#[test]
fn deleted_managed_cluster_is_not_made_again() {
    let spoke = Spoke::auto("removed");
    let agent = joins(&spoke, &[]);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 1);
    spoke.hub.delete(&spoke.cluster);
    eventually("/readyz says so", || {
        agent.ask("/readyz").1.contains("the hub has no ManagedCluster")
    });
    let before = beats(&agent);
    throughout(2000, "it stays away and the heartbeat stops", || {
        spoke.hub.managed_cluster(&spoke.cluster).is_none() && beats(&agent) <= before
    });
    assert_eq!(agent.ask("/healthz").0, 200);
}
