//! Credentials that change while the program runs.

use suite::{
    Stopwatch, eventually,
    identity::token_in,
    needs::{Need, needs},
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Place, Stage, WIDGETS},
};

use crate::support::{is_in_sync, one};

/// Checks that the new credentials are used within 5 s, and that nothing is listed again for it.
#[track_caller]
fn is_taken(stage: &Stage, source: &Place, target: &Place, rotate: impl FnOnce(&str)) {
    let is_recorded = needs(Need::Embedded, "requests are recorded there");
    let lists = || is_recorded.then(|| stage.asked(stage.remote(), "list", "widgets"));
    let before = lists();
    let token = stage.remote().token();
    rotate(&stage.remote().kubeconfig_with(&token));
    let watch = Stopwatch::start();
    source.set_number(7);
    target.wait_for_number(7);
    is_in_sync(source, target);
    watch.assert_within(5, "the new credentials are used");
    assert_eq!(lists(), before, "listed again");
}

/// Makes a token worthless where that can be done.
fn revoke(stage: &Stage, token: &str) {
    if needs(Need::Embedded, "a token can be revoked") {
        stage.remote().cluster.server().revoke(token);
    }
}

fn start_with(stage: &Stage, flag: &str, value: &str) -> Sidecar {
    stage.start_as(|command| {
        command.args([flag, value]);
    })
}

#[test]
fn gap18_a_file_with_another_token() {
    let (stage, source, target) = Stage::with_widget("gap18-file");
    let first = stage.remote().kubeconfig();
    let file = stage.write("hub.kubeconfig", &first);
    let _sidecar = start_with(&stage, "-remote-kubeconfig", &format!("hub={}", file.display()));
    is_in_sync(&source, &target);
    stage.settled();
    is_taken(&stage, &source, &target, |next| {
        stage.write("hub.kubeconfig", next);
        revoke(&stage, &token_in(&first));
    });
}

#[test]
fn gap18_a_secret_with_another_token() {
    let (stage, source, target) = Stage::with_widget("gap18-secret");
    let first = stage.remote().kubeconfig();
    stage.put_kubeconfig("hub", &first);
    let secret = format!("hub={}/hub-kubeconfig", stage.own.home);
    let _sidecar = start_with(&stage, "-remote-kubeconfig-secret", &secret);
    is_in_sync(&source, &target);
    stage.settled();
    is_taken(&stage, &source, &target, |next| {
        stage.put_kubeconfig("hub", next);
        revoke(&stage, &token_in(&first));
    });
}

/// The token is worthless before there is another one: an outage, and nothing more.
#[test]
fn gap18_a_new_token_after_a_while_without_one() {
    if !needs(Need::Embedded, "a token can be revoked") {
        return;
    }
    let (stage, source, target) = Stage::with_widget("gap18-late");
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

/// The kubeconfig's Secret goes: the hub is away, not gone.
#[test]
fn a_kubeconfig_that_is_deleted_deletes_nothing() {
    let (stage, source, target) = Stage::with_widget("kubeconfig-gone");
    stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
    let secret = format!("hub={}/hub-kubeconfig", stage.own.home);
    let _sidecar = start_with(&stage, "-remote-kubeconfig-secret", &secret);
    is_in_sync(&source, &target);
    let uid = target.uid();
    stage.delete_kubeconfig("hub");
    stays("the copy is there", || target.uid() == uid);
    stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
    source.set_number(3);
    target.wait_for_number(3);
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
