//! Credentials that change while the program runs.

use serde_json::json;
use suite::{
    cluster::Cluster,
    identity::{self, token_in},
    needs::{Need, needs},
    pause,
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Place, Stage, WIDGETS},
};

use crate::support::{is_in_sync, one};

/// Checks that the new credentials are used, and that nothing is listed again for it.
#[track_caller]
fn is_taken(stage: &Stage, source: &Place, target: &Place, rotate: impl FnOnce(&str)) {
    let is_recorded = needs(Need::Embedded, "requests are recorded there");
    let lists = || is_recorded.then(|| stage.asked(stage.remote(), "list", "widgets"));
    let before = lists();
    let token = stage.remote().token();
    rotate(&stage.remote().kubeconfig_with(&token));
    source.set_number(7);
    target.wait_for_number(7);
    is_in_sync(source, target);
    assert_eq!(lists(), before, "listed again");
}

fn start_with(stage: &Stage, flag: &str, value: &str) -> Sidecar {
    stage.start_as(|command| {
        command.args([flag, value]);
    })
}

fn start_with_secret(stage: &Stage) -> Sidecar {
    let secret = format!("hub={}/hub-kubeconfig", stage.own.home);
    start_with(stage, "-remote-kubeconfig-secret", &secret)
}

#[test]
fn a_new_token_in_file_or_secret_is_used() {
    for is_file in [true, false] {
        let (stage, source, target) = Stage::with_widget("rotate");
        let first = stage.remote().kubeconfig();
        let put = |kubeconfig: &str| match is_file {
            true => drop(stage.write("hub.kubeconfig", kubeconfig)),
            false => stage.put_kubeconfig("hub", kubeconfig),
        };
        put(&first);
        let file = stage.directory.path().join("hub.kubeconfig");
        let _sidecar = match is_file {
            true => start_with(&stage, "-remote-kubeconfig", &format!("hub={}", file.display())),
            false => start_with_secret(&stage),
        };
        is_in_sync(&source, &target);
        stage.settled();
        is_taken(&stage, &source, &target, |next| {
            put(next);
            if is_file {
                // Files are read every 5 s, and a token that replaces another is issued before that ends.
                pause(6000);
            }
            if needs(Need::Embedded, "a token can be revoked") {
                stage.remote().cluster.server().revoke(&token_in(&first));
            }
        });
    }
}

/// The kubeconfig's Secret goes: the hub is away, not gone.
#[test]
fn a_kubeconfig_that_is_deleted_deletes_nothing() {
    let (stage, source, target) = Stage::with_widget("kubeconfig-gone");
    stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
    let _sidecar = start_with_secret(&stage);
    is_in_sync(&source, &target);
    let uid = target.uid();
    stage.delete_kubeconfig("hub");
    stays("the copy is there", || target.uid() == uid);
    stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
    source.set_number(3);
    target.wait_for_number(3);
    assert_eq!(target.uid(), uid);
}

/// The hub moved: the new kubeconfig has another address.
#[test]
fn a_kubeconfig_with_another_address_is_followed() {
    let (stage, _sidecar, source, target) = one("moved", &WIDGETS, &[]);
    let uid = target.uid();
    let user = json!({"token": stage.remote().token()});
    let Cluster { address, ca, .. } = &*stage.remote().cluster;
    let direct = identity::kubeconfig(address, ca, &user);
    stage.remote().relay.set(Way::Closed);
    stage.write("hub.kubeconfig", &direct.to_string());
    source.set_number(3);
    target.wait_for_number(3);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}
