//! Credentials and Leases of add-ons in hosted mode: those of hosted add-ons are on the management cluster, all others
//! on the spoke.

use serde_json::json;
use suite::{
    hosted::Hosted,
    ocm::{HOSTING_CLUSTER, addons},
    relay::Way,
    spoke::Spoke,
    stays, within,
};

use super::support::*;
use crate::hosted::joined;

/// Changes the deploy mode of the add-on.
fn set_hosted(spoke: &Spoke, hosted: bool) {
    let cluster = hosted.then_some("hosting1");
    let patch = json!({"metadata": {"annotations": {HOSTING_CLUSTER: cluster}}});
    spoke.hub.cluster.merge(&addons().object(&spoke.cluster, ADDON), &patch);
}

/// Checks that the add-on's certificate for the hub is only on the management cluster, or only on the spoke.
#[track_caller]
fn is_registered(hosted: &Hosted, namespace: &str, is_hosted: bool) {
    let mut clusters = [&hosted.stage.managed, &hosted.spoke];
    if !is_hosted {
        clusters.reverse();
    }
    certificate(clusters[0], namespace, KUBE_CLIENT_SECRET, None);
    gone(clusters[1], namespace, KUBE_CLIENT_SECRET);
}

/// Also while the spoke is away: what cannot be deleted now is deleted later, even by another process, and what cannot
/// be read is not gone.
#[test]
fn hosted_addon_registration_deploy_mode_changes() {
    let (hosted, mut agent) = joined("hosted-mode");
    let (stage, namespace) = (&hosted.stage, hosted.addon_namespace());
    let moves = |is_hosted: bool| {
        set_hosted(stage, is_hosted);
        stage.hub.approve_next(&stage.cluster);
    };
    add(stage, &namespace, &of_signer(KUBE_CLIENT));
    stage.hub.approve_next(&stage.cluster);
    is_registered(&hosted, &namespace, false);
    // Its Lease is on the same cluster.
    told(stage, "Available", "Unknown");
    put_lease(&hosted.spoke, &namespace);
    told(stage, "Available", "True");
    moves(true);
    is_registered(&hosted, &namespace, true);
    told(stage, "Available", "Unknown");
    put_lease(&stage.managed, &namespace);
    told(stage, "Available", "True");
    // At the next start.
    agent.stops_as_asked();
    set_hosted(stage, false);
    agent = hosted.start(&[]);
    stage.hub.approve_next(&stage.cluster);
    is_registered(&hosted, &namespace, false);

    hosted.way.set(Way::Closed);
    let is_there = || hosted.spoke.read_secret(&namespace, KUBE_CLIENT_SECRET).is_some();
    stays("no other is requested", || csrs(stage).len() == 3 && is_there());
    moves(true);
    certificate(&stage.managed, &namespace, KUBE_CLIENT_SECRET, None);
    agent.wait_for("the credential of an add-on is not deleted");
    agent.stops_as_asked();
    let _agent = hosted.start(&[]);
    stays("it is there", is_there);
    hosted.way.set(Way::Open);
    within(90, "the old one goes", || !is_there());
    is_registered(&hosted, &namespace, true);
    assert_eq!(csrs(stage).len(), 4, "one for each place");
}

/// Of a spoke that takes bytes and says nothing, each request takes ten seconds.
#[test]
fn hosted_addon_does_not_wait_for_a_hanging_spoke() {
    let (hosted, _agent) = joined("hosted-hangs");
    let (stage, namespace) = (&hosted.stage, hosted.addon_namespace());
    hosted.way.set(Way::Silent);
    for number in 0..30 {
        add_another(&stage.hub, &stage.cluster, &format!("a{number}"), &namespace);
    }
    let annotations = json!({HOSTING_CLUSTER: "hosting1"});
    stage.hub.add_annotated_addon(&stage.cluster, ADDON, &namespace, &annotations);
    register(stage, &of_signer(KUBE_CLIENT));
    within(60, "the hosted one asks", || !csrs(stage).is_empty());
}
