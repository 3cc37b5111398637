//! `make budget`: what the programs cost, against the limits that they promise to keep.

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use shared::{
    client::{Client, Reload, Timing},
    kubeconfig, lease,
    resource::{LEASES, SECRETS},
};
use suite::{
    cluster::Cluster,
    eventually, identity,
    measure::{self, grouped, median},
    pause,
    scene::Scene,
    sidecar::{Sidecar, bare, free_port, program},
    term::{self, bold, green, red},
};
use tempfile::TempDir;

/// Sidecars that are measured one beside the other; the median counts.
const RUNS: usize = 5;
/// Renewals that requests, bytes and system calls are counted over.
const COUNTED: usize = 20;
/// Renewals in a row for the drift of memory, after so many to warm up.
const MANY: u64 = 100_000;
const WARM_UP: u64 = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, mode, kubeconfig] = &arguments[..]
        && mode == "renew"
    {
        renew_many(Path::new(kubeconfig));
        return ExitCode::SUCCESS;
    }
    term::fail_in_a_sentence();
    println!(
        "{}",
        bold("What one addon-lease-controller costs (about 50 s), and one hub-kubeconfig-dumper")
    );
    println!("{}\n", machine());
    let mut table = Table::default();
    table.file("addon-lease-controller");
    let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
    let fleet = Fleet::start(&hub, &managed);
    fleet.measure(&mut table);
    drop(fleet);
    table.drift(&hub);
    println!("\n  {}", bold("hub-kubeconfig-dumper"));
    table.file("hub-kubeconfig-dumper");
    table.dumper(&managed);
    table.end();
    ExitCode::SUCCESS
}

/// What figures depend on.
fn machine() -> String {
    let rustc = Command::new("rustc").arg("-V").output().ok();
    let rustc = rustc.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, Linux {}, {cpus} CPUs, {}", rustc.trim(), kernel.trim(), env::consts::ARCH)
}

// --- the table ---

#[derive(Default)]
struct Table {
    rows: usize,
    missed: usize,
    skipped: usize,
}

impl Table {
    fn row(&mut self, figure: &str, limit: &str, measured: &str, ok: bool) {
        self.missed += usize::from(!ok);
        let verdict = if ok { green("ok") } else { red("MISSED") };
        self.print(figure, limit, measured, &verdict);
    }

    fn print(&mut self, figure: &str, limit: &str, measured: &str, verdict: &str) {
        if self.rows == 0 {
            println!("  {}", bold(format!("{:40}{:>18}{:>18}", "figure", "limit", "measured")));
        }
        self.rows += 1;
        println!("  {figure:40}{limit:>18}{measured:>18}  {verdict}");
    }

    fn at_most(&mut self, figure: &str, limit: f64, measured: f64, unit: &str) {
        let shown = |number: f64| {
            let digits = if number < 100.0 && number.fract() != 0.0 { 1 } else { 0 };
            let number =
                if number < 1000.0 { format!("{number:.digits$}") } else { grouped(number as u64) };
            format!("{number} {unit}").trim_end().to_owned()
        };
        self.row(figure, &format!("≤ {}", shown(limit)), &shown(measured), measured <= limit);
    }

    /// A figure that can't be had here; in CI that is as bad as a wrong one.
    fn not_measured(&mut self, figure: &str, limit: &str, why: &str) {
        if env::var_os("CI").is_some() {
            self.row(figure, limit, "not measured", false);
        } else {
            self.skipped += 1;
            self.print(figure, limit, "not measured", &red("skipped"));
        }
        note(why);
    }

    fn end(&self) {
        println!();
        assert!(self.missed == 0, "{} of {} figures miss their limits", self.missed, self.rows);
        println!("{} figures are within their limits.", self.rows - self.skipped);
    }
}

fn note(text: &str) {
    println!("  {}", term::dim(format!("  {text}")));
}

// --- the file ---

impl Table {
    fn file(&mut self, name: &str) {
        let file = measure::binary(&program(name));
        self.at_most("binary", 2_097_152.0, file.bytes as f64, "bytes");
        let kind = |is: bool, yes, no| if is { yes } else { no };
        let measured = [
            kind(file.is_static, "static", "dynamic"),
            kind(file.is_stripped, "stripped", "with symbols"),
        ];
        let ok = file.is_static && file.is_stripped;
        self.row("  linked", "static, stripped", &measured.join(", "), ok);
    }
}

// --- running sidecars ---

/// Several sidecars in full mode: watches on Secret and pod, renewals on the hub by client certificate.
struct Fleet {
    members: Vec<(Scene, Sidecar)>,
    /// From its start to the first renewal, in milliseconds.
    starts: Vec<f64>,
}

impl Fleet {
    fn start(hub: &Arc<Cluster>, managed: &Arc<Cluster>) -> Self {
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

    fn measure(&self, table: &mut Table) {
        let [(scene, sidecar), (traced_scene, traced), ..] = &self.members[..] else {
            unreachable!("there are {RUNS}");
        };
        scene.wait_for_renewals(5);
        self.memory(table);
        let (wire, calls) = thread::scope(|scope| {
            let calls = scope.spawn(|| {
                measure::in_the_middle_of_a_period(traced_scene);
                measure::system_calls(traced.pid(), || {
                    traced_scene.wait_for_renewals(COUNTED - 1);
                    measure::in_the_middle_of_a_period(traced_scene);
                })
            });
            let wire = measure::renewals_on_the_wire(scene, COUNTED - 1);
            (wire, calls.join().expect("strace"))
        });
        table.at_most("requests to the hub, per renewal", 1.0, wire.requests_per_renewal(), "");
        table.at_most("bytes both ways, per renewal", 1700.0, wire.bytes_per_renewal(), "bytes");
        note("TCP payload, so with TLS; a real server adds about 240 bytes of managedFields");
        assert_eq!(wire.connections, 0, "the connection to the hub is not kept");
        system_calls(table, calls);
        table.at_most("start to first renewal", 150.0, median(self.starts.clone()), "ms");
        note("on loopback; 15 ms is the aim where the machine is idle");
        assert!(sidecar.memory("VmRSS") > 0, "the process ended");
    }

    fn memory(&self, table: &mut Table) {
        let all =
            |field| self.members.iter().map(move |(_, one)| one.memory(field) as f64).collect();
        table.at_most("resident memory", 3072.0, median(all("VmRSS")), "KiB");
        table.at_most("  of it anonymous", 614.0, median(all("RssAnon")), "KiB");
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

// --- the dumper ---

impl Table {
    /// Some dumpers that have written their files: what they hold, and that they ask for nothing more.
    fn dumper(&mut self, managed: &Cluster) {
        let namespace = managed.new_namespace("budget");
        let pair = identity::certificate(managed, "budget", "budget");
        let data: serde_json::Map<_, _> =
            identity::hub_secret(&managed.address, &managed.ca, &pair)
                .iter()
                .map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(value).into()))
                .collect();
        let name = "hub-kubeconfig-secret";
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        managed.create(&SECRETS.object(&namespace, name), &secret);
        let directory = TempDir::new().expect("a temporary directory");
        let start = |number: usize| {
            let port = free_port();
            let mut command = bare(&program("hub-kubeconfig-dumper"));
            command.arg("-kubeconfig").arg(&managed.kubeconfig).args(["-namespace", &namespace]);
            command.arg("-hub-kubeconfig-dir").arg(directory.path().join(number.to_string()));
            command.args(["-metrics-host", "127.0.0.1", "-metrics-port", &port.to_string()]);
            let sidecar = Sidecar::spawn(command, port);
            sidecar.wait_for_code("/readyz", 200);
            sidecar
        };
        let sidecars: Vec<Sidecar> = (0..RUNS).map(start).collect();
        pause(500);
        let before = managed.server().requests().len();
        pause(5000);
        let all = |field| sidecars.iter().map(|one| one.memory(field) as f64).collect();
        self.at_most("resident memory", 3072.0, median(all("VmRSS")), "KiB");
        self.at_most("  of it anonymous", 614.0, median(all("RssAnon")), "KiB");
        let more = managed.server().requests().len() - before;
        self.at_most("requests in 5 s, beside the watch", 0.0, more as f64, "");
    }
}

// --- drift of memory ---

impl Table {
    /// The program itself can't do 100,000 renewals in less than a day, its renewal path can.
    fn drift(&mut self, hub: &Cluster) {
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
fn renew_many(kubeconfig: &Path) {
    let access = kubeconfig::from_file(kubeconfig).expect("the kubeconfig");
    let client = Client::new(
        "the hub",
        access,
        Reload::Never,
        Timing::with_request(Duration::from_secs(10)),
    );
    let client = client.expect("a client");
    let (target, period) = (LEASES.object("default", "drift"), Duration::from_secs(60));
    let spec = lease::heartbeat(period, SystemTime::now());
    let new = lease::new("default", "drift", spec);
    let mut known = client.create(&target, &new).expect("the Lease is created");
    let begin = Instant::now();
    let (mut least, mut most) = (u64::MAX, 0);
    for count in 1..=WARM_UP + MANY {
        let renewed = lease::renewed(&known, period, SystemTime::now(), true);
        known = client.replace(&target, &renewed).expect("the Lease is renewed");
        if count >= WARM_UP && count.is_multiple_of(WARM_UP) {
            let memory = measure::own_memory();
            (least, most) = (least.min(memory), most.max(memory));
        }
    }
    println!("{least} {most} {}", begin.elapsed().as_secs_f64());
}
