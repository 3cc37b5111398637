//! The hub has moved, or is another one.

use serde_json::json;
use suite::{
    eventually, identity,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    relay::{Relay, Way},
    stays, within,
};

use crate::{
    joining::{
        support::{
            bootstrap_unknown, gives_signs, is_seen, joined, kubeconfig, roles, settled,
            stays_unchanged,
        },
        two_hubs::{SECONDS, TwoHubs},
    },
    support::beats_again,
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
    let now = eventually("another kubeconfig is written next to the same certificate", || {
        spoke.credential().filter(|now| kubeconfig(now).contains(&address))
    });
    assert_eq!((&now["tls.crt"], &now["tls.key"]), (&before["tls.crt"], &before["tls.key"]));
    assert_eq!(roles(&spoke), ["bootstrap"], "{}", sidecar.log());
    settled(&spoke, &sidecar);
    assert!(sidecar.alive(), "{}", sidecar.log());
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

/// The bootstrap kubeconfig names a place where nobody answers, goes, comes and is junk, also at the next start.
#[test]
fn bootstrap_kubeconfig_that_leads_nowhere_changes_nothing() {
    let (spoke, mut sidecar) = joined("moved-nothing");
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
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    stays_unchanged(&spoke, &mut sidecar);
    // A token is nothing that tells hubs apart.
    spoke.put_bootstrap(&bootstrap_unknown(&spoke));
    sidecar.wait_for("the bootstrap kubeconfig is available again");
    spoke.put_bootstrap("{ half a fi");
    sidecar.wait_for_times("no valid bootstrap kubeconfig", 2);
    stays_unchanged(&spoke, &mut sidecar);
    for bad in [bootstrap_unknown(&spoke), "junk".to_owned(), String::new()] {
        sidecar.terminate();
        spoke.put_bootstrap(&bad);
        sidecar = spoke.start(&[]);
        settled(&spoke, &sidecar);
        assert_eq!((spoke.credential(), roles(&spoke)), (before.clone(), vec!["bootstrap"]));
    }
}

// ocm spokeagent_switch_hub_test.go: hub1 does not accept client
#[test]
fn hub_that_denies_the_cluster_is_left() {
    let mut stage = TwoHubs::new("switch-denied", Bootstrap::Manual);
    let mut agent = stage.joins_first(&[]);
    stage.spoke.hub.deny(&stage.spoke.cluster);
    let second = stage.second.clone();
    let request = within(SECONDS, "it asks hub2", || second.open_csr(&stage.spoke.cluster));
    agent.wait_for("does not accept the cluster");
    assert_eq!(stage.spoke.count_events("BootstrapSelected"), 2);
    // Killed in the middle of the switch, where upstream would begin with hub1 again.
    agent.kill();
    let mut agent = stage.start(&[]);
    agent.wait_for("hub2.kubeconfig is selected");
    agent.wait_for("is not approved yet");
    second.approve_csr(&request);
    second.accept(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    assert_eq!(roles(&stage.spoke), ["bootstrap"], "one request on hub2");
    // Bootstrap tokens live for hours: after a restart the certificate is enough, though hub1 comes first.
    old.accept(&stage.spoke.cluster);
    let before = stage.spoke.credential();
    agent.kill();
    let address = stage.way.address.to_string();
    let expired = identity::kubeconfig(&address, &second.cluster.ca, &json!({"token": "expired"}));
    stage.spoke.write("hub2.kubeconfig", &expired.to_string());
    let agent = stage.start(&[]);
    beats_again(&agent, 2);
    stays("hub1 is not better", || {
        stage.spoke.credential() == before && old.csrs_of(&stage.spoke.cluster).len() == 1
    });
    let ready = agent.wait_for_code("/readyz", 200);
    assert!(ready.contains(&format!("hub https://{address} is selected")), "{ready}");
}
