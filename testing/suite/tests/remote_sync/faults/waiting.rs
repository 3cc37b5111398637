//! Waits for permission to read.

use dev_apiserver::Action;
use suite::{eventually, sync::Stage};

use crate::support::{is_in_sync, of_program};

/// Neither the Secret of a remote's kubeconfig nor the list of remotes; `-once` and `-cleanup` fail without a wait.
#[test]
fn secrets_that_may_not_be_read_are_waited_for() {
    for flag in ["-remote-kubeconfig-secret", "-remote-selector"] {
        let (stage, source, target) = Stage::with_widget("forbidden");
        stage.put_kubeconfig("hub", &stage.remote().kubeconfig());
        let value = match flag {
            "-remote-selector" => "cluster.x-k8s.io/cluster-name".to_owned(),
            _ => format!("hub={}/hub-kubeconfig", stage.own.home),
        };
        let start = |more: &[&str]| {
            stage.start_as(|command| {
                command.args([flag, &value]).args(more);
            })
        };
        let own = stage.own.cluster.faults();
        let rule = own.add(of_program(&stage.own, Action::Forbid).resource("secrets"));
        let part = "secrets is forbidden";
        for task in ["-once", "-cleanup"] {
            let mut sidecar = start(&[task]);
            assert_eq!(sidecar.wait().code(), Some(1), "{task}: {}", sidecar.log());
            assert!(sidecar.log().contains(part), "{task}: {}", sidecar.log());
        }
        let sidecar = start(&[]);
        eventually("a warning has it", || sidecar.warnings(part) > 0);
        eventually("/readyz has it", || sidecar.ask("/readyz").1.contains(part));
        own.remove(rule);
        is_in_sync(&source, &target);
        eventually("it is over", || !sidecar.ask("/readyz").1.contains(part));
    }
}
