//! The hub has moved, or is another one.

use dev_apiserver::{Action, Options, Rule};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually, identity,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    relay::{Relay, Way},
    sidecar::Sidecar,
    spoke::UNKNOWN,
    stays, within,
};

use crate::{
    joining::two_hubs::{SECONDS, TwoHubs},
    support::{
        admitted, beats_again, bootstrap_unknown, gives_signs, is_seen, kubeconfig, let_in, roles,
        settled, stays_unchanged,
    },
};

/// A deleted, unreachable or invalid bootstrap kubeconfig changes nothing, also at the next start. Once the hub answers
/// at a new address, it is followed with the same certificate.
#[test]
fn hub_is_followed_only_to_where_it_answers() {
    let (spoke, mut sidecar) = admitted("moved-port");
    let before = spoke.credential().expect("the Secret");
    let stays_with = |sidecar: &mut Sidecar| {
        stays_unchanged(&spoke, sidecar);
        assert_eq!(
            (spoke.credential().as_ref(), roles(&spoke)),
            (Some(&before), vec!["bootstrap"])
        );
    };
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    stays_with(&mut sidecar);
    // A token is nothing that tells hubs apart.
    spoke.put_bootstrap(&bootstrap_unknown(&spoke));
    sidecar.wait_for("the bootstrap kubeconfig is available again");
    spoke.put_bootstrap("{ half a fi");
    sidecar.wait_for_times("no valid bootstrap kubeconfig", 2);
    stays_with(&mut sidecar);
    for bad in [bootstrap_unknown(&spoke), "junk".to_owned(), String::new()] {
        sidecar.terminate();
        spoke.put_bootstrap(&bad);
        sidecar = spoke.start(&[]);
        settled(&spoke, &sidecar);
        stays_with(&mut sidecar);
    }

    let relay = Relay::to(&spoke.hub.cluster.address);
    relay.set(Way::Closed);
    let address = relay.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    // Nobody answers there yet.
    sidecar.wait_for("at its new address");
    assert_eq!(spoke.credential().as_ref(), Some(&before));
    gives_signs(&spoke);
    relay.set(Way::Open);
    let now = eventually("another kubeconfig is written next to the same certificate", || {
        spoke.credential().filter(|now| kubeconfig(now).contains(&address))
    });
    assert_eq!((&now["tls.crt"], &now["tls.key"]), (&before["tls.crt"], &before["tls.key"]));
    assert_eq!(roles(&spoke), ["bootstrap"], "{}", sidecar.log());
    settled(&spoke, &sidecar);
    sidecar.wait_for("the server differs");
    // The old way is not used any more.
    spoke.hub_relay.set(Way::Closed);
    gives_signs(&spoke);
}

/// Another server, and then one with that one's authority, to which the certificate is shown first: neither knows the
/// agent.
// ocm spokeagent_rebootstrap_test.go:503
#[test]
fn another_hub_in_the_bootstrap_kubeconfig_is_joined() {
    if !needs(Need::Embedded, "there are more hubs") {
        return;
    }
    let (mut spoke, mut sidecar) = admitted("moved-hub");
    let before = spoke.credential();
    let hub = Hub::new();
    spoke.put_bootstrap(&hub.bootstrap_kubeconfig(&hub.cluster.address, spoke.how));
    let request = hub.next_csr(&spoke.cluster);
    assert_eq!(spoke.credential(), before, "the credential stays until there is another");
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
    // It serves the new one, and leaves the old one alone.
    gives_signs(&spoke);
    let user = spoke.user();
    old.cluster.server().clear_requests();
    gives_signs(&spoke);
    let late = old.cluster.server().requests();
    assert!(late.iter().all(|request| request.user != user), "{late:?}");

    let ca = Some(spoke.hub.cluster.server().ca().clone());
    let options = Options { ca, ..Options::default() };
    let rebuilt = Hub::on(Cluster::embedded_with("hub", options));
    // A real hub gives no rights to an agent that it does not know.
    rebuilt.cluster.faults().add(Rule::new(Action::Forbid).user(&user));
    spoke.put_bootstrap(&rebuilt.bootstrap_kubeconfig(&rebuilt.cluster.address, spoke.how));
    sidecar.wait_for(UNKNOWN);
    rebuilt.cluster.faults().heal();
    spoke.hub = rebuilt;
    let_in(&spoke);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
    assert!(sidecar.alive(), "{}", sidecar.log());
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
