//! A credential that is lost while the program runs: expired, deleted or rejected. Any identity that is left is
//! used to request another one.

use std::time::{Duration, Instant, SystemTime};

use dev_apiserver::{Action, Rule, SignerOptions};
use suite::{
    eventually,
    identity::Data,
    needs::{Need, needs},
    spoke::Spoke,
    within,
};

use crate::joining::support::{
    joined, renewed_alone, roles, settled, stays_as_it_is, version, wait_for_another,
};

/// On an embedded hub: certificates for so many seconds from now on.
pub(crate) fn sign_for(spoke: &Spoke, seconds: u64) {
    let lifetime = Duration::from_secs(seconds);
    spoke.hub.cluster.server().set_signer(SignerOptions { lifetime, ..Default::default() });
}

pub(crate) fn wait_for_the_end(spoke: &Spoke) {
    let end = spoke.certificate().expect("the certificate").not_after;
    eventually("the certificate has expired", || (SystemTime::now() > end).then_some(()));
}

#[test]
fn the_secret_is_emptied_and_what_others_put_there_stays() {
    let (spoke, mut sidecar) = joined("emptied");
    let before = spoke.credential().expect("the Secret");
    let foreign: Data = [("theirs".to_owned(), b"stays".to_vec())].into();
    spoke.put_secret(&spoke.secret, &foreign);
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert_eq!(now["theirs"], b"stays");
    assert_eq!(now["kubeconfig"], before["kubeconfig"]);
    assert_eq!(now["cluster-name"], before["cluster-name"]);
}

#[test]
fn deleted_secret_comes_back_without_bootstrap_kubeconfig() {
    let (spoke, mut sidecar) = joined("deleted-alone");
    let before = spoke.credential().expect("the Secret");
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    spoke.delete_secret(&spoke.secret);
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert_eq!(now["kubeconfig"], before["kubeconfig"], "it remembers the hub");
}

#[test]
fn lost_names_are_put_back_without_a_request() {
    let (spoke, mut sidecar) = joined("no-names");
    let before = spoke.credential().expect("the Secret");
    let mut data = before.clone();
    data.remove("cluster-name");
    data.insert("agent-name".into(), b"somebody".to_vec());
    spoke.put_secret(&spoke.secret, &data);
    eventually("the names are back", || (spoke.credential()? == before).then_some(()));
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
}

// --- 401 ---

fn unauthorized() -> Action {
    Action::Answer { code: 401, body: None, retry_after: None }
}

#[test]
fn few_401_change_nothing() {
    if !needs(Need::Embedded, "401 can be asked for") {
        return;
    }
    let (spoke, mut sidecar) = joined("blip");
    let faults = spoke.hub.cluster.faults();
    let rule = faults.add(Rule::new(unauthorized()).user(&spoke.user()).times(3));
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    spoke.hub_relay.cut();
    eventually("it is refused some times", || (faults.hits(rule) == 3).then_some(()));
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
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
    let rule = faults.add(Rule::new(unauthorized()).user(&spoke.user()));
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
