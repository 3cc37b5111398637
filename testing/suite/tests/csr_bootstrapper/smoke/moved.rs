//! The hub has moved, or is another one.

use suite::{
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    relay::{Relay, Way},
    within,
};

use crate::joining::{
    support::{
        gives_signs, is_seen, joined, kubeconfig, repaired, roles, settled, stays_unchanged,
    },
    two_hubs::{SECONDS, TwoHubs},
};

#[test]
fn hub_at_another_port_is_followed() {
    let (spoke, mut sidecar) = joined("moved-port");
    let before = spoke.credential().expect("the Secret");
    let relay = Relay::to(&spoke.hub.cluster.address);
    relay.set(Way::Closed);
    let address = relay.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    // Nobody answers there yet.
    sidecar.wait_for("at its new address");
    relay.set(Way::Open);
    let now = repaired(&spoke, &mut sidecar, &before);
    assert!(kubeconfig(&now).contains(&address), "{}", kubeconfig(&now));
    sidecar.wait_for("the server differs");
    // The old way is not used any more.
    spoke.hub_relay.set(Way::Closed);
    gives_signs(&spoke);
}

/// Another server of the same authority, which knows neither cluster nor agent.
// ocm spokeagent_rebootstrap_test.go:503
#[test]
fn another_hub_in_the_bootstrap_kubeconfig_is_joined() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let (mut spoke, mut sidecar) = joined("moved-hub");
    let before = spoke.credential().expect("the Secret");
    let hub = Hub::new();
    spoke.put_bootstrap(&hub.bootstrap_kubeconfig(&hub.cluster.address, Bootstrap::Manual));
    let request = hub.next_csr(&spoke.cluster);
    assert_eq!(
        spoke.credential().as_ref(),
        Some(&before),
        "the credential stays until there is another"
    );
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1, "the old hub is asked for nothing");
    gives_signs(&spoke);
    hub.approve_csr(&request);
    hub.accept(&spoke.cluster);
    let old = std::mem::replace(&mut spoke.hub, hub);
    is_seen(&spoke.hub, &spoke.cluster);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
    let now = spoke.credential().expect("the Secret");
    assert!(kubeconfig(&now).contains(&spoke.hub.cluster.address), "{}", kubeconfig(&now));
    assert!(sidecar.alive(), "{}", sidecar.log());
    // It serves the new one, and leaves the old one alone.
    gives_signs(&spoke);
    let user = spoke.user();
    old.cluster.server().clear_requests();
    gives_signs(&spoke);
    let late = old.cluster.server().requests();
    assert!(late.iter().all(|request| request.user != user), "{late:?}");
}

#[test]
fn move_that_is_taken_back_changes_nothing() {
    let (spoke, mut sidecar) = joined("moved-back");
    let before = spoke.credential();
    let nobody = Relay::to(&spoke.hub.cluster.address);
    nobody.set(Way::Closed);
    let address = nobody.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    sidecar.wait_for("at its new address");
    assert_eq!(spoke.credential(), before);
    gives_signs(&spoke);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    sidecar.wait_for_code("/readyz", 200);
    stays_unchanged(&spoke, &mut sidecar);
    assert_eq!((spoke.credential(), roles(&spoke)), (before, vec!["bootstrap"]));
}

// ocm spokeagent_switch_hub_test.go: hub1 does not accept client
#[test]
fn hub_that_denies_the_cluster_is_left() {
    let mut stage = TwoHubs::new("switch-denied", Bootstrap::Manual);
    let mut agent = stage.joins_first(&[]);
    stage.spoke.hub.deny(&stage.spoke.cluster);
    let second = stage.second.clone();
    let request = within(SECONDS, "it asks hub2", || second.open_csr(&stage.spoke.cluster));
    second.approve_csr(&request);
    second.accept(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    assert_eq!(old.csrs_of(&stage.spoke.cluster).len(), 1, "hub1 is asked for nothing more");
    agent.wait_for("does not accept the cluster");
    assert_eq!(stage.spoke.count_events("BootstrapSelected"), 2);
    assert!(agent.alive(), "{}", agent.log());
}
