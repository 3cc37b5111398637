//! A hub that is away: at the start, for a while, and until the certificate has expired.

use suite::{
    needs::{Need, needs},
    ocm::AVAILABLE,
    relay::Way,
    spoke::{EXPIRED, Spoke},
    throughout,
};

use crate::{
    joining::{
        rebootstrap::{sign_for, wait_for_the_end},
        recovery::waits,
        support::{let_in, roles, settled, wait_for_another},
    },
    support::{beating, beats_again, joined},
};

#[test]
fn lease_94_a_cluster_that_was_cut_off_is_lost_and_comes_back() {
    let (spoke, agent) = beating("cut-off", &[]);
    beats_again(&agent, 1);
    spoke.hub_relay.set(Way::Closed);
    agent.wait_for("lease renewal failed");
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "Unknown");
    assert_eq!(agent.ask("/readyz").0, 200, "the credential is as good as before");
    spoke.hub_relay.set(Way::Open);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    agent.wait_for("lease is renewed again");
}

#[test]
fn the_hub_cannot_be_reached_at_the_start() {
    let spoke = Spoke::new("recover-hub");
    spoke.hub_relay.set(Way::Closed);
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("efused");
    waits(&spoke, &mut sidecar, &spoke.secret);
    spoke.hub_relay.set(Way::Open);
    let_in(&spoke);
    settled(&spoke, &sidecar);
}

#[test]
fn ready_and_healthy_have_nothing_to_do_with_servers() {
    for way in [Way::Closed, Way::Silent] {
        let (spoke, agent) = joined("away", &[]);
        spoke.hub_relay.set(way);
        spoke.managed_relay.set(way);
        throughout(2500, "it is ready and healthy", || {
            agent.ask("/readyz").0 == 200 && agent.ask("/healthz").0 == 200
        });
    }
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
