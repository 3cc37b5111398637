//! Waits visibly for what does not exist yet: a remote's kubeconfig.

use serde_json::{Value, json};
use suite::{
    eventually,
    identity::kubeconfig,
    sidecar::Sidecar,
    sync::{Stage, WIDGETS, words},
};

use crate::support::{is_connected, is_in_sync, is_ready};

/// Waits until a warning and /readyz tell of `part`, and the metrics that widgets cannot be copied.
#[track_caller]
pub(crate) fn is_told_of(sidecar: &Sidecar, part: &str) {
    eventually(&format!("a warning has {part}"), || sidecar.warnings(part) > 0);
    eventually(&format!("/readyz has {part}"), || sidecar.ask("/readyz").1.contains(part));
    assert!(!is_ready(sidecar, &WIDGETS.flag()));
}

#[test]
fn a_remotes_kubeconfig_that_cannot_be_used_is_waited_for() {
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never",
    }});
    let with = |stage: &Stage, user: &Value| {
        let hub = &stage.remote().cluster;
        kubeconfig(&hub.address, &hub.ca, user).to_string()
    };
    is_put_right(|_| None, "late.kubeconfig");
    is_put_right(|_| Some("{}".into()), "late.kubeconfig");
    is_put_right(|stage| Some(with(stage, &exec)), "exec");
    is_put_right(|stage| Some(stage.remote().kubeconfig_with("nobody-knows-it")), "401");
}

/// Starts it with this kubeconfig for its remote, or none, sees that it says `part`, and puts it right.
#[track_caller]
fn is_put_right(bad: impl Fn(&Stage) -> Option<String>, part: &str) {
    let (stage, source, target) = Stage::with_widget("bad-remote");
    let file = stage.directory.path().join("late.kubeconfig");
    if let Some(bad) = bad(&stage) {
        stage.write("late.kubeconfig", &bad);
    }
    let mut sidecar = stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("hub={}", file.display())]);
    });
    is_told_of(&sidecar, part);
    is_connected(&sidecar, false);
    assert_eq!(words(&stage.writes()), [""; 0]);
    stage.write("late.kubeconfig", &stage.remote().kubeconfig());
    is_in_sync(&source, &target);
    is_connected(&sidecar, true);
    assert!(sidecar.alive());
}
