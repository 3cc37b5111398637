//! Waiting for what is not there yet, visibly: a kind, a remote, its kubeconfig.

use dev_apiserver::Action;
use serde_json::{Value, json};
use suite::{
    eventually,
    identity::kubeconfig,
    needs::{Need, needs},
    sidecar::Sidecar,
    sync::{BUDGETS, Kind, Setting, Stage, WIDGETS, definitions, ensure, words},
    within,
};

use crate::support::{is_in_sync, is_ready, of_program};

/// Takes the kind away from one of the servers.
fn take_away(stage: &Stage, own: bool, kind: &'static Kind) {
    let side = if own { &stage.own } else { stage.remote() };
    suite::sync::Place::new(&side.cluster, definitions(), "", &kind.flag()).delete_by_force();
}

/// Waits until a warning and /readyz tell of `part`, and the metrics that widgets cannot be copied.
#[track_caller]
fn is_told_of(sidecar: &Sidecar, part: &str) {
    eventually(&format!("a warning has {part}"), || sidecar.warnings(part) > 0);
    eventually(&format!("/readyz has {part}"), || sidecar.ask("/readyz").1.contains(part));
    assert!(!is_ready(sidecar, &WIDGETS.flag()));
}

#[test]
fn a_kind_that_is_not_served_yet_is_waited_for() {
    if !needs(Need::Embedded, "a kind can be taken away") {
        return;
    }
    for own in [true, false] {
        let stage = Stage::pull("no-kind", Setting::safe(&[&WIDGETS, &BUDGETS]));
        take_away(&stage, own, &WIDGETS);
        let (source, target) = stage.pair(&BUDGETS, "one");
        source.create_number(1);
        let mut sidecar = stage.start_served(&[]);
        // The others do not wait for it.
        is_in_sync(&source, &target);
        is_told_of(&sidecar, "widgets.sync.example.com");
        assert!(is_ready(&sidecar, &BUDGETS.flag()));
        assert!(!words(&stage.writes()).iter().any(|it| it.contains("widgets")));
        for side in stage.sides() {
            ensure(&side.cluster);
        }
        let (source, target) = stage.pair(&WIDGETS, "one");
        source.create_number(1);
        within(60, "the copy is there", || {
            assert!(sidecar.alive(), "{}", sidecar.log());
            target.get()
        });
        is_in_sync(&source, &target);
    }
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
    let connected = || sidecar.metric("remote_sync_cluster_connected{remote=\"hub\"}");
    assert_eq!(connected(), Some(0.0));
    assert_eq!(words(&stage.writes()), [""; 0]);
    stage.write("late.kubeconfig", &stage.remote().kubeconfig());
    is_in_sync(&source, &target);
    eventually("it is connected", || connected() == Some(1.0));
    assert!(sidecar.alive());
}

/// Neither the Secret of a remote's kubeconfig nor the list of remotes.
#[test]
fn secrets_that_may_not_be_read_are_waited_for() {
    if !needs(Need::Embedded, "one resource can be forbidden") {
        return;
    }
    for flag in ["-remote-kubeconfig-secret", "-remote-selector"] {
        let (stage, source, target) = Stage::with_widget("forbidden");
        stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
        let value = match flag {
            "-remote-selector" => "cluster.x-k8s.io/cluster-name".to_owned(),
            _ => format!("hub={}/hub-kubeconfig", stage.own.home),
        };
        let flags = [flag, &value];
        is_of_no_use_to_wait(&stage, &flags);
        let own = stage.own.cluster.faults();
        let rule = own.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
        let sidecar = stage.start_as(|command| {
            command.args(flags);
        });
        let part = "secrets is forbidden";
        eventually("a warning has it", || sidecar.warnings(part) > 0);
        eventually("/readyz has it", || sidecar.ask("/readyz").1.contains(part));
        own.remove(rule);
        is_in_sync(&source, &target);
        eventually("it is over", || !sidecar.ask("/readyz").1.contains(part));
    }
}

/// `-once` and `-cleanup` fail without a wait where Secrets of the local cluster cannot be read.
#[track_caller]
fn is_of_no_use_to_wait(stage: &Stage, flags: &[&str]) {
    let own = stage.own.cluster.faults();
    let rule = own.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
    for task in ["-once", "-cleanup"] {
        let mut sidecar = stage.start_as(|command| {
            command.args(flags).arg(task);
        });
        assert_eq!(sidecar.wait().code(), Some(1), "{task}: {}", sidecar.log());
        assert!(sidecar.log().contains("secrets is forbidden"), "{task}: {}", sidecar.log());
    }
    own.remove(rule);
}
