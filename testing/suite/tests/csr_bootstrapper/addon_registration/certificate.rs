//! Certificates of add-ons by CSR, for the hub's API server and for signers of their own.

use std::time::{Duration, Instant};

use apiclient::resource::SECRETS;
use dev_apiserver::SignerOptions;
use serde_json::json;
use suite::{
    eventually,
    identity::Data,
    needs::{Need, needs},
    ocm::{AVAILABLE, SYNCED},
    pause,
    spoke::AGENT,
    stays,
};

use super::support::*;
use crate::{
    addon::{renew, seconds_ago},
    support::{account, beats_again, sent, words},
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
    let server = spoke.hub.cluster.server();
    let short = Duration::from_secs(6);
    server.set_signer(SignerOptions {
        auto_approve: true,
        lifetime: short,
        backdate: Duration::ZERO,
    });
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    let (first, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    let (next, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&first));
    assert_ne!(first["tls.key"], next["tls.key"]);
    assert_eq!(first["kubeconfig"], next["kubeconfig"]);
}

#[test]
fn addon_registration_secret_that_somebody_deletes_comes_back() {
    let (spoke, _agent, namespace, old) = registered("addon-deleted");
    // Before that, the same certificate would be saved again.
    eventually("the request is forgotten", || has_no_request(&spoke));
    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.delete(&secret);
    spoke.hub.approve_next(&spoke.cluster);
    let (new, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&old));
    assert_ne!(old["tls.key"], new["tls.key"], "the old key is lost");
    // What is next to it is put right without the hub.
    let broken = json!({"data": {"kubeconfig": null}});
    spoke.managed.merge(&secret, &broken);
    eventually("it is whole again", || {
        data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).as_ref() == Some(&new)
    });
    assert_eq!(csrs(&spoke).len(), 2);
}

/// The default user is another one as of OCM 1.3.
#[test]
fn certificate_of_the_former_default_user_stays() {
    let (spoke, mut agent, namespace) = stage("addon-user", &[]);
    let former = format!("{}:agent:{AGENT}", group(&spoke));
    let named = json!({"user": former, "groups": [group(&spoke)]});
    add(&spoke, &namespace, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    spoke.hub.approve_next(&spoke.cluster);
    let (old, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(issued.bearer.common_name, former);
    // As before OCM 1.3 without a user.
    register(&spoke, &of_signer(KUBE_CLIENT));
    let is_kept = || {
        let now = data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
        csrs(&spoke).len() == 1 && now.as_ref() == Some(&old)
    };
    stays("it is kept", is_kept);
    agent.stops_as_asked();
    let agent = spoke.start(&[]);
    agent.wait_for_code("/readyz", 200);
    stays("it is kept after a restart", is_kept);
    // Another user that the add-on names counts.
    let named = json!({"user": user(&spoke), "groups": [group(&spoke)]});
    register(&spoke, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    spoke.hub.approve_next(&spoke.cluster);
    let (_, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&old));
    assert_eq!(issued.bearer.common_name, user(&spoke));
}

/// Nothing happens but that the add-on's agent renews its Lease.
#[test]
fn steady_state_sends_only_the_heartbeat() {
    if !needs(Need::Embedded, "requests are counted") {
        return;
    }
    let (spoke, agent, namespace, _) = registered("addon-quiet");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "ClusterCertificateRotated", "True");
    told(&spoke, "Available", "True");
    for kind in [AVAILABLE, SYNCED] {
        spoke.hub.wait_for_condition(&spoke.cluster, kind, "True");
    }
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 1);
    eventually("the store is settled", || has_no_request(&spoke));
    pause(1000);
    let of_managed = || {
        let all = spoke.managed.requests_of(&account(&spoke));
        // The add-on's Lease may be read as often as it changes.
        all.iter().filter(|it| it.resource != "leases").count()
    };
    let (hub, managed, used) = (sent(&spoke).len(), of_managed(), agent.cpu_time());
    let start = Instant::now();
    for _ in 0..20 {
        renew(&spoke.managed, &namespace, &seconds_ago(0));
        pause(150);
    }
    // A heartbeat each second, however slow this machine is.
    let most = start.elapsed().as_secs() as usize + 2;
    let asked = sent(&spoke).split_off(hub);
    assert!((2..=most).contains(&asked.len()), "{most}: {asked:?}");
    assert!(asked.iter().all(|request| words(request) == "update leases"), "{asked:?}");
    // The health check each second, and the version with it.
    let most = 2 * most;
    assert!(of_managed() - managed <= most, "{most}: {}", of_managed() - managed);
    // A loop that wakes itself would take all of a processor.
    let took = agent.cpu_time() - used;
    assert!(took < Duration::from_secs(1), "{took:?} in 3 s");
    assert_eq!(csrs(&spoke).len(), 1);
}
