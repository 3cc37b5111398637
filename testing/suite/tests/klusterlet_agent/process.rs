//! The process: flags, and kubeconfigs that come later.

use suite::{
    eventually,
    sidecar::{bare, program, usage_error},
    work::{Stage, config_map},
};

#[test]
fn drivers_without_kube_are_refused() {
    for driver in ["grpc", "mqtt", "kafka"] {
        let mut command = bare(&program("klusterlet-agent"));
        command.args(["agent", "--spoke-cluster-name=c", "--workload-source-driver", driver]);
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("-workload-source-driver must be kube, got {driver:?}");
        assert_eq!(usage_error("klusterlet-agent", &said), expected);
    }
}

#[test]
fn kubeconfig_of_the_hub_may_come_later() {
    let stage = Stage::without_hub_kubeconfig();
    let mut agent = stage.start(&[]);
    let why = "the hub's kubeconfig cannot be used";
    eventually(why, || agent.ask("/readyz").1.contains(why));
    stage.write_hub_kubeconfig();
    agent.wait_for_code("/readyz", 200);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    agent.terminate();
}
