//! Certificates of add-ons by CSR, for the hub's API server and for signers of their own.

use std::time::Duration;

use apiclient::resource::SECRETS;
use serde_json::json;
use suite::{
    eventually,
    identity::Data,
    needs::{Need, needs},
    ocm::{AVAILABLE, SYNCED},
    spoke::AGENT,
};

use super::support::*;
use crate::{
    certificate::signs_for,
    support::{beats_again, sent},
};

pub(crate) fn keys(data: &Data) -> Vec<&str> {
    data.keys().map(String::as_str).collect()
}

#[test]
fn addon_registration_is_rotated() {
    if !needs(Need::Embedded, "certificates are short") {
        return;
    }
    let (spoke, _agent, namespace) = stage("addon-rotated", &[]);
    signs_for(&spoke, 6, 0);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    let (first, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    spoke.hub.approve_next(&spoke.cluster);
    let (next, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&first));
    assert_ne!(first["tls.key"], next["tls.key"]);
    assert_eq!(first["kubeconfig"], next["kubeconfig"]);
}

/// Each edit needs another CSR, of the same key.
#[test]
fn subject_that_changes_again_and_again_is_halted() {
    let (spoke, _agent, namespace) = stage("addon-halted", &[]);
    let of =
        |user: usize| json!([{"signerName": KUBE_CLIENT, "subject": {"user": user.to_string()}}]);
    add(&spoke, &namespace, &of(0));
    for user in 1..=10 {
        eventually("the CSR", || csrs(&spoke).len() >= user);
        register(&spoke, &of(user));
    }
    told(&spoke, "ClusterCertificateRotated", "False");
    assert_eq!(csrs(&spoke).len(), 10);
}

/// The default user is another one since OCM 1.3. What is next to the certificate is repaired; without its Secret there
/// is another one.
#[test]
fn certificate_of_the_former_default_user_stays() {
    let (spoke, _agent, namespace) = stage("addon-user", &[]);
    let former = format!("{}:agent:{AGENT}", group(&spoke));
    let named = json!({"user": former, "groups": [group(&spoke)]});
    add(&spoke, &namespace, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    spoke.hub.approve_next(&spoke.cluster);
    let (old, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(issued.bearer.common_name, former);
    // As before OCM 1.3 without a user.
    register(&spoke, &of_signer(KUBE_CLIENT));
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.merge(&secret, &json!({"data": {"kubeconfig": null}}));
    eventually("it is whole again", || {
        spoke.managed.read_secret(&namespace, KUBE_CLIENT_SECRET).as_ref() == Some(&old)
    });
    assert_eq!(csrs(&spoke).len(), 1);
    // Another user that the add-on names counts.
    let named = json!({"user": user(&spoke), "groups": [group(&spoke)]});
    register(&spoke, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    spoke.hub.approve_next(&spoke.cluster);
    let (new, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&old));
    assert_eq!(issued.bearer.common_name, user(&spoke));
    // Before that, the same certificate would be saved again.
    eventually("the request is forgotten", || has_no_request(&spoke));
    spoke.managed.delete(&secret);
    spoke.hub.approve_next(&spoke.cluster);
    let (last, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&new));
    assert_ne!(last["tls.key"], new["tls.key"], "the old key is lost");
}

#[test]
fn steady_state_sends_only_the_heartbeat() {
    if !needs(Need::Embedded, "requests are counted") {
        return;
    }
    let (spoke, agent, namespace, _) = registered("addon-quiet");
    put_lease(&spoke.managed, &namespace);
    told(&spoke, "ClusterCertificateRotated", "True");
    told(&spoke, "Available", "True");
    for kind in [AVAILABLE, SYNCED] {
        spoke.hub.wait_for_condition(&spoke.cluster, kind, "True");
    }
    eventually("the store is settled", || has_no_request(&spoke));
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    // What is still to be said of the cluster may take a while.
    eventually("only heartbeats are sent", || {
        let before = sent(&spoke).len();
        beats_again(&agent, 3);
        let asked = sent(&spoke).split_off(before);
        asked.iter().all(|it| it.verb == "update" && it.resource == "leases")
    });
    let used = agent.cpu_time();
    beats_again(&agent, 3);
    // A loop that wakes itself would take all of a processor.
    let took = agent.cpu_time() - used;
    assert!(took < Duration::from_secs(1), "{took:?} in 3 s");
}
