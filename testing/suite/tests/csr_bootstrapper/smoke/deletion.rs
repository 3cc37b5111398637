//! An add-on gets its credential. Only credentials that no add-on needs any more are deleted. A cluster that was
//! deleted on the hub is not created again.

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{eventually, ocm::addons, spoke::Spoke, stays, throughout};

use crate::{
    addon_registration::{certificate::keys, support::*},
    certificate::sign,
    support::{beating, beats, beats_again},
};

#[test]
fn addon_credential_follows_its_registration_and_goes() {
    let (spoke, _agent, namespace) = stage("addon-credential", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    has_driver(&spoke, "csr");
    let name = spoke.hub.approve_next(&spoke.cluster);
    assert!(name.starts_with(&format!("addon-{}-{ADDON}-", spoke.cluster)), "{name}");
    let (data, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(keys(&data), ["cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    assert_eq!(data["cluster-name"], spoke.cluster.as_bytes());
    assert_eq!(issued.bearer.common_name, user(&spoke));
    assert_eq!(issued.bearer.organizations, [group(&spoke)]);
    is_known(&data);
    let rotated = told(&spoke, "ClusterCertificateRotated", "True");
    assert_eq!(rotated["reason"], "ClientCertificateUpdated");
    let message = rotated["message"].as_str().expect("a message");
    assert!(message.starts_with("client certificate rotated starting from "), "{message}");
    stays("one request is enough", || csrs(&spoke).len() == 1);

    let other = spoke.addon_namespace();
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &json!({"namespace": other}));
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    spoke.hub.approve_next(&spoke.cluster);
    certificate(&spoke.managed, &other, KUBE_CLIENT_SECRET, None);
    register(&spoke, &of_signer(CUSTOM));
    gone(&spoke.managed, &other, KUBE_CLIENT_SECRET);
    sign(&spoke, &spoke.hub.approve_next(&spoke.cluster), &user(&spoke), &[]);
    let (data, _) = certificate(&spoke.managed, &other, CUSTOM_SECRET, None);
    assert_eq!(keys(&data), ["cluster-name", "tls.crt", "tls.key"]);
    has_driver(&spoke, "");
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    gone(&spoke.managed, &other, CUSTOM_SECRET);
    eventually("nothing is stored", || spoke.stored_for_addons().is_none());
}

/// A hub that denies the cluster says nothing about its add-ons; an add-on that is being deleted may need the
/// credential to clean up.
#[test]
fn addon_credential_stays_until_the_add_on_is_gone() {
    let (spoke, mut agent, namespace, _) = registered("addon-deleting");
    let is_there = || {
        spoke.managed.read_secret(&namespace, KUBE_CLIENT_SECRET).is_some()
            && spoke.stored_for_addons().is_some()
    };
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    spoke.hub.deny(&spoke.cluster);
    agent.wait_for("goes stale: the hub does not accept the cluster");
    stays("a denied cluster keeps it", is_there);
    spoke.hub.accept(&spoke.cluster);
    beats_again(&agent, 1);
    let target = addons();
    let target = target.object(&spoke.cluster, ADDON);
    spoke.hub.cluster.hold(&target);
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    stays("the credential stays", is_there);
    agent.stops_as_asked();
    let agent = spoke.start(&[]);
    agent.wait_for_code("/readyz", 200);
    stays("the credential stays after a restart", is_there);
    spoke.hub.cluster.release(&target);
    gone(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
}

/// The add-on goes while no process runs, which upstream forgets. What somebody else put into the Secret stays; a
/// Secret that is another cluster's by now stays whole.
#[test]
fn addon_secret_of_another_cluster_is_kept() {
    let [other, word] = ["another-cluster", "x"].map(|text| BASE64_STANDARD.encode(text));
    let cases = [
        (json!({}), None),
        (json!({"theirs": word}), Some(1)),
        (json!({"cluster-name": other}), Some(4)),
    ];
    for (change, keys) in cases {
        let (spoke, mut agent, namespace, _) = registered("addon-orphan");
        agent.stops_as_asked();
        let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
        spoke.managed.merge(&secret, &json!({"data": change}));
        spoke.hub.delete_addon(&spoke.cluster, ADDON);
        let _agent = spoke.start(&[]);
        eventually("nothing is stored", || spoke.stored_for_addons().is_none());
        let left = spoke.managed.read_secret(&namespace, KUBE_CLIENT_SECRET).map(|data| data.len());
        assert_eq!(left, keys, "{change}");
    }
}

#[test]
fn deleted_managed_cluster_is_not_made_again() {
    let spoke = Spoke::auto("removed");
    let agent = beating(&spoke, &[]);
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
