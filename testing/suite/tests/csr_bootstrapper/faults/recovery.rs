//! Unusable input and lost credentials: the process keeps running, and works once it can.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use suite::{faults::code, spoke::Spoke, within};

use crate::support::{
    admitted, is_seen, make_cluster, roles, settled, stays_unchanged, version, wait_for_another,
};

/// Neither list nor watch requests, which are looked up every 15 s; nor create the cluster, which somebody else does.
#[test]
fn bootstrap_identity_that_may_only_post_and_get_joins() {
    let spoke = Spoke::new("only-get");
    let (faults, user) = (spoke.hub.cluster.faults(), spoke.how.user());
    let forbid = || Rule::new(Action::Forbid).user(&user);
    faults.add(forbid().resource("managedclusters"));
    for verb in ["list", "watch"] {
        faults.add(forbid().verb(verb).resource("certificatesigningrequests"));
    }
    let sidecar = spoke.start(&[]);
    spoke.hub.approve_next(&spoke.cluster);
    within(60, "the certificate is saved", || spoke.certificate());
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(roles(&spoke), ["bootstrap"], "{}", sidecar.log());
    assert!(spoke.hub.managed_cluster(&spoke.cluster).is_none());
    make_cluster(&spoke, true);
    is_seen(&spoke.hub, &spoke.cluster);
}

/// Longer than the others: 30 to 60 s tell a refusal from a hub that restarts, and the loop looks every 15 s.
#[test]
fn refused_certificate_is_replaced_after_its_patience() {
    let (spoke, sidecar) = admitted("refused");
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let (before, written) = (spoke.credential().expect("the Secret"), version(&spoke));
    let faults = spoke.hub.cluster.faults();
    let rule = faults.add(Rule::new(code(401)).user(&spoke.user()));
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
    stays_unchanged(&spoke, &mut { sidecar });
    assert_eq!(roles(&spoke), ["bootstrap", "bootstrap"]);
}
