//! `make demo`: an add-on's Lease through everything that goes wrong in real life, on one screen.

use std::{
    env,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use dev_apiserver::{Request, State};
use shared::certificate::expiry;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use suite::{
    cluster::Cluster,
    eventually,
    identity::{self, hub_secret},
    measure::{self, Wire, grouped},
    pause,
    scene::{ADDON, SECRET, Scene, renew_time},
    sidecar::{Sidecar, free_port, program},
    term::{self, Timeline, bold, dim},
};

const CLUSTER: &str = "cluster1";
const NAMESPACE: &str = "my-addon-system";
/// Short, so that a minute shows it all; 60 s by default.
const PERIOD: Duration = Duration::from_secs(2);
const AGENTS: &str = "system:open-cluster-management:cluster:cluster1:addon:my-addon";

fn main() {
    term::run(|| {
        let scene = stage();
        introduce();
        let timeline = Timeline::new(38);
        let demo = Demo::start(&scene, &timeline);
        demo.play(&timeline)
    })
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
    println!("{}", bold("addon-lease-controller: the heartbeat of an Open Cluster Management add-on"));
    println!("Two small API servers run here, a hub and a managed cluster, and beside them the real static");
    println!("binary. While the add-on's pod (managed cluster) is ready, it renews the Lease {CLUSTER}/{ADDON}");
    println!("(hub) every 2 s, so that the hub knows the add-on to be available; 60 s is the default.\n");
}

struct Demo<'a> {
    scene: &'a Scene,
    sidecar: Sidecar,
    /// From its start to the Lease on the hub.
    first: Duration,
}

impl<'a> Demo<'a> {
    fn start(scene: &'a Scene, timeline: &Timeline) -> Self {
        let port = free_port();
        let mut command = scene.command(port);
        // Of a repeated flag the last counts.
        command.args(["-lease-duration", "2", "-v", "0"]);
        let begin = Instant::now();
        let demo = Self { scene, sidecar: Sidecar::spawn(command, port), first: Duration::ZERO };
        let mut first = Duration::ZERO;
        timeline.step("The sidecar starts", || {
            let created = demo.next_renewal(begin);
            first = created.at - begin;
            let lease = scene.lease();
            assert!(renew_time(lease.as_ref()).is_some(), "a Lease without renewTime: {lease:?}");
            format!("Lease created {}, renewTime is set", after(first))
        });
        Self { first, ..demo }
    }

    fn play(mut self, timeline: &Timeline) -> bool {
        let mut wire = None;
        timeline.step("Three periods pass", || self.renewed(&mut wire));
        timeline.step("The pod becomes unready", || self.unready());
        timeline.step("The pod is ready again", || self.ready());
        timeline.step("New hub certificate in the Secret", || self.rotated());
        timeline.step("Somebody deletes the Lease", || self.deleted());
        timeline.step("The hub is gone: connections refused", || self.hub_away());
        timeline.step("The hub is back", || self.hub_back());
        let wire = wire.expect("it was measured");
        if env::var("KEEP").is_ok_and(|keep| !keep.is_empty() && keep != "0") {
            self.table(&wire);
            self.keep();
        } else {
            timeline.step("SIGTERM", || self.stopped());
            self.table(&wire);
            next_steps();
        }
        true
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
        let renewals = measure::requests(self.scene).into_iter().filter(measure::is_renewal);
        renewals.last().map_or(0.0, |last| last.at.elapsed().as_secs_f64())
    }

    // --- the steps ---

    fn renewed(&self, wire: &mut Option<Wire>) -> String {
        let begin = Instant::now();
        *wire = Some(measure::renewals_on_the_wire(self.scene, 3));
        let seen = self.requests_since(begin);
        let times: Vec<Instant> = seen.iter().map(|request| request.at).collect();
        let periods: Vec<f64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = periods.iter().sum::<f64>() / periods.len().max(1) as f64;
        format!("renewed every {mean:.2} s, one PUT each, one connection")
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
        let agent = |request: &Request| request.user.rsplit(':').next().unwrap_or_default().to_owned();
        assert_eq!((&*agent(&before), &*agent(&next)), ("first", "second"), "identities");
        assert!(next.connection > before.connection, "the old connection is still used");
        let gap = (next.at - before.at).as_secs_f64();
        assert!(gap < PERIOD.as_secs_f64() * 1.25, "a period was lost: {gap} s");
        format!("next PUT as agent \"second\", after {gap:.2} s; same pid {}", self.sidecar.pid())
    }

    fn deleted(&self) -> String {
        let begin = Instant::now();
        self.scene.hub.delete(&self.scene.hub_lease());
        let created = self.next_renewal(begin);
        assert_eq!(created.verb, "create");
        format!("created again {} (period 2 s)", after(created.at - begin))
    }

    fn hub_away(&self) -> String {
        self.scene.hub.server().faults().set_state(State::Refuse);
        self.sidecar.wait_for_code("/readyz", 503);
        let healthy = self.sidecar.ask("/healthz").0;
        assert_eq!(healthy, 200, "/healthz while the hub is away");
        let age = self.age();
        format!("not ready after {age:.1} s (three periods), but healthy")
    }

    fn hub_back(&mut self) -> String {
        let begin = Instant::now();
        self.scene.hub.server().faults().set_state(State::Up);
        let time = self.next_renewal(begin).at - begin;
        self.sidecar.wait_for("is renewed again after");
        let log = self.sidecar.log();
        let failures = log.rsplit("again after ").next().and_then(|rest| rest.split(' ').next());
        assert!(self.sidecar.alive(), "the process ended");
        self.sidecar.wait_for_code("/readyz", 200);
        format!("renewed {}, after {} failures", after(time), failures.unwrap_or("?"))
    }

    fn stopped(&mut self) -> String {
        let (code, time) = measure::terminate(&mut self.sidecar);
        assert_eq!(code, Some(0), "{}", self.sidecar.log());
        format!("ended {} with exit code 0", after(time))
    }

    // --- the end ---

    fn table(&self, wire: &Wire) {
        let file = measure::binary(&program("addon-lease-controller"));
        assert!(file.is_static, "the binary is not static: make dist");
        row(&bold("Measured just now"), "this program", "the Go original *");
        row("binary, static", &megabytes(file.bytes), "30.8 MB");
        row("memory (resident)", &self.memory.0, "31 MB");
        row("of which anonymous", &self.memory.1, "");
        row("requests per renewal", &format!("{:.0}", wire.requests_per_renewal()), "2");
        row("bytes per renewal, TLS", &grouped(wire.bytes_per_renewal() as u64), "1,968");
        row("start to first renewal", &format!("{} ms", milliseconds(self.first)), "");
    }
}
