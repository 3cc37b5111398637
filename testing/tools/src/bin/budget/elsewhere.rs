//! csr-bootstrapper in other setups: under the klusterlet operator, and with several hubs.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use rustls::DEFAULT_VERSIONS;
use suite::{
    cluster::Cluster,
    eventually, https,
    ocm::{AVAILABLE, Bootstrap, Hub},
    sidecar::{Sidecar, bare, free_port, program},
    spoke::{AGENT, Spoke},
};
use tools::measure::median;

use crate::{
    RUNS,
    bootstrapper::{FLAGS, wait_for_heartbeats},
    table::{RESIDENT, Table, note},
};

impl Table {
    pub(crate) fn elsewhere(&mut self, managed: &Arc<Cluster>) {
        let hub = Hub::on(Cluster::embedded("hub"));
        let resident = |start: &dyn Fn(&Spoke) -> Sidecar| {
            let join = |_| {
                let spoke = Spoke::between(hub.clone(), managed.clone(), "budget", Bootstrap::Auto);
                let agent = start(&spoke);
                spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
                spoke.hub.set_lease_duration(&spoke.cluster, 1);
                (spoke, agent)
            };
            let members: Vec<(Spoke, Sidecar)> = (0..RUNS).map(join).collect();
            members.iter().for_each(|(spoke, _)| wait_for_heartbeats(spoke, 5));
            median(members.iter().map(|(_, one)| one.memory("VmRSS") as f64).collect())
        };
        self.at_most(
            "resident memory under the operator",
            RESIDENT,
            resident(&under_the_operator),
            "KiB",
        );
        note("with its files, leader election and an HTTPS port that is probed");
        let second = Hub::on(Cluster::embedded("hub2"));
        let several = resident(&|spoke| with_two_hubs(spoke, &second));
        self.at_most("resident memory with two hubs", RESIDENT, several, "KiB");
    }
}

/// Starts it like the operator's Deployment, by the name of the registration agent.
fn under_the_operator(spoke: &Spoke) -> Sidecar {
    let (registration, files) =
        (spoke.directory.path().join("registration"), spoke.directory.path().join("files"));
    symlink(program("csr-bootstrapper"), &registration).expect("the link at the image's root");
    fs::create_dir(&files).expect("a volume");
    let bootstrap = spoke.write("bootstrap.kubeconfig", &spoke.bootstrap_kubeconfig());
    let (port, listen) = (free_port(), free_port());
    let mut command = bare(&registration);
    command.args([
        "agent",
        &format!("--spoke-cluster-name={}", spoke.cluster),
        "--agent-id",
        AGENT,
    ]);
    command.arg(format!("--bootstrap-kubeconfig={}", bootstrap.display()));
    command.arg(format!("--hub-kubeconfig-dir={}", files.display()));
    command.arg(format!("--kubeconfig={}", spoke.managed_kubeconfig().display()));
    command.args(["--namespace", &spoke.namespace, "--listen", &format!("127.0.0.1:{listen}")]);
    command.args(["--metrics-port", &port.to_string()]).args(FLAGS);
    let agent = Sidecar::spawn(command, port);
    let probe = || https::get(listen, "/healthz", DEFAULT_VERSIONS).ok().filter(|it| it.0 == 200);
    for _ in 0..3 {
        eventually("the probe", probe);
    }
    agent
}

/// Starts it with two hubs, of which it selects the first.
fn with_two_hubs(spoke: &Spoke, second: &Hub) -> Sidecar {
    let address = second.cluster.address.to_string();
    let files = [
        spoke.write("hub1.kubeconfig", &spoke.bootstrap_kubeconfig()),
        spoke.write("hub2.kubeconfig", &second.bootstrap_kubeconfig(&address, spoke.how)),
    ];
    spoke.start_as(|command| {
        command.args(["-feature-gates", "MultipleHubs=true"]).args(FLAGS);
        files.iter().for_each(|file| {
            command.arg("-bootstrap-kubeconfigs").arg(file);
        });
    })
}
