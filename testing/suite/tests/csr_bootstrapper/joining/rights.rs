//! A bootstrap identity that may do less than upstream's.

use dev_apiserver::{Action, Rule};
use suite::{
    needs::{Need, needs},
    spoke::Spoke,
    within,
};

use crate::{
    joining::support::{is_seen, roles},
    support::make_cluster,
};

/// Neither list nor watch requests, which are looked up every 15 s; nor create the cluster, which somebody else does.
#[test]
fn bootstrap_identity_that_may_only_post_and_get_joins() {
    if !needs(Need::Embedded, "rights can be taken away at once") {
        return;
    }
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
