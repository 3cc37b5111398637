//! Secrets are seen nowhere: not in log, metrics, state or command line, nor in any object that is not meant
//! for them.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{
    identity::token_in,
    pause,
    relay::Way,
    sidecar::Sidecar,
    sync::{Setting, Stage, WIDGETS},
};

use crate::support::is_in_sync;

pub(crate) const VALUE: &str = "a-value-that-nobody-else-may-see-0123456789";

#[track_caller]
pub(crate) fn says_nothing(sidecar: &Sidecar, secrets: &[&str]) {
    let state = sidecar.ask("/debug/state").1;
    assert!(!state.is_empty());
    let places = [
        ("its log", sidecar.log()),
        ("/metrics", sidecar.ask("/metrics").1),
        ("/readyz", sidecar.ask("/readyz").1),
        ("/debug/state", state),
        ("its command line", sidecar.command_line()),
    ];
    for (place, text) in &places {
        for secret in secrets {
            let encoded = BASE64_STANDARD.encode(secret);
            let seen = [*secret, &encoded[..encoded.len().min(40)]]
                .into_iter()
                .any(|piece| text.contains(piece));
            assert!(!seen, "{secret} in {place}: {text}");
        }
        assert!(!text.contains("PRIVATE KEY"), "{place}");
    }
}

#[test]
fn no_secret_is_seen_anywhere() {
    let stage = Stage::pull("secrecy", Setting::safe(&[&WIDGETS]).secrets(&["token"]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    stage.source_secret("token").create(&json!({"type": "Opaque"}));
    let kubeconfig = stage.remote().kubeconfig();
    let token = token_in(&kubeconfig);
    stage.put_kubeconfig("hub", &kubeconfig);
    let secret = format!("hub={}/hub-kubeconfig", stage.own.home);
    let sidecar = stage.start_as(|command| {
        command.args(["-remote-kubeconfig-secret", &secret]);
    });
    is_in_sync(&source, &target);
    stage.create_target_secret("token", VALUE, Some(&target));
    let encoded = BASE64_STANDARD.encode(VALUE);
    stage.source_secret("token").wait("the value", |it| it["data"]["data"] == encoded.as_str());
    says_nothing(&sidecar, &[VALUE, &token]);

    // Failures are where things slip out.
    stage.remote().relay.set(Way::Closed);
    stage.put_kubeconfig("hub", &format!("junk: [{token}"));
    pause(2500);
    stage.put_kubeconfig("hub", &kubeconfig.replace("127.0.0.1", "127.0.0.2"));
    pause(1500);
    stage.remote().relay.set(Way::Open);
    stage.put_kubeconfig("hub", &kubeconfig);
    source.set_number(2);
    target.wait_for_number(2);
    says_nothing(&sidecar, &[VALUE, &token]);
}
