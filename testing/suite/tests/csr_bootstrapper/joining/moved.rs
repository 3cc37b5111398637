//! A bootstrap kubeconfig that changes while the program runs: the hub has moved, or it is another hub. The
//! agent's certificate is tried first at the new address; only a hub that does not know it is joined anew.

use dev_apiserver::{Action, Ca, Options, Rule};
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    spoke::{Spoke, UNKNOWN},
    throughout,
};

use crate::{
    joining::support::{
        bootstrap_unknown, joined, kubeconfig, let_in, roles, settled, stays_as_it_is,
    },
    support::asking,
};

#[test]
fn another_hub_while_a_request_waits_at_the_first() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let (mut spoke, sidecar, request) = asking("moved-waiting");
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
    new.cluster.faults().add(Rule::new(Action::Forbid).user(&spoke.user()));
    spoke.put_bootstrap(&new.bootstrap_kubeconfig(&new.cluster.address, Bootstrap::Auto));
    sidecar.wait_for(UNKNOWN);
    eventually("the cluster is there", || new.managed_cluster(&spoke.cluster));
    new.cluster.faults().heal();
    spoke.hub = new;
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
    assert!(sidecar.alive(), "{}", sidecar.log());
}

/// The old hub still renews the agent's certificate, which is of no use next to the new hub's kubeconfig.
#[test]
fn request_at_the_new_hub_outlives_a_restart_and_the_secret() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let (mut spoke, mut sidecar) = joined("moved-restart");
    let hub = Hub::new();
    spoke.put_bootstrap(&hub.bootstrap_kubeconfig(&hub.cluster.address, Bootstrap::Manual));
    let request = hub.next_csr(&spoke.cluster);
    sidecar.kill();
    let sidecar = spoke.start(&[]);
    sidecar.wait_for(&format!("CSR {request} is not approved yet"));
    spoke.delete_secret(&spoke.secret);
    throughout(3000, "nothing is requested at the old hub", || roles(&spoke).len() == 1);
    hub.approve_csr(&request);
    hub.accept(&spoke.cluster);
    let old = std::mem::replace(&mut spoke.hub, hub);
    settled(&spoke, &sidecar);
    let now = kubeconfig(&spoke.credential().expect("the Secret"));
    assert!(now.contains(&spoke.hub.cluster.address), "{now}");
    assert_eq!(roles(&spoke), ["bootstrap"], "{}", sidecar.log());
    assert_eq!(old.csrs_of(&spoke.cluster).len(), 1);
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
