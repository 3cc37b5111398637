//! The status of the ManagedCluster: clock, version, the end of a credential. Health is in health.rs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dev_apiserver::{Options, SignerOptions};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub, SYNCED},
    pause,
    spoke::Spoke,
    throughout,
};

use crate::support::{beating, beats_again, cluster, count, joined, sent, words};

#[test]
fn the_version_of_kubernetes_is_reported_and_corrected() {
    let (spoke, _agent) = joined("version", &[]);
    let answer = spoke.managed.client.text("/version").expect("the version").1;
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let told = || cluster(&spoke)["status"]["version"]["kubernetes"].clone();
    eventually("the version is told", || (told() == answer["gitVersion"]).then_some(()));
    let clusters = suite::ocm::clusters();
    let status = suite::ocm::global(&clusters, &spoke.cluster).status();
    let wrong = json!({"status": {"version": {"kubernetes": "v0.0.1"}}});
    spoke.hub.cluster.merge(&status, &wrong);
    eventually("the version is told again", || (told() == answer["gitVersion"]).then_some(()));
}

#[test]
fn status_is_not_written_while_the_clocks_differ() {
    if !needs(Need::Embedded, "the real hub looks at the clock itself, and this one is right") {
        return;
    }
    let (spoke, agent) = joined("clock", &[]);
    spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
    set_condition(&spoke, SYNCED, "False");
    agent.wait_for("the clocks differ: the spoke's health is not reported");
    // Something to write: the hub lost its mind about the version, and sight of the cluster.
    let before = count(&spoke, "patch managedclusters/status");
    let clusters = suite::ocm::clusters();
    let status = suite::ocm::global(&clusters, &spoke.cluster).status();
    spoke.hub.cluster.merge(&status, &json!({"status": {"version": {"kubernetes": "v0.0.1"}}}));
    throughout(3000, "nothing is written", || {
        count(&spoke, "patch managedclusters/status") == before
    });
    assert_eq!(agent.warnings("the clocks differ"), 1, "{}", agent.log());
    set_condition(&spoke, SYNCED, "True");
    eventually("it is written now", || {
        (count(&spoke, "patch managedclusters/status") > before).then_some(())
    });
    agent.wait_for("the clocks agree again");
    assert_ne!(cluster(&spoke)["status"]["version"]["kubernetes"], "v0.0.1");
}

/// As the hub would, behind the API.
fn set_condition(spoke: &Spoke, kind: &str, to: &str) {
    let server = spoke.hub.cluster.server();
    let group = "cluster.open-cluster-management.io/v1";
    server.alter(group, "managedclusters", "", &spoke.cluster, |cluster| {
        let conditions = cluster["status"]["conditions"].as_array_mut();
        for condition in conditions.into_iter().flatten() {
            if condition["type"] == kind {
                condition["status"] = json!(to);
            }
        }
        true
    });
}

#[test]
fn steady_state_sends_only_the_heartbeat() {
    if !needs(Need::Embedded, "on the real hub the audit looks at this") {
        return;
    }
    let (spoke, agent) = beating("steady", &[]);
    spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
    pause(2000);
    let (start, before) = (Instant::now(), sent(&spoke).len());
    beats_again(&agent, 5);
    let after = sent(&spoke).split_off(before);
    // One each second, however slow this machine is.
    let most = start.elapsed().as_secs() as usize + 2;
    assert!((5..=most).contains(&after.len()), "{most}: {after:?}");
    assert!(after.iter().all(|request| words(request) == "update leases"), "{after:?}");
}

/// A hub whose certificates last so many seconds.
fn short_lived(name: &str, seconds: u64) -> Spoke {
    let signer = SignerOptions {
        lifetime: Duration::from_secs(seconds),
        backdate: Duration::ZERO,
        ..SignerOptions::default()
    };
    let hub = Cluster::embedded_with("hub", Options { signer, ..Options::default() });
    let managed: Arc<Cluster> = Cluster::embedded("managed");
    Spoke::between(Hub::on(hub), managed, name, Bootstrap::Auto)
}

#[test]
fn expired_credential_asks_the_hub_seldom() {
    if !needs(Need::Embedded, "the real signer's shortest certificate lasts ten minutes") {
        return;
    }
    let spoke = short_lived("expired", 8);
    let agent = crate::support::joins(&spoke, &[]);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 1);
    // Nobody signs another one, and nobody else is there to ask. But both clocks may be wrong: without a
    // word from the hub that would never be found out.
    spoke.hub.cluster.faults().deny("create", "certificatesigningrequests", "");
    spoke.delete_secret(&spoke.bootstrap);
    let body = agent.wait_for_code("/readyz", 503);
    assert!(body.contains("has a certificate that expired at "), "{body}");
    assert!(body.contains("no bootstrap kubeconfig"), "{body}");
    let before = sent(&spoke).len();
    pause(5000);
    let count = sent(&spoke).len() - before;
    assert!(count <= 10, "{count} requests: {}", agent.log());
    assert_eq!(agent.ask("/healthz").0, 200);

    // With somebody to ask it is back.
    spoke.hub.cluster.faults().clear();
    spoke.hub.cluster.server().set_signer(SignerOptions::default());
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    agent.wait_for_code("/readyz", 200);
    eventually("the heartbeat goes on", || crate::support::beats(&agent) >= 2.0);
    beats_again(&agent, 1);
}
