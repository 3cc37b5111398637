//! The status of the ManagedCluster: clock and version. Health is in health.rs.

use std::time::Instant;

use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::{SYNCED, clusters},
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
    eventually("the version is told", || told() == answer["gitVersion"]);
    set_wrong_version(&spoke);
    eventually("the version is told again", || told() == answer["gitVersion"]);
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
    set_wrong_version(&spoke);
    throughout(3000, "nothing is written", || {
        count(&spoke, "patch managedclusters/status") == before
    });
    assert_eq!(agent.warnings("the clocks differ"), 1, "{}", agent.log());
    set_condition(&spoke, SYNCED, "True");
    eventually("it is written now", || count(&spoke, "patch managedclusters/status") > before);
    agent.wait_for("the clocks agree again");
    assert_ne!(cluster(&spoke)["status"]["version"]["kubernetes"], "v0.0.1");
}

fn set_wrong_version(spoke: &Spoke) {
    let clusters = clusters();
    let status = clusters.cluster_object(&spoke.cluster).status();
    spoke.hub.cluster.merge(&status, &json!({"status": {"version": {"kubernetes": "v0.0.1"}}}));
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
