//! addon-lease-controller: several sidecars side by side.

use std::{sync::Arc, time::Instant};

use suite::{
    cluster::Cluster,
    eventually,
    scene::Scene,
    sidecar::{Sidecar, free_port},
};
use tools::measure::{self, median};

use crate::{
    RUNS,
    table::{Table, note},
};

/// The number of renewals over which requests and bytes are counted.
const COUNTED: usize = 10;
const THREADS: f64 = 7.0;
/// Several sidecars in full mode: watches on Secret and pod, renewals on the hub by client certificate.
pub(crate) struct Fleet {
    members: Vec<(Scene, Sidecar)>,
    /// From each start to the first renewal, in milliseconds.
    starts: Vec<f64>,
}

impl Fleet {
    pub(crate) fn start(hub: &Arc<Cluster>, managed: &Arc<Cluster>) -> Self {
        let mut fleet = Self { members: Vec::new(), starts: Vec::new() };
        for _ in 0..RUNS {
            let scene = Scene::on(hub.clone(), managed.clone(), "budget");
            let port = free_port();
            let mut command = scene.command(port);
            command.args(["-v", "0"]);
            let begin = Instant::now();
            let sidecar = Sidecar::spawn(command, port);
            let first = eventually("the first renewal", || {
                measure::requests(&scene).into_iter().find(measure::is_renewal)
            });
            fleet.starts.push((first.at - begin).as_secs_f64() * 1000.0);
            fleet.members.push((scene, sidecar));
        }
        fleet
    }

    /// Measures memory, threads, and the traffic of renewals.
    pub(crate) fn at_rest(&self, table: &mut Table) {
        let (scene, _) = &self.members[0];
        scene.wait_for_renewals(5);
        table.at_rest(self.members.iter().map(|(_, one)| one), [614.0, THREADS]);
        let wire = measure::renewals_on_the_wire(scene, COUNTED - 1);
        table.at_most("requests to the hub, per renewal", 1.0, wire.requests_per_renewal(), "");
        table.at_most("bytes both ways, per renewal", 1700.0, wire.bytes_per_renewal(), "bytes");
        note("TCP payload, so with TLS; a real server adds about 240 bytes of managedFields");
        assert_eq!(wire.connections, 0, "the connection to the hub is not kept");
    }

    pub(crate) fn at_work(&self, table: &mut Table) {
        table.at_most("start to first renewal", 150.0, median(self.starts.clone()), "ms");
        note("on loopback; 15 ms is the aim where the machine is idle");
    }

    pub(crate) fn end(self, table: &mut Table) {
        table.ends(self.members);
    }
}
