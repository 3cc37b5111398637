//! addon-lease-controller: several sidecars beside one another, and its renewals in a loop.

use std::{
    env,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::{Client, Reload, Timeouts},
    lease,
    resource::LEASES,
};
use suite::{
    cluster::Cluster,
    eventually, pause,
    scene::Scene,
    sidecar::{Sidecar, free_port},
};
use tools::measure::{self, grouped, median};

use crate::{
    RUNS,
    table::{Table, note},
};

/// Renewals that requests, bytes and system calls are counted over.
const COUNTED: usize = 10;
const THREADS: f64 = 7.0;
/// Renewals in a row for the drift of memory, after so many to warm up.
const MANY: u64 = 100_000;
const WARM_UP: u64 = 1_000;

// --- running sidecars ---

/// Several sidecars in full mode: watches on Secret and pod, renewals on the hub by client certificate.
pub(crate) struct Fleet {
    members: Vec<(Scene, Sidecar)>,
    /// From its start to the first renewal, in milliseconds.
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

    /// Memory, threads, and what renewals take on the wire.
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

    /// System calls, and the time of the start.
    pub(crate) fn at_work(&self, table: &mut Table) {
        let (scene, sidecar) = &self.members[0];
        measure::in_the_middle_of_a_period(scene);
        let calls = measure::system_calls(sidecar.pid(), || {
            scene.wait_for_renewals(COUNTED - 1);
            measure::in_the_middle_of_a_period(scene);
        });
        system_calls(table, calls);
        table.at_most("start to first renewal", 150.0, median(self.starts.clone()), "ms");
        note("on loopback; 15 ms is the aim where the machine is idle");
    }

    pub(crate) fn end(self, table: &mut Table) {
        table.ends(self.members);
    }
}

fn system_calls(table: &mut Table, calls: Result<Vec<(String, u64)>, String>) {
    let figure = "system calls, per renewal";
    match calls {
        Err(why) => table.not_measured(figure, "≤ 20", &why),
        Ok(calls) => {
            let each = |count: u64| count as f64 / COUNTED as f64;
            table.at_most(figure, 20.0, each(calls.iter().map(|(_, count)| count).sum()), "");
            let names = calls.iter().filter(|(_, count)| each(*count) >= 0.5);
            let names = names.map(|(name, count)| format!("{:.1} {name}", each(*count)));
            note(&names.collect::<Vec<_>>().join(", "));
        }
    }
}

// --- drift of memory ---

impl Table {
    /// The program itself can't do 100,000 renewals in less than a day, its renewal path can.
    pub(crate) fn drift(&mut self, hub: &Cluster) {
        let done = AtomicBool::new(false);
        let output = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    hub.server().clear_requests();
                    pause(100);
                }
            });
            let myself = env::current_exe().expect("the path of this program");
            let output = Command::new(myself).arg("renew").arg(&hub.kubeconfig).output();
            done.store(true, Relaxed);
            output.expect("this program runs again")
        });
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        let [least, most, seconds] = numbers[..] else {
            panic!("{text}{}", String::from_utf8_lossy(&output.stderr));
        };
        let figure = format!("drift of memory over {} renewals", grouped(MANY));
        self.at_most(&figure, 64.0, most - least, "KiB");
        let libc = if cfg!(target_env = "musl") { "musl, as in the program" } else { "not musl" };
        note(&format!(
            "the program's client and Lease code in a loop, {seconds:.0} s; libc: {libc}"
        ));
    }
}

/// What the program does in its steady state, without the waiting; prints the least and the largest
/// memory in KiB and the seconds it took.
pub(crate) fn renew_many(kubeconfig: &Path) {
    let access = kubeconfig::from_file(kubeconfig).expect("the kubeconfig");
    let client = Client::new(
        "the hub",
        access,
        Reload::Never,
        Timeouts::with_request(Duration::from_secs(10)),
    );
    let client = client.expect("a client");
    let (target, period) = (LEASES.object("default", "drift"), Duration::from_secs(60));
    let new = lease::renewed(&lease::new("default", "drift"), period, SystemTime::now(), true);
    let mut known = client.write_typed(&target, &new).expect("the Lease is created");
    let begin = Instant::now();
    let (mut least, mut most) = (u64::MAX, 0);
    for count in 1..=WARM_UP + MANY {
        let renewed = lease::renewed(&known, period, SystemTime::now(), true);
        known = client.write_typed(&target, &renewed).expect("the Lease is renewed");
        if count >= WARM_UP && count.is_multiple_of(WARM_UP) {
            let memory = measure::own_memory();
            (least, most) = (least.min(memory), most.max(memory));
        }
    }
    println!("{least} {most} {}", begin.elapsed().as_secs_f64());
}
