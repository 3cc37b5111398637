//! An unreachable hub: at the start, for a while, and until the certificate has expired.

use suite::{
    needs::{Need, needs},
    ocm::AVAILABLE,
    relay::Way,
    spoke::{EXPIRED, Spoke},
    throughout,
};

use crate::{
    certificate::signs_for,
    support::{beating, beats_again, roles, settled, wait_for_another},
};

// ocm managedcluster_lease_test.go:94
#[test]
fn cut_off_cluster_is_lost_and_comes_back() {
    let spoke = Spoke::auto("cut-off");
    let agent = beating(&spoke, &[]);
    beats_again(&agent, 1);
    spoke.hub_relay.set(Way::Closed);
    agent.wait_for("lease renewal failed");
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "Unknown");
    for way in [Way::Closed, Way::Silent] {
        spoke.hub_relay.set(way);
        spoke.managed_relay.set(way);
        throughout(2500, "the credential is as good as before", || {
            agent.ask("/readyz").0 == 200 && agent.ask("/healthz").0 == 200
        });
    }
    spoke.managed_relay.set(Way::Open);
    spoke.hub_relay.set(Way::Open);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    agent.wait_for("lease renewal recovered");
}

// ocm spokeagent_rebootstrap_test.go:528
/// Another outage is over before there is a certificate.
#[test]
fn certificate_that_expires_in_an_outage_is_replaced() {
    if !needs(Need::Embedded, "the signer's lifetime can be set") {
        return;
    }
    let spoke = Spoke::auto("expire-hub");
    signs_for(&spoke, 4, 300);
    spoke.hub_relay.set(Way::Closed);
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("efused");
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains(&spoke.secret), "{why}");
    spoke.hub_relay.set(Way::Open);
    spoke.wait_for_certificate();
    spoke.hub_relay.set(Way::Closed);
    let before = spoke.credential().expect("the Secret");
    sidecar.wait_for(EXPIRED);
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains("expired at"), "{why}");
    assert_eq!(sidecar.ask("/healthz").0, 200);
    signs_for(&spoke, 3600, 300);
    spoke.hub_relay.set(Way::Open);
    wait_for_another(&spoke, &before);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke).iter().filter(|role| **role == "bootstrap").count(), 2);
    assert!(sidecar.alive(), "{}", sidecar.log());
}
