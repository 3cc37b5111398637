//! `make soak`: runs csr-bootstrapper through 100,000 renewals, with faults in 5 % of the requests, and checks its
//! invariants. The other programs share its leader election. `SEED` and `RENEWALS` override the defaults.
//!
//! Heartbeats come once a second at most, so 100,000 would take a day. Leader election renews its Lease over the same
//! path to the server, as often as `-leader-election-retry-period` says: it takes minutes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dev_apiserver::{Action, Rule};
use fastrand::Rng;
use suite::{cluster::Cluster, pause, setting, sidecar::Sidecar, spoke::Spoke};
use tools::{
    measure::{grouped, is_renewal},
    seed,
    term::{self, bold, green, red},
};

/// Memory is stable after this fraction of all renewals: a tenth.
const EARLY: u64 = 10;
/// The fraction of requests that fail.
const FAULTS: f64 = 0.05;
/// How long the leader may go without a renewal before it stops leading.
const DEADLINE: Duration = Duration::from_secs(10);
/// How much memory may grow from early to late, in KiB.
const DRIFT: u64 = 64;
const PROGRAM: &str = "csr-bootstrapper";
const FLAGS: [&str; 3] = [
    "-leader-election-lease-duration=15s",
    "-leader-election-renew-deadline=10s",
    "-leader-election-retry-period=1ms",
];

/// One process and its Lease on `cluster`.
struct Life {
    cluster: Arc<Cluster>,
    sidecar: Sidecar,
    renewals: u64,
    others: u64,
    last: Instant,
    longest: Duration,
    /// After a tenth of the renewals.
    early: Option<Figures>,
}

/// Memory in KiB, and the number of file descriptors.
#[derive(Clone, Copy)]
struct Figures {
    resident: u64,
    descriptors: usize,
}

fn main() {
    term::fail_in_a_sentence();
    let (seed, renewals) = (seed(), setting("RENEWALS").unwrap_or(100_000));
    println!("SEED={seed} RENEWALS={renewals}\n");
    let words = format!("Long lives: {} renewals by one process", grouped(renewals));
    println!("{}", bold(words + ", 5 % of requests hit by a fault\n"));
    let held = run(renewals, &mut Rng::with_seed(seed));
    assert!(held, "an invariant was broken; again with SEED={seed}");
    println!("All invariants held.");
}

/// Runs until the process has renewed its Lease this often; returns whether all invariants held.
fn run(renewals: u64, random: &mut Rng) -> bool {
    let spoke = Spoke::auto("life");
    let agent = spoke.start(&[&["-disable-leader-election=false"][..], &FLAGS].concat());
    let mut life = Life::new(&spoke.managed, agent);
    life.meet_faults(random);
    let begin = Instant::now();
    while life.renewals < renewals {
        pause(200);
        life.look(renewals);
    }
    let held = life.judge(renewals);
    fact("seconds", &begin.elapsed().as_secs().to_string());
    println!();
    held
}

fn fact(what: &str, value: &str) {
    println!("  {what:24}{value}");
}

fn held(what: &str, ok: bool) -> bool {
    println!("  {what:76} {}", if ok { green("ok") } else { red("BROKEN") });
    ok
}

/// Returns fast faults of single requests; with slow ones, 100,000 renewals would take too long.
fn quick() -> [Action; 8] {
    [
        Action::Garbage,
        Action::Truncate,
        Action::Drop,
        Action::ApplyThenDrop,
        Action::NotJson,
        Action::Forbid,
        page(500),
        page(503),
    ]
}

/// Returns a load balancer's answer.
fn page(code: u16) -> Action {
    let html = "<html><body><h1>It does not work</h1></body></html>";
    Action::Answer { code, body: Some(html.to_owned()), retry_after: None }
}

impl Life {
    fn new(cluster: &Arc<Cluster>, sidecar: Sidecar) -> Self {
        Self {
            cluster: cluster.clone(),
            sidecar,
            renewals: 0,
            others: 0,
            last: Instant::now(),
            longest: Duration::ZERO,
            early: None,
        }
    }

    fn meet_faults(&self, random: &mut Rng) {
        let each = FAULTS / quick().len() as f64;
        for fault in quick() {
            let rule = Rule::new(fault).resource("leases").probability(each, random.u64(..));
            self.cluster.faults().add(rule);
        }
    }

    /// Counts the requests since the last call.
    fn look(&mut self, wanted: u64) {
        for request in self.cluster.server().take_requests(Instant::now()) {
            if !is_renewal(&request) {
                self.others += u64::from(request.resource == "leases");
                continue;
            }
            self.longest = self.longest.max(request.at.saturating_duration_since(self.last));
            self.last = request.at;
            self.renewals += 1;
            if self.renewals.is_multiple_of((wanted / EARLY).max(1)) {
                println!("  {PROGRAM:20} {:>7} renewals", grouped(self.renewals));
                let figures = self.figures();
                self.early.get_or_insert(figures);
            }
        }
        assert!(self.sidecar.alive(), "{PROGRAM} ended by itself:\n{}", self.sidecar.log());
        let silent = self.last.elapsed();
        assert!(silent < 2 * DEADLINE, "{PROGRAM} renewed nothing for {silent:?}");
    }

    fn figures(&self) -> Figures {
        Figures { resident: self.sidecar.memory("VmRSS"), descriptors: self.sidecar.descriptors() }
    }

    /// Returns whether all invariants held.
    fn judge(&self, wanted: u64) -> bool {
        let (early, late) = (self.early.expect("there was an early time"), self.figures());
        println!();
        let requests =
            format!("{} renewals, {} other requests", grouped(self.renewals), self.others);
        fact(PROGRAM, &requests);
        let words = |before: u64, after: u64, what: &str| {
            format!("{what} after {}: {before}, at the end: {after}", grouped(wanted / EARLY))
        };
        let longest = self.longest.as_millis();
        let gap = format!("renewals follow each other after {longest} ms at most");
        let memory = words(early.resident, late.resident, "KiB resident");
        let (before, after) = (early.descriptors as u64, late.descriptors as u64);
        let all = [
            held(&gap, self.longest < DEADLINE),
            held(&memory, late.resident <= early.resident + DRIFT),
            // A connection that is just being replaced may add one.
            held(&words(before, after, "descriptors"), after <= before + 1),
        ];
        !all.contains(&false)
    }
}
