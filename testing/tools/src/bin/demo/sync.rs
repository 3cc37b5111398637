//! remote-sync, with the dumper's files.

use std::time::Instant;

use suite::{
    eventually,
    sidecar::{Sidecar, bare, free_port, program},
    sync::{Place, Side, WIDGETS},
};
use tools::term::{Timeline, spoken};

use crate::stage::{CLUSTER, Stage};

/// The namespace of the copies.
const NAMESPACE: &str = "widgets";

pub struct Sync {
    pub sidecar: Sidecar,
    there: Place,
    here: Place,
    /// The program's path to its local cluster.
    _own: Side,
}

impl Sync {
    pub fn start(stage: &Stage, timeline: &Timeline) -> Self {
        let (hub, managed) = (&stage.spoke.hub.cluster, &stage.spoke.managed);
        // Both serve the kind from now on.
        drop(Side::new("hub", hub.clone()));
        let own = Side::new("", managed.clone());
        managed.create_namespace(NAMESPACE);
        let port = free_port();
        let mut command = bare(&program("remote-sync"));
        command
            .arg("-kubeconfig")
            .arg(stage.spoke.write("own.kubeconfig", &own.kubeconfig()))
            .args(["-namespace", &own.home, "-resource", &WIDGETS.flag()])
            .arg("-remote-kubeconfig")
            .arg(format!("hub={}", stage.directory().join("kubeconfig").display()))
            .args(["-source-namespace", CLUSTER, "-target-namespace", NAMESPACE])
            .args(["-metrics-host", "127.0.0.1", "-metrics-port", &port.to_string()]);
        let begin = Instant::now();
        let place = |cluster, namespace| Place::new(cluster, &WIDGETS, namespace, "web");
        let sync = Self {
            sidecar: Sidecar::spawn(command, port),
            there: place(hub, CLUSTER),
            here: place(managed, NAMESPACE),
            _own: own,
        };
        timeline.step("remote-sync starts", || {
            eventually("both clusters are connected and listed", || {
                (sync.sidecar.ask("/readyz") == (200, "ok\n".into())).then_some(())
            });
            format!("with these files: connected in {}", spoken(begin.elapsed()))
        });
        sync
    }

    pub fn copied(&self) -> String {
        let begin = Instant::now();
        self.there.create_number(3);
        self.here.wait_for_number(3);
        let copied = begin.elapsed();
        let begin = Instant::now();
        self.here.set_health(1);
        self.there.wait_for_health(1);
        let back = begin.elapsed();
        format!("here in {}, status back in {}", spoken(copied), spoken(back))
    }
}
