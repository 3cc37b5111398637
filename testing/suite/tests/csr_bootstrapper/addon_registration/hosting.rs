//! A hosting annotation that is missing for a moment, as while somebody replaces the add-on (ocm#1677).

use suite::{
    needs::{Need, needs},
    pause, stays,
};

use super::{
    hosted::{add_hosted, set_hosted},
    support::*,
};
use crate::hosted::joined;

#[test]
fn hosting_annotation_missing_for_a_moment_moves_nothing() {
    if !needs(Need::Embedded, "the spoke is a third server") {
        return;
    }
    let (hosted, _agent) = joined("hosting-moment", &[]);
    let (stage, namespace) = (&hosted.stage, hosted.addon_namespace());
    add_hosted(stage, &namespace, ADDON);
    stage.hub.approve_next(&stage.cluster);
    let (before, _) = certificate(&stage.managed, &namespace, KUBE_CLIENT_SECRET, None);
    set_hosted(stage, false);
    pause(1000);
    set_hosted(stage, true);
    stays("the credential stays where it is, and no other is requested", || {
        data(&stage.managed, &namespace, KUBE_CLIENT_SECRET).as_ref() == Some(&before)
            && data(&hosted.spoke, &namespace, KUBE_CLIENT_SECRET).is_none()
            && csrs(stage).len() == 1
    });
}
