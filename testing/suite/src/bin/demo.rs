//! `make demo`: an add-on's Lease through everything that goes wrong in real life, on one screen.

use std::{
    env,
    time::{Duration, Instant},
};

use dev_apiserver::Request;
use shared::certificate::expiry;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use suite::{
    cluster::Cluster,
    eventually,
    identity::{self, hub_secret},
    measure::{self, Memory, Wire, grouped},
    pause,
    relay::Way,
    scene::{ADDON, Scene, renew_time},
    sidecar::{Sidecar, free_port, program},
    term::{self, Timeline, bold},
};

const CLUSTER: &str = "cluster1";
const NAMESPACE: &str = "my-addon-system";
/// Short, so that a minute shows it all; 60 s by default.
const PERIOD: Duration = Duration::from_secs(2);
const AGENTS: &str = "system:open-cluster-management:cluster:cluster1:addon:my-addon";

fn main() {
    term::fail_in_a_sentence();
    let scene = stage();
    introduce();
    let timeline = Timeline::new(38);
    let demo = Demo::start(&scene, &timeline);
    demo.play(&timeline);
}

/// Two servers with what an add-on has on each of them.
fn stage() -> Scene {
    let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
    hub.server().create_namespace(CLUSTER);
    managed.server().create_namespace(NAMESPACE);
    let scene = Scene::within(hub, managed, CLUSTER.into(), NAMESPACE.into());
    give_credentials(&scene, "first");
    scene
}

/// Puts another client certificate into the Secret, for an agent of this name.
fn give_credentials(scene: &Scene, agent: &str) {
    let user = format!("{AGENTS}:agent:{agent}");
    let pair = identity::certificate(&scene.hub, &user, AGENTS);
    assert!(expiry(pair.0.as_bytes()).is_some(), "the hub signed something else");
    let address = scene.hub_relay.address.to_string();
    scene.put_secret(&hub_secret(&address, &scene.hub.ca, &pair));
}

fn introduce() {
    println!(
        "{}",
        bold("addon-lease-controller: the heartbeat of an Open Cluster Management add-on")
    );
    println!(
        "Two small API servers run here, a hub and a managed cluster, and beside them the real static"
    );
    println!(
        "binary. While the add-on's pod (managed cluster) is ready, it renews the Lease {CLUSTER}/{ADDON}"
    );
    println!(
        "(hub) every 2 s, so that the hub knows the add-on to be available; 60 s is the default.\n"
    );
}

struct Demo<'a> {
    scene: &'a Scene,
    sidecar: Sidecar,
    measured: Measured,
}

#[derive(Default)]
struct Measured {
    /// From the start to the Lease on the hub.
    first: Duration,
    wire: Option<Wire>,
    memory: Option<Memory>,
}

impl<'a> Demo<'a> {
    fn start(scene: &'a Scene, timeline: &Timeline) -> Self {
        let port = free_port();
        let mut command = scene.command(port);
        // Of a repeated flag the last counts.
        command.args(["-lease-duration", "2", "-v", "0"]);
        let begin = Instant::now();
        let sidecar = Sidecar::spawn(command, port);
        let mut demo = Self { scene, sidecar, measured: Measured::default() };
        timeline.step("The sidecar starts", || {
            demo.measured.first = demo.next_renewal(begin).at - begin;
            let lease = scene.lease();
            assert!(renew_time(lease.as_ref()).is_some(), "a Lease without renewTime: {lease:?}");
            format!("Lease created {}, renewTime is set", after(demo.measured.first))
        });
        demo
    }

    fn play(mut self, timeline: &Timeline) {
        timeline.step("Five periods pass", || self.renewed());
        timeline.step("The pod becomes unready", || self.unready());
        timeline.step("The pod is ready again", || self.ready());
        timeline.step("The hub's certificate is renewed", || self.rotated());
        timeline.step("Somebody deletes the Lease", || self.deleted());
        timeline.step("The hub is gone: connections refused", || self.hub_away());
        timeline.step("The hub is back", || self.hub_back());
        if env::var("KEEP").is_ok_and(|keep| !keep.is_empty() && keep != "0") {
            self.table();
            self.keep();
        } else {
            timeline.step("SIGTERM", || self.stopped());
            self.table();
            next_steps();
        }
    }

    // --- what is waited for ---

    /// The first renewal that the hub has seen since.
    fn next_renewal(&self, since: Instant) -> Request {
        eventually("the Lease is renewed", || {
            let mut seen = measure::requests(self.scene).into_iter();
            seen.find(|request| request.at >= since && measure::is_renewal(request))
        })
    }

    fn requests_since(&self, since: Instant) -> Vec<Request> {
        let mut requests = measure::requests(self.scene);
        requests.retain(|request| request.at >= since);
        requests
    }

    fn age(&self) -> f64 {
        let mut renewals = measure::requests(self.scene).into_iter().filter(measure::is_renewal);
        renewals.next_back().map_or(0.0, |last| last.at.elapsed().as_secs_f64())
    }

    // --- the steps ---

    fn renewed(&mut self) -> String {
        let begin = Instant::now();
        let wire = measure::renewals_on_the_wire(self.scene, 3);
        let times: Vec<_> = self.requests_since(begin).iter().map(|request| request.at).collect();
        let periods = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        assert_eq!(wire.requests, wire.renewals, "other requests than renewals");
        assert_eq!(wire.connections, 0, "the connection is not kept");
        self.measured.wire = Some(wire);
        let period = measure::median(periods);
        format!("renewed every {period:.3} s: one PUT, kept connection")
    }

    fn unready(&self) -> String {
        let begin = Instant::now();
        self.scene.set_ready(false);
        self.sidecar.wait_for("the Lease is left to age");
        let noticed = begin.elapsed();
        pause(5500);
        let requests = self.requests_since(begin + noticed).len();
        assert_eq!(requests, 0, "the Lease is still renewed");
        format!("noticed {}; no request, Lease {:.1} s old", after(noticed), self.age())
    }

    fn ready(&self) -> String {
        let begin = Instant::now();
        self.scene.set_ready(true);
        format!("renewed {}", after(self.next_renewal(begin).at - begin))
    }

    fn rotated(&self) -> String {
        pause(700);
        let before = measure::requests(self.scene).pop().expect("a request");
        let begin = Instant::now();
        give_credentials(self.scene, "second");
        let next = self.next_renewal(begin);
        let agent =
            |request: &Request| request.user.rsplit(':').next().unwrap_or_default().to_owned();
        assert_eq!((&*agent(&before), &*agent(&next)), ("first", "second"), "identities");
        assert!(next.connection > before.connection, "the old connection is still used");
        let gap = (next.at - before.at).as_secs_f64();
        assert!(gap < PERIOD.as_secs_f64() * 1.25, "a period was lost: {gap} s");
        format!("next PUT as agent \"second\", on time, same pid {}", self.sidecar.pid())
    }

    fn deleted(&self) -> String {
        let begin = Instant::now();
        self.scene.hub.delete(&self.scene.hub_lease());
        let created = self.next_renewal(begin);
        assert_eq!(created.verb, "create");
        format!("created again {} (period 2 s)", after(created.at - begin))
    }

    fn hub_away(&self) -> String {
        self.scene.hub_relay.set(Way::Closed);
        self.sidecar.wait_for_code("/readyz", 503);
        let healthy = self.sidecar.ask("/healthz").0;
        assert_eq!(healthy, 200, "/healthz while the hub is away");
        let age = self.age();
        format!("not ready after {age:.1} s (three periods), but healthy")
    }

    fn hub_back(&mut self) -> String {
        let begin = Instant::now();
        self.scene.hub_relay.set(Way::Open);
        let time = self.next_renewal(begin).at - begin;
        self.sidecar.wait_for("is renewed again after");
        let log = self.sidecar.log();
        let failures = log.rsplit("again after ").next().and_then(|rest| rest.split(' ').next());
        assert!(self.sidecar.alive(), "the process ended");
        self.sidecar.wait_for_code("/readyz", 200);
        self.measured.memory = Some(measure::memory(&self.sidecar));
        format!("renewed {}, after {} failures", after(time), failures.unwrap_or("?"))
    }

    fn stopped(&mut self) -> String {
        let (code, time) = measure::terminate(&mut self.sidecar);
        assert_eq!(code, Some(0), "{}", self.sidecar.log());
        format!("ended {} with exit code 0", after(time))
    }

    // --- the end ---

    fn table(&self) {
        let file = measure::binary(&program("addon-lease-controller"));
        assert!(file.is_static, "the binary is not static: make dist");
        let (wire, memory) = (&self.measured.wire, &self.measured.memory);
        let (wire, memory) = (wire.as_ref().expect("steps"), memory.expect("steps"));
        println!();
        row(&bold(format!("{:28}", "Measured just now")), &bold("   this one"), &bold("  in Go *"));
        row("size of the static binary", &megabytes(file.bytes), "30.8 MB");
        row("resident memory", &megabytes(memory.resident << 10), "31 MB");
        row("  of it anonymous", &megabytes(memory.anonymous << 10), "");
        row("requests per renewal", &format!("{:.0}", wire.requests_per_renewal()), "2");
        let bytes = wire.bytes_per_renewal() as u64;
        row("bytes per renewal, with TLS", &grouped(bytes), "1,968");
        row("start to first renewal", &milliseconds(self.measured.first), "");
        println!("* klusterlet-addon-lease-controller, measured earlier in the same scenario.\n");
    }

    fn keep(&mut self) {
        let show = |cluster: &Cluster, rest: &str| {
            println!("  kubectl --kubeconfig {} {rest}", cluster.kubeconfig.display());
        };
        println!("{}", bold("It goes on until Ctrl-C. Look at it from another terminal:"));
        show(
            &self.scene.hub,
            &format!(
                "-n {CLUSTER} get lease {ADDON} -w -o custom-columns=LEASE:.metadata.name,RENEWED:.spec.renewTime"
            ),
        );
        show(&self.scene.managed, &format!("-n {NAMESPACE} get pods,secrets"));
        println!("  curl localhost:{}/metrics    # also /readyz and /healthz", self.sidecar.port);
        println!("  SHOW_LOG=1 make demo KEEP=1    # the same with the sidecar's log");
        let mut signals = Signals::new([SIGINT, SIGTERM]).expect("signals");
        signals.forever().next();
        // Ctrl-C has reached the sidecar as well: it may have ended already.
        let _ = self.sidecar.alive() && measure::terminate(&mut self.sidecar).0.is_some();
        let log = self.sidecar.log();
        println!("\nThe last line of its log: {}", log.lines().last().unwrap_or_default());
    }
}

fn next_steps() {
    println!("Next: {} leaves all of it running for kubectl and curl;", bold("make demo KEEP=1"));
    println!(
        "README.md says how to deploy it; {} plays this and much more as tests.",
        bold("make test")
    );
}

fn row(figure: &str, ours: &str, go: &str) {
    println!("  {figure:28} {ours:>12} {go:>10}");
}

fn after(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} later", milliseconds(time))
    } else {
        format!("{:.2} s later", time.as_secs_f64())
    }
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 10.0 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{milliseconds:.0} ms")
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}
