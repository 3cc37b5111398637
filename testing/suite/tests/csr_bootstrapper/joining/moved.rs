//! A bootstrap kubeconfig that changes while the program runs: the hub has moved, or it is another hub. The
//! agent's certificate is tried first at the new address; only a hub that does not know it is joined anew.

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Action, Ca, Options, Rule};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    relay::{Relay, Way},
    spoke::{Spoke, UNKNOWN},
};

use crate::joining::support::{
    bootstrap_named, bootstrap_unknown, bootstrap_with, is_seen, joined, kubeconfig, let_in,
    renewed_alone, roles, settled, stays_as_it_is,
};

#[test]
fn the_hub_is_at_another_port() {
    let (spoke, mut sidecar) = joined("moved-port");
    let before = spoke.credential().expect("the Secret");
    let relay = Relay::to(&spoke.hub.cluster.address);
    let address = relay.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert!(kubeconfig(&now).contains(&address), "{}", kubeconfig(&now));
    assert_ne!(now["tls.key"], before["tls.key"]);
    sidecar.wait_for("the server differs");
    // The old way is not used any more.
    spoke.hub_relay.set(Way::Closed);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    is_alive(&spoke);
}

/// Waits for two signs of life.
#[track_caller]
fn is_alive(spoke: &Spoke) {
    let renewed =
        || spoke.hub.heartbeat(&spoke.cluster)?["spec"]["renewTime"].as_str().map(str::to_owned);
    for _ in 0..2 {
        let before = renewed();
        eventually("there is a sign of life", || (renewed() != before).then_some(()));
    }
}

#[test]
fn the_old_address_is_gone_before_the_new_one_is_known() {
    let (spoke, mut sidecar) = joined("moved-late");
    let before = spoke.credential().expect("the Secret");
    spoke.hub_relay.set(Way::Closed);
    let relay = Relay::to(&spoke.hub.cluster.address);
    // Its watch of the ManagedCluster is cut at once.
    sidecar.wait_for("keeping the last known state");
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&relay.address.to_string(), spoke.how));
    renewed_alone(&spoke, &mut sidecar, &before);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    is_alive(&spoke);
}

#[test]
fn the_hub_has_another_authority_too() {
    let (spoke, mut sidecar) = joined("moved-ca");
    let before = spoke.credential().expect("the Secret");
    let both = spoke.hub.cluster.ca.clone() + &Ca::new("next").certificate_pem;
    let both = BASE64_STANDARD.encode(both);
    spoke.put_bootstrap(&bootstrap_with(&spoke, |cluster| {
        cluster["certificate-authority-data"] = json!(both);
    }));
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert!(kubeconfig(&now).contains(&both), "{}", kubeconfig(&now));
    sidecar.wait_for("the certificate-authority differs");
}

#[test]
fn the_hub_has_another_name() {
    let (spoke, mut sidecar) = joined("moved-name");
    let before = spoke.credential().expect("the Secret");
    spoke.put_bootstrap(&bootstrap_named(&spoke, "renamed"));
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert!(kubeconfig(&now).contains("\n  name: renamed\n"), "{}", kubeconfig(&now));
}

/// The server's name in its certificate is no other hub: the kubeconfig is written anew, and no more.
#[test]
fn what_else_the_connection_needs_takes_no_certificate() {
    let (spoke, mut sidecar) = joined("moved-repair");
    let before = spoke.credential().expect("the Secret");
    spoke.put_bootstrap(&bootstrap_with(&spoke, |cluster| {
        cluster["tls-server-name"] = json!("localhost");
    }));
    let now = eventually("the kubeconfig is written anew", || {
        let now = spoke.credential()?;
        (now["kubeconfig"] != before["kubeconfig"]).then_some(now)
    });
    assert!(
        kubeconfig(&now).contains("\n    tls-server-name: localhost\n"),
        "{}",
        kubeconfig(&now)
    );
    assert_eq!((&now["tls.crt"], &now["tls.key"]), (&before["tls.crt"], &before["tls.key"]));
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
}

/// Another server of the same authority, which knows neither cluster nor agent.
#[test]
fn o_rebootstrap_503_another_hub() {
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
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    is_alive(&spoke);
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
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    is_alive(&spoke);
    let user = spoke.user();
    old.cluster.server().clear_requests();
    is_alive(&spoke);
    let late = old.cluster.server().requests();
    assert!(late.iter().all(|request| request.user != user), "{late:?}");
}

#[test]
fn another_hub_while_a_request_waits_at_the_first() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let mut spoke = Spoke::new("moved-waiting");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let hub = Hub::new();
    spoke.put_bootstrap(&hub.bootstrap_kubeconfig(&hub.cluster.address, Bootstrap::Manual));
    let old = std::mem::replace(&mut spoke.hub, hub);
    let_in(&spoke);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
    // An answer from there comes too late.
    old.approve_csr(&request);
    stays_as_it_is(&spoke, &mut { sidecar });
}

#[test]
fn the_hub_was_set_up_anew_with_its_old_authority() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let ca = Ca::new("shared");
    let with = || Options { ca: Some(ca.clone()), ..Options::default() };
    let old = Hub::on(Cluster::embedded_with("hub", with()));
    let mut spoke = Spoke::joining(old, "moved-rebuilt", Bootstrap::Auto);
    let mut sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    let new = Hub::on(Cluster::embedded_with("hub", with()));
    // A real hub gives no rights to an agent that it does not know.
    refuse(&new, &spoke.user());
    spoke.put_bootstrap(&new.bootstrap_kubeconfig(&new.cluster.address, Bootstrap::Auto));
    sidecar.wait_for(UNKNOWN);
    eventually("the cluster is there", || new.managed_cluster(&spoke.cluster));
    new.cluster.faults().heal();
    spoke.hub = new;
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
    assert!(sidecar.alive(), "{}", sidecar.log());
}

fn refuse(hub: &Hub, user: &str) {
    hub.cluster.faults().add(Rule::new(Action::Forbid).user(user));
}

#[test]
fn a_move_that_is_taken_back_before_anybody_answered_changes_nothing() {
    let (spoke, mut sidecar) = joined("moved-back");
    let before = spoke.credential();
    let nobody = Relay::to(&spoke.hub.cluster.address);
    nobody.set(Way::Closed);
    let address = nobody.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    sidecar.wait_for("at its new address");
    assert_eq!(spoke.credential(), before);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    is_alive(&spoke);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    sidecar.wait_for_code("/readyz", 200);
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!((spoke.credential(), roles(&spoke)), (before, vec!["bootstrap"]));
}

#[test]
fn a_bootstrap_kubeconfig_that_goes_and_comes_changes_nothing() {
    let (spoke, mut sidecar) = joined("moved-nothing");
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    stays_as_it_is(&spoke, &mut sidecar);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    sidecar.wait_for("the bootstrap kubeconfig is available again");
    spoke.put_bootstrap("{ half a fi");
    sidecar.wait_for_times("no valid bootstrap kubeconfig", 2);
    stays_as_it_is(&spoke, &mut sidecar);
    // A token is nothing that tells hubs apart.
    spoke.put_bootstrap(&bootstrap_unknown(&spoke));
    sidecar.wait_for_times("the bootstrap kubeconfig is available again", 2);
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"], "one request in all");
}
