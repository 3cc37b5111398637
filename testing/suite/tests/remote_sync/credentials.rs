//! More of `smoke/rotation.rs`: outages on the way to new credentials, another address.

use suite::{
    eventually,
    identity::token_in,
    needs::{Need, needs},
    relay::Way,
    stays,
    sync::{Stage, WIDGETS},
};

use crate::{
    smoke::rotation::{revoke, start_with},
    support::{is_in_sync, one},
};

/// The token is worthless before there is another one: an outage, and nothing more.
#[test]
fn a_new_token_after_a_while_without_one_is_used() {
    if !needs(Need::Embedded, "a token can be revoked") {
        return;
    }
    let (stage, source, target) = Stage::with_widget("late-token");
    let first = stage.remote().kubeconfig();
    let file = stage.write("hub.kubeconfig", &first);
    let _sidecar = start_with(&stage, "-remote-kubeconfig", &format!("hub={}", file.display()));
    is_in_sync(&source, &target);
    let uid = target.uid();
    revoke(&stage, &token_in(&first));
    stage.remote().relay.cut();
    source.set_number(5);
    stays("the copy is as it was", || (target.uid(), target.number()) == (uid.clone(), Some(1)));
    stage.write("hub.kubeconfig", &stage.remote().kubeconfig());
    target.wait_for_number(5);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}

/// The hub moved: its address is another one in the new kubeconfig.
#[test]
fn a_kubeconfig_with_another_address_is_followed() {
    let (stage, _sidecar, source, target) = one("moved", &WIDGETS, &[]);
    let uid = target.uid();
    let direct = suite::identity::kubeconfig(
        &stage.remote().cluster.address,
        &stage.remote().cluster.ca,
        &serde_json::json!({"token": stage.remote().token()}),
    );
    stage.remote().relay.set(Way::Closed);
    stage.write("hub.kubeconfig", &direct.to_string());
    source.set_number(3);
    eventually("it follows", || (target.number() == Some(3)).then_some(()));
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}
