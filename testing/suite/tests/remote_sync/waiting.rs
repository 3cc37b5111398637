//! Waiting for what is not there yet, visibly: a kind, a remote, its kubeconfig.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually,
    identity::kubeconfig,
    needs::{Need, needs},
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{BUDGETS, Kind, Setting, Stage, WIDGETS, definitions, ensure, words},
    within,
};

use crate::support::{is_in_sync, of_program};

/// Takes the kind away from one of the servers.
fn take_away(stage: &Stage, own: bool, kind: &'static Kind) {
    let side = if own { &stage.own } else { stage.remote() };
    suite::sync::Place::new(&side.cluster, definitions(), "", &kind.flag()).delete_by_force();
}

/// Waits until a warning and /readyz tell of `part`, and the metrics that widgets cannot be copied.
#[track_caller]
fn is_told_of(sidecar: &Sidecar, part: &str) {
    eventually(&format!("a warning has {part}"), || (sidecar.warnings(part) > 0).then_some(()));
    eventually(&format!("/readyz has {part}"), || {
        sidecar.ask("/readyz").1.contains(part).then_some(())
    });
    assert_eq!(ready(sidecar, &WIDGETS), Some(0.0));
}

fn ready(sidecar: &Sidecar, kind: &Kind) -> Option<f64> {
    let labels = format!("remote=\"hub\",resource=\"{}\"", kind.flag());
    sidecar.metric(&format!("remote_sync_resource_ready{{{labels}}}"))
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
        assert_eq!(ready(&sidecar, &BUDGETS), Some(1.0));
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

/// Starts it with this kubeconfig for its remote, sees that it is told of, and puts it right.
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
    let connected = || {
        let metrics = sidecar.ask("/metrics").1;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("remote_sync_cluster_connected") && line.contains("hub"));
        line.and_then(|line| line.rsplit(' ').next().map(str::to_owned))
    };
    assert_eq!(connected().as_deref(), Some("0"));
    assert_eq!(words(&stage.writes()), [""; 0]);
    stage.write("late.kubeconfig", &stage.remote().kubeconfig());
    is_in_sync(&source, &target);
    eventually("it is connected", || (connected().as_deref() == Some("1")).then_some(()));
    assert!(sidecar.alive());
}

#[test]
fn a_remotes_kubeconfig_that_is_not_there_is_waited_for() {
    is_put_right(|_| None, "late.kubeconfig");
}

#[test]
fn a_remotes_kubeconfig_that_is_none_is_waited_for() {
    is_put_right(|_| Some("{}".into()), "late.kubeconfig");
}

#[test]
fn a_remotes_kubeconfig_with_a_program_in_it_is_waited_for() {
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never",
    }});
    let bad = |stage: &Stage| {
        let hub = &stage.remote().cluster;
        Some(kubeconfig(&hub.address, &hub.ca, &exec).to_string())
    };
    is_put_right(bad, "exec");
}

#[test]
fn a_remote_that_refuses_the_token_is_waited_for() {
    let bad = |stage: &Stage| Some(stage.remote().kubeconfig_with("nobody-knows-it"));
    is_put_right(bad, "401");
}

/// The Secret of a remote's kubeconfig that the program may not read.
#[test]
fn a_kubeconfig_that_may_not_be_read_is_waited_for() {
    if !needs(Need::Embedded, "one resource can be forbidden") {
        return;
    }
    let (stage, source, target) = Stage::with_widget("forbidden");
    stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
    let flags = ["-remote-kubeconfig-secret", &format!("hub={}/hub-kubeconfig", stage.own.home)];
    is_of_no_use_to_wait(&stage, &flags);
    let own = stage.own.cluster.faults();
    let rule = own.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
    let sidecar = stage.start_as(|command| {
        command.args(flags);
    });
    is_told_of(&sidecar, "secrets is forbidden");
    own.remove(rule);
    is_in_sync(&source, &target);
    assert_eq!(ready(&sidecar, &WIDGETS), Some(1.0));
}

/// No remote is known where their list may not be read.
#[test]
fn a_registry_that_may_not_be_read_is_waited_for() {
    if !needs(Need::Embedded, "one resource can be forbidden") {
        return;
    }
    let (stage, source, target) = Stage::with_widget("no-registry");
    stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
    let flags = ["-remote-selector", "cluster.x-k8s.io/cluster-name"];
    is_of_no_use_to_wait(&stage, &flags);
    let own = stage.own.cluster.faults();
    let rule = own.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
    let sidecar = stage.start_as(|command| {
        command.args(flags);
    });
    let part = "secrets is forbidden";
    eventually("a warning has it", || (sidecar.warnings(part) > 0).then_some(()));
    for path in ["/readyz", "/debug/state"] {
        eventually(&format!("{path} has it"), || sidecar.ask(path).1.contains(part).then_some(()));
    }
    own.remove(rule);
    is_in_sync(&source, &target);
    assert!(!sidecar.ask("/readyz").1.contains(part), "{:?}", sidecar.ask("/readyz"));
}

/// A run that is to end does so at once where no Secret of the local cluster may be read.
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

#[test]
fn clusters_that_are_away_at_the_start_are_waited_for() {
    for own in [true, false] {
        let (stage, source, target) = Stage::with_widget("away");
        let side = if own { &stage.own } else { stage.remote() };
        side.relay.set(Way::Closed);
        let mut sidecar = stage.start_served(&[]);
        stays("it waits", || sidecar.alive());
        side.relay.set(Way::Open);
        is_in_sync(&source, &target);
    }
}
