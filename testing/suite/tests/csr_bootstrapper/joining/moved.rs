//! A bootstrap kubeconfig that changes while the program runs: the hub has moved, or it is another hub. The
//! agent's certificate is tried first at the new address; only a hub that does not know it is joined again.

use dev_apiserver::{Action, Ca, Options, Rule};
use suite::{
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    spoke::{Spoke, UNKNOWN},
};

use crate::joining::support::{bootstrap_unknown, joined, roles, settled, stays_unchanged};

#[test]
fn rebuilt_hub_with_the_old_authority_is_joined() {
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

#[test]
fn a_bootstrap_kubeconfig_that_goes_and_comes_changes_nothing() {
    let (spoke, mut sidecar) = joined("moved-nothing");
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    stays_unchanged(&spoke, &mut sidecar);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    sidecar.wait_for("the bootstrap kubeconfig is available again");
    spoke.put_bootstrap("{ half a fi");
    sidecar.wait_for_times("no valid bootstrap kubeconfig", 2);
    stays_unchanged(&spoke, &mut sidecar);
    // A token is nothing that tells hubs apart.
    spoke.put_bootstrap(&bootstrap_unknown(&spoke));
    sidecar.wait_for_times("the bootstrap kubeconfig is available again", 2);
    stays_unchanged(&spoke, &mut sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"], "one request in all");
}
