//! A credential that is lost while the program runs: expired, deleted or rejected. Any identity that is left is
//! used to request another one.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use suite::{
    identity::Data,
    needs::{Need, needs},
    within,
};

use crate::joining::support::{
    joined, renewed_alone, roles, settled, stays_as_it_is, version, wait_for_another,
};

/// The program remembers the hub.
#[test]
fn emptied_secret_comes_back_without_bootstrap_kubeconfig() {
    let (spoke, mut sidecar) = joined("emptied");
    let before = spoke.credential().expect("the Secret");
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    let foreign: Data = [("theirs".to_owned(), b"stays".to_vec())].into();
    spoke.put_secret(&spoke.secret, &foreign);
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert_eq!(now["theirs"], b"stays");
    for key in ["kubeconfig", "cluster-name"] {
        assert_eq!(now[key], before[key], "{key}");
    }
}

/// Longer than the others: 30 to 60 s tell a refusal from a hub that restarts, and the loop looks every 15 s.
#[test]
fn refused_certificate_is_replaced_after_its_patience() {
    if !needs(Need::Embedded, "401 can be asked for") {
        return;
    }
    let (spoke, sidecar) = joined("refused");
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let (before, written) = (spoke.credential().expect("the Secret"), version(&spoke));
    let faults = spoke.hub.cluster.faults();
    let unauthorized = Action::Answer { code: 401, body: None, retry_after: None };
    let rule = faults.add(Rule::new(unauthorized).user(&spoke.user()));
    spoke.hub_relay.cut();
    let start = Instant::now();
    within(100, "the bootstrap identity asks", || {
        assert_eq!(version(&spoke), written, "it stays until it is replaced");
        roles(&spoke).len() > 1
    });
    assert!(start.elapsed() > Duration::from_secs(30), "{:?}", start.elapsed());
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains("does not accept the certificate"), "{why}");
    // Accepted again, the old certificate would need no other one.
    spoke.hub.approve_next(&spoke.cluster);
    wait_for_another(&spoke, &before);
    faults.remove(rule);
    settled(&spoke, &sidecar);
    stays_as_it_is(&spoke, &mut { sidecar });
    assert_eq!(roles(&spoke), ["bootstrap", "bootstrap"]);
}
