//! A credential that is lost while the program runs: expired, deleted or rejected. Any identity that is left is
//! used to request another one.

use std::time::{Duration, Instant, SystemTime};

use dev_apiserver::{Action, Rule, SignerOptions};
use suite::{
    Stopwatch, eventually,
    identity::Data,
    needs::{Need, needs},
    pause,
    relay::Way,
    spoke::{EXPIRED, Spoke},
};

use crate::joining::support::{
    joined, renewed_alone, roles, settled, stays_as_it_is, version, wait_for_another,
};

/// On an embedded hub: certificates for so many seconds from now on.
fn sign_for(spoke: &Spoke, seconds: u64) {
    let lifetime = Duration::from_secs(seconds);
    spoke.hub.cluster.server().set_signer(SignerOptions { lifetime, ..Default::default() });
}

fn wait_for_the_end(spoke: &Spoke) {
    let end = spoke.certificate().expect("the certificate").not_after;
    eventually("the certificate has expired", || (SystemTime::now() > end).then_some(()));
}

#[test]
fn o_rebootstrap_528_the_certificate_expires_while_the_program_is_away() {
    if !needs(Need::Embedded, "the signer's lifetime can be set") {
        return;
    }
    let spoke = Spoke::auto("expire-away");
    sign_for(&spoke, 5);
    let mut sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    sidecar.kill();
    let before = spoke.credential().expect("the Secret");
    let asked = roles(&spoke).len();
    wait_for_the_end(&spoke);
    sign_for(&spoke, 3600);
    let sidecar = spoke.start(&[]);
    wait_for_another(&spoke, &before);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke).len(), asked + 1);
    assert_eq!(roles(&spoke).iter().filter(|role| **role == "bootstrap").count(), 2);
}

#[test]
fn o_rebootstrap_528_the_certificate_expires_while_the_hub_is_away() {
    if !needs(Need::Embedded, "the signer's lifetime can be set") {
        return;
    }
    let spoke = Spoke::auto("expire-hub");
    sign_for(&spoke, 4);
    let mut sidecar = spoke.start(&[]);
    spoke.wait_for_certificate();
    spoke.hub_relay.set(Way::Closed);
    let before = spoke.credential().expect("the Secret");
    wait_for_the_end(&spoke);
    sidecar.wait_for(EXPIRED);
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains("expired at"), "{why}");
    assert_eq!(sidecar.ask("/healthz").0, 200);
    sign_for(&spoke, 3600);
    spoke.hub_relay.set(Way::Open);
    wait_for_another(&spoke, &before);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke).iter().filter(|role| **role == "bootstrap").count(), 2);
    assert!(sidecar.alive(), "{}", sidecar.log());
}

/// The hub denied the cluster, so it does not renew; the bootstrap identity gets a certificate all the same.
#[test]
fn a_renewal_that_nobody_answers_gives_way_to_the_bootstrap_identity() {
    if !needs(Need::Embedded, "the signer's lifetime can be set") {
        return;
    }
    let spoke = Spoke::auto("expire-denied");
    sign_for(&spoke, 7);
    let mut sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    spoke.hub.deny(&spoke.cluster);
    let renewal = spoke.hub.next_csr(&spoke.cluster);
    let before = spoke.credential().expect("the Secret");
    sign_for(&spoke, 3600);
    wait_for_the_end(&spoke);
    // News, after which it looks at once; else it does every 15 s.
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    sidecar.wait_for(EXPIRED);
    sidecar.wait_for(&format!("CSR {renewal} is not what this agent asks for now"));
    wait_for_another(&spoke, &before);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke).iter().filter(|role| **role == "bootstrap").count(), 2);
    assert!(sidecar.alive(), "{}", sidecar.log());
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
fn the_secret_is_deleted() {
    let (spoke, mut sidecar) = joined("deleted");
    let before = spoke.credential().expect("the Secret");
    spoke.delete_secret(&spoke.secret);
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert_eq!(now["kubeconfig"], before["kubeconfig"]);
}

#[test]
fn the_secret_is_deleted_and_there_is_no_bootstrap_kubeconfig_any_more() {
    let (spoke, mut sidecar) = joined("deleted-alone");
    let before = spoke.credential().expect("the Secret");
    spoke.delete_secret(&spoke.bootstrap);
    sidecar.wait_for("no valid bootstrap kubeconfig");
    spoke.delete_secret(&spoke.secret);
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert_eq!(now["kubeconfig"], before["kubeconfig"], "it remembers the hub");
}

#[test]
fn a_lost_kubeconfig_takes_no_person() {
    let (spoke, mut sidecar) = joined("no-kubeconfig");
    let mut data = spoke.credential().expect("the Secret");
    let before = data.clone();
    data.remove("kubeconfig");
    spoke.put_secret(&spoke.secret, &data);
    let now = renewed_alone(&spoke, &mut sidecar, &before);
    assert_eq!(now["kubeconfig"], before["kubeconfig"]);
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
fn some_401_are_no_reason_for_anything() {
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
fn a_refused_certificate_is_replaced_by_way_of_the_bootstrap_identity() {
    if !needs(Need::Embedded, "401 can be asked for") {
        return;
    }
    let (spoke, sidecar) = joined("refused");
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let (before, written) = (spoke.credential().expect("the Secret"), version(&spoke));
    let faults = spoke.hub.cluster.faults();
    let rule = faults.add(Rule::new(unauthorized()).user(&spoke.user()));
    spoke.hub_relay.cut();
    let (start, watch) = (Instant::now(), Stopwatch::start());
    while roles(&spoke).len() == 1 {
        assert!(watch.is_within(Duration::from_secs(100)), "{}", sidecar.log());
        assert_eq!(version(&spoke), written, "it stays until it is replaced");
        pause(100);
    }
    assert!(start.elapsed() > Duration::from_secs(30), "{:?}", start.elapsed());
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains("does not accept the certificate"), "{why}");
    faults.remove(rule);
    spoke.hub.approve_next(&spoke.cluster);
    wait_for_another(&spoke, &before);
    settled(&spoke, &sidecar);
    stays_as_it_is(&spoke, &mut { sidecar });
    assert_eq!(roles(&spoke), ["bootstrap", "bootstrap"]);
}
