//! Many processes, each with a Lease of its own on one hub: a program renews once a second at most.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Rule, Server, State};
use serde_json::json;
use suite::{
    cluster::Cluster,
    dice::Dice,
    identity,
    measure::{self, grouped},
    pause, setting,
    sidecar::{Sidecar, bare, program},
    term::bold,
    witness::{LEASE, SETTLED, Witness},
};
use tempfile::TempDir;

use crate::{
    canary::{self, Canary},
    faults::{Outage, faults, outages},
    verdict::Verdict,
};

/// Of all requests.
const FAULTS: f64 = 0.05;
/// How long the server is well between two outages.
const WELL: Duration = Duration::from_secs(20);
/// The limits of I10 and I12.
const LONGEST_END: Duration = Duration::from_secs(1);
const DRIFT: u64 = 64;
/// KiB at any time, and descriptors at rest.
const LIMITS: (u64, usize) = (3072, 8);

/// Runs until all processes together have renewed so often; whether all held.
pub fn run(renewals: u64, dice: Dice) -> bool {
    let words = format!("Fleet: {} renewals together", grouped(renewals));
    println!("{}", bold(words + ", 5 % of requests hit by a fault"));
    // At least 40 renewals each, so that a short run still means something.
    let most = usize::try_from(renewals / 40).unwrap_or(usize::MAX);
    let processes = setting("PROCESSES").unwrap_or(250.min(most)).max(1);
    println!("PROCESSES={processes}; each has its own Lease, renewed every second\n");
    let mut fleet = Fleet::start(renewals, processes, dice);
    fleet.warm_up();
    let before = fleet.at_rest();
    fleet.main_part();
    let after = fleet.at_rest();
    fleet.judge(&before, &after)
}

struct Fleet {
    wanted: u64,
    processes: usize,
    dice: Dice,
    cluster: Arc<Cluster>,
    canary: Canary,
    sidecars: Vec<Sidecar>,
    witness: Witness,
    next: Instant,
    outages: usize,
    /// The last outage.
    last: (Instant, Instant),
    /// For how long the machine was too busy.
    slow: Duration,
    told: Instant,
    begin: Instant,
    _directory: TempDir,
}

/// Memory in KiB and descriptors of one process.
type Figures = Vec<(u64, usize)>;

impl Fleet {
    fn start(wanted: u64, processes: usize, dice: Dice) -> Self {
        let cluster = Cluster::embedded("hub");
        let directory = TempDir::new().expect("a temporary directory");
        let mut sidecars = Vec::new();
        for index in 0..processes {
            sidecars.push(spawn(cluster.server(), directory.path(), index));
            // Spread over the second that is the period.
            pause(1000 / processes as u64);
        }
        let now = Instant::now();
        Self {
            wanted,
            processes,
            dice,
            witness: Witness::new(processes),
            canary: Canary::start(&cluster),
            cluster,
            sidecars,
            next: now + WELL,
            outages: 0,
            last: (now, now),
            slow: Duration::ZERO,
            told: now,
            begin: now,
            _directory: directory,
        }
    }

    /// Every process meets every fault once, so that memory has been where it goes.
    fn warm_up(&mut self) {
        for namespace in (0..self.processes).map(name) {
            for fault in faults() {
                let rule =
                    Rule::new(fault).namespace(&namespace).probability(0.3, self.dice.roll());
                self.cluster.faults().add(rule.times(1));
            }
        }
        for outage in outages() {
            self.run_for(Duration::from_secs(3));
            self.disturb(outage);
        }
        self.run_for(Duration::from_secs(20));
        self.cluster.faults().clear();
    }

    /// Random faults until all renewals are there.
    fn main_part(&mut self) {
        let each = FAULTS / faults().len() as f64;
        for namespace in (0..self.processes).map(name) {
            for fault in faults() {
                let rule = Rule::new(fault).namespace(&namespace);
                self.cluster.faults().add(rule.probability(each, self.dice.roll()));
            }
        }
        self.next = Instant::now() + WELL;
        // A short run is not over before it has begun.
        let least = self.witness.renewals + 20 * self.processes as u64;
        // Where nobody renews any more it ends as well.
        let seconds = 3 * self.wanted.max(least) / self.processes as u64 + 60;
        let end = Instant::now() + Duration::from_secs(seconds);
        while self.witness.renewals < self.wanted.max(least) && Instant::now() < end {
            self.run_for(Duration::from_secs(1));
            if Instant::now() >= self.next {
                let mut all = outages();
                let one = self.dice.below(all.len() as u64) as usize;
                self.disturb(all.swap_remove(one));
                self.next = Instant::now() + WELL;
            }
        }
        self.cluster.faults().clear();
    }

    /// The whole server misbehaves for half a second to one and a half.
    fn disturb(&mut self, outage: Outage) {
        let faults = self.cluster.faults();
        let (mut begin, length) = (Instant::now(), 500 + self.dice.below(1000));
        self.outages += 1;
        match outage {
            Outage::State(state) => {
                faults.set_state(state);
                if matches!(state, State::Alert | State::GarbageHandshake) {
                    // These meet new connections only.
                    self.cluster.server().restart();
                }
                pause(length);
                faults.set_state(State::Up);
            }
            Outage::Storm(action) => {
                let storm = faults.add(Rule::new(action));
                pause(length);
                faults.remove(storm);
            }
            Outage::Restore => {
                let backup = self.cluster.server().backup();
                pause(length);
                begin = Instant::now();
                self.cluster.server().restore(&backup);
            }
            Outage::Clock(seconds) => {
                faults.set_date_offset(seconds);
                pause(length);
                return faults.set_date_offset(0);
            }
        }
        self.last = (begin, Instant::now());
        self.witness.was_away(begin, Instant::now());
    }

    /// An outage is slow, too, and counted already.
    fn note_slow_times(&mut self) {
        for (begin, end) in self.canary.slow() {
            if end < self.last.0 || self.last.1 < begin {
                self.slow += end - begin;
                self.witness.was_away(begin, end);
            }
        }
    }

    /// Lets time pass, and looks at what the server has seen.
    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            pause(500);
            self.note_slow_times();
            let mut requests = self.cluster.server().take_requests(Instant::now() - SETTLED);
            requests.retain(|request| request.user != canary::USER);
            self.witness.look(requests);
        }
        self.progress();
    }

    fn progress(&mut self) {
        if self.told.elapsed() < Duration::from_secs(30) {
            return;
        }
        self.told = Instant::now();
        let alive = self.sidecars.iter_mut().map(Sidecar::alive).filter(|alive| *alive).count();
        let (done, seconds) = (grouped(self.witness.renewals), self.begin.elapsed().as_secs());
        let broken = self.witness.violations.len();
        println!("{seconds:4} s  {done:>7} renewals, {alive} processes alive, {broken} violations");
    }

    /// Memory and descriptors once nothing has gone wrong for a while.
    fn at_rest(&mut self) -> Figures {
        self.run_for(Duration::from_secs(6));
        self.sidecars.iter().map(|one| (one.memory("VmRSS"), one.descriptors())).collect()
    }
}

fn name(index: usize) -> String {
    format!("soak-{index}")
}

/// One sidecar with a kubeconfig in a file, for the Lease of its own namespace.
fn spawn(server: &Server, directory: &Path, index: usize) -> Sidecar {
    let name = name(index);
    server.create_namespace(&name);
    let year = Duration::from_secs(365 * 24 * 3600);
    let (certificate, key) = server.client_certificate(&name, &["soak"], year);
    let (certificate, key) = (BASE64_STANDARD.encode(certificate), BASE64_STANDARD.encode(key));
    let user = json!({"client-certificate-data": certificate, "client-key-data": key});
    let address = server.address().to_string();
    let text = identity::kubeconfig(&address, &server.ca().certificate_pem, &user).to_string();
    let file = directory.join(&name);
    fs::write(&file, text).expect("the kubeconfig is written");
    let mut command = bare(&program("addon-lease-controller"));
    command
        .arg("-hub-kubeconfig")
        .arg(file)
        .args(["-lease-name", LEASE, "-lease-namespace", &name, "-lease-duration", "1"])
        .args(["-startup-delay", "0", "-metrics-port", "0"]);
    Sidecar::spawn(command, 0)
}

// --- the verdict ---

impl Fleet {
    fn judge(mut self, before: &Figures, after: &Figures) -> bool {
        self.witness.look_at_the_end(Instant::now() - SETTLED);
        self.tell_of_processes(before, after);
        let peak = self.sidecars.iter().map(|one| one.memory("VmHWM")).max().unwrap_or(0);
        let most = after.iter().map(|after| after.1).max().unwrap_or(0);
        let (ends, all) = (self.end(), self.processes);
        let slowest = ends.iter().map(|(_, time)| *time).max().unwrap_or_default();
        let clean = ends.iter().filter(|(code, _)| *code == Some(0)).count();
        let grown =
            before.iter().zip(after).map(|(before, after)| after.0.saturating_sub(before.0));
        let drift = grown.clone().max().unwrap_or(0);
        let median = measure::median(grown.map(|kib| kib as f64).collect());
        let leaks = before.iter().zip(after).filter(|(before, after)| before.1 != after.1).count();

        let witness = &self.witness;
        let mut verdict = Verdict::default();
        println!();
        let renewals = grouped(witness.renewals);
        verdict.fact("renewals", &format!("{renewals}, {}", witness.shares()));
        verdict.fact("requests", &witness.requests());
        verdict.fact("server away or broken", &format!("{} times", self.outages));
        verdict.fact("machine too busy", &format!("{:.1} s", self.slow.as_secs_f64()));
        for invariant in ["I1", "I2", "I3", "I4"] {
            let broken = witness.violations.iter().any(|one| one.starts_with(invariant));
            verdict.row(invariant, &witness.seen(invariant), !broken);
        }
        let (alive, ms) = (ends.len(), slowest.as_secs_f64() * 1000.0);
        let ended =
            format!("{clean} of {alive} end cleanly on SIGTERM, the slowest after {ms:.1} ms");
        verdict.row("I10", &ended, clean == alive && slowest <= LONGEST_END);
        verdict.row("I11", &format!("{alive} of {all} lived to the end"), alive == all);
        let memory = format!("memory grew by {median} KiB (median), {drift} KiB at most");
        verdict.row("I12", &memory, drift <= DRIFT);
        verdict.row("I12", &format!("descriptors changed in {leaks} of {all}"), leaks == 0);
        let limits = format!("never more than {peak} KiB; {most} descriptors at most");
        verdict.row("F60", &limits, peak <= LIMITS.0 && most <= LIMITS.1);
        for violation in witness.violations.iter().take(40) {
            println!("  {violation}");
        }
        println!();
        !verdict.broken
    }

    /// Names the processes that ended by themselves or took more and more.
    fn tell_of_processes(&mut self, before: &Figures, after: &Figures) {
        let told = &mut self.witness.violations;
        for (index, one) in self.sidecars.iter_mut().enumerate() {
            let (name, before, after) = (name(index), before[index], after[index]);
            if !one.alive() {
                let log = one.log();
                let last = log.lines().last().unwrap_or_default();
                told.push(format!("I11: {name} ended by itself with {}: {last}", one.wait()));
            } else if after.0 > before.0 + DRIFT || after.1 != before.1 {
                told.push(format!("I12: {name} from {before:?} (KiB, descriptors) to {after:?}"));
            }
        }
    }

    /// Asks all that live to end; their exit codes, and how long that took.
    fn end(&mut self) -> Vec<(Option<i32>, Duration)> {
        let living = self.sidecars.iter_mut().filter_map(|one| one.alive().then_some(one));
        living.map(measure::terminate).collect()
    }
}
