//! Credentials that change while the program runs.

use serde_json::json;
use suite::{
    identity::{kubeconfig, token_in},
    needs::{Need, needs},
    pause,
    relay::Way,
    stays,
    sync::Stage,
};

use crate::support::is_in_sync;

fn put_file(stage: &Stage, kubeconfig: &str) {
    stage.write("hub.kubeconfig", kubeconfig);
}

fn put_secret(stage: &Stage, kubeconfig: &str) {
    stage.put_kubeconfig("hub", kubeconfig);
}

/// A new token, nothing listed again for it, and then the hub's new address.
#[test]
fn a_new_kubeconfig_is_used() {
    for in_file in [true, false] {
        let (stage, source, target) = Stage::with_widget("rotate");
        let first = stage.remote().kubeconfig();
        let put = if in_file { put_file } else { put_secret };
        put(&stage, &first);
        let _sidecar = stage.start_as(|command| {
            let file = stage.directory.path().join("hub.kubeconfig");
            match in_file {
                true => command.args(["-remote-kubeconfig", &format!("hub={}", file.display())]),
                false => command.args(["-remote-kubeconfig-secret", &secret(&stage)]),
            };
        });
        is_in_sync(&source, &target);
        stage.settled();
        let uid = target.uid();
        let is_recorded = needs(Need::Embedded, "requests are recorded, a token can be revoked");
        let lists = || is_recorded.then(|| stage.asked(stage.remote(), "list", "widgets"));
        let before = lists();
        put(&stage, &stage.remote().kubeconfig());
        if in_file {
            // Files are read every 5 s, and a token that replaces another is issued before that ends.
            pause(6000);
        }
        if is_recorded {
            stage.remote().cluster.server().revoke(&token_in(&first));
        }
        source.set_number(7);
        target.wait_for_number(7);
        is_in_sync(&source, &target);
        assert_eq!(lists(), before, "listed again");

        let (hub, user) = (&stage.remote().cluster, json!({"token": stage.remote().token()}));
        let direct = kubeconfig(&hub.address, &hub.ca, &user).to_string();
        stage.remote().relay.set(Way::Closed);
        put(&stage, &direct);
        source.set_number(8);
        target.wait_for_number(8);
        is_in_sync(&source, &target);
        assert_eq!(target.uid(), uid);
    }
}

fn secret(stage: &Stage) -> String {
    format!("hub={}/hub-kubeconfig", stage.own.home)
}

/// The kubeconfig's Secret is deleted: the hub is unreachable, not gone.
#[test]
fn a_kubeconfig_that_is_deleted_deletes_nothing() {
    let (stage, source, target) = Stage::with_widget("kubeconfig-gone");
    put_secret(&stage, &stage.remote().kubeconfig());
    let _sidecar = stage.start_as(|command| {
        command.args(["-remote-kubeconfig-secret", &secret(&stage)]);
    });
    is_in_sync(&source, &target);
    let uid = target.uid();
    stage.delete_kubeconfig("hub");
    stays("the copy is there", || target.uid() == uid);
    put_secret(&stage, &stage.remote().kubeconfig());
    source.set_number(3);
    target.wait_for_number(3);
    assert_eq!(target.uid(), uid);
}
