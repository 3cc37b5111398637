//! `make soak`: 100,000 renewals with 5 % random faults, and what must hold through all of them.
//!
//! A program renews once a second at most, so many of them run beside each other, each with a Lease
//! of its own on one hub. `RENEWALS`, `SEED` and `PROCESSES` change what they name.

use std::{
    env,
    fmt::Display,
    fs,
    path::Path,
    str::FromStr,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Action, Rule, Server, State};
use serde_json::json;
use suite::{
    dice::Dice,
    identity,
    measure::{self, grouped},
    pause,
    sidecar::{Sidecar, bare, program},
    term::{self, bold, green, red},
    witness::{LEASE, Witness},
};
use tempfile::TempDir;

/// Of all requests.
const FAULTS: f64 = 0.05;
/// The limits of I10 and I12.
const LONGEST_END: Duration = Duration::from_secs(1);
const DRIFT: u64 = 64;

fn main() {
    term::fail_in_a_sentence();
    let plan = Plan::new();
    println!(
        "{}",
        bold(format!("Soak: {} renewals, 5 % of requests hit by a fault", grouped(plan.renewals)))
    );
    println!(
        "SEED={} PROCESSES={}; each process has its own Lease, renewed every second\n",
        plan.seed, plan.processes
    );
    let mut soak = Soak::start(plan);
    soak.warm_up();
    let before = soak.at_rest();
    soak.main_part();
    let after = soak.at_rest();
    soak.judge(&before, &after);
}

struct Plan {
    renewals: u64,
    seed: u64,
    processes: usize,
}

impl Plan {
    fn new() -> Self {
        let renewals = setting("RENEWALS", 100_000);
        // At least 40 renewals each, so that a short run still means something.
        let most = usize::try_from(renewals / 40).unwrap_or(usize::MAX);
        let processes = setting("PROCESSES", 250.min(most)).max(1);
        Self { renewals, seed: setting("SEED", 20_240_613), processes }
    }
}

fn setting<T: FromStr<Err: Display>>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().unwrap_or_else(|e| panic!("{name}={text:?}: {e}"))
        }
        _ => default,
    }
}

// --- faults ---

/// F1 to F16 (and F33) that strike a single request; those of the whole server are [`STATES`].
fn faults() -> Vec<Action> {
    let answer = |code, body: Option<&str>, retry_after: Option<&str>| Action::Answer {
        code,
        body: body.map(str::to_owned),
        retry_after: retry_after.map(str::to_owned),
    };
    let html = Some("<html><body><h1>It does not work</h1></body></html>");
    vec![
        Action::Garbage,                                              // F4
        Action::Stall,                                                // F5
        Action::Truncate,                                             // F6
        Action::HugeHeaders { bytes: 70_000 },                        // F7
        Action::HugeBody { bytes: 4 << 20 },                          // F7
        Action::Drop,                                                 // F8
        Action::Delay { milliseconds: 700 },                          // F9
        answer(401, None, None),                                      // F10
        Action::Forbid,                                               // F12
        answer(429, None, Some("1")),                                 // F13
        answer(500, html, None),                                      // F14
        answer(502, html, None),                                      // F14
        answer(503, html, Some("1")),                                 // F14
        answer(504, html, None),                                      // F14
        Action::NotJson,                                              // F15
        Action::WrongKind,                                            // F15
        Action::NullSpec,                                             // F15
        Action::Redirect { location: "https://127.0.0.1:1/".into() }, // F16
        Action::ApplyThenDrop,                                        // F33
    ]
}

/// What happens to the whole server now and then: F1, F2, F3, F4 twice, F8.
const STATES: [State; 6] = [
    State::Refuse,
    State::Partition,
    State::Hang,
    State::Alert,
    State::GarbageHandshake,
    State::CloseAfterAnswer,
];
/// How long the server is well between two of them.
const WELL: Duration = Duration::from_secs(20);

// --- the run ---

struct Soak {
    plan: Plan,
    dice: Dice,
    server: Server,
    sidecars: Vec<Sidecar>,
    witness: Witness,
    next_state: Instant,
    states: usize,
    told: Instant,
    begin: Instant,
    _directory: TempDir,
}

/// Memory in KiB and descriptors of one process.
type Figures = Vec<(u64, usize)>;

impl Soak {
    fn start(plan: Plan) -> Self {
        let server = Server::start(dev_apiserver::Options::default()).expect("the server starts");
        let directory = TempDir::new().expect("a temporary directory");
        let mut sidecars = Vec::new();
        for index in 0..plan.processes {
            sidecars.push(spawn(&server, directory.path(), index));
            // Spread over the second that is the period.
            pause(1000 / plan.processes as u64);
        }
        let now = Instant::now();
        Self {
            dice: Dice::new(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            witness: Witness::new(plan.processes),
            plan,
            server,
            sidecars,
            next_state: now + WELL,
            states: 0,
            told: now,
            begin: now,
            _directory: directory,
        }
    }

    /// Every process meets every fault once, so that memory has been where it goes.
    fn warm_up(&mut self) {
        for namespace in (0..self.plan.processes).map(name) {
            for fault in faults() {
                let rule =
                    Rule::new(fault).namespace(&namespace).probability(0.3, self.dice.roll());
                self.server.faults().add(rule.times(1));
            }
        }
        for state in STATES {
            self.run_for(Duration::from_secs(5));
            self.disturb(state);
        }
        self.run_for(Duration::from_secs(30));
        self.server.faults().clear();
    }

    /// Random faults until all renewals are there.
    fn main_part(&mut self) {
        let each = FAULTS / faults().len() as f64;
        for namespace in (0..self.plan.processes).map(name) {
            for fault in faults() {
                let rule = Rule::new(fault).namespace(&namespace);
                self.server.faults().add(rule.probability(each, self.dice.roll()));
            }
        }
        self.next_state = Instant::now() + WELL;
        // A short run is not over before it has begun.
        let least = self.witness.renewals + 20 * self.plan.processes as u64;
        while self.witness.renewals < self.plan.renewals.max(least) {
            self.run_for(Duration::from_secs(1));
            if Instant::now() >= self.next_state {
                let state = STATES[self.dice.below(STATES.len() as u64) as usize];
                self.disturb(state);
                self.next_state = Instant::now() + WELL;
            }
        }
        self.server.faults().clear();
    }

    /// The whole server misbehaves for half a second to one and a half.
    fn disturb(&mut self, state: State) {
        let begin = Instant::now();
        self.server.faults().set_state(state);
        if matches!(state, State::Alert | State::GarbageHandshake) {
            // These meet new connections only.
            self.server.restart();
        }
        pause(500 + self.dice.below(1000));
        self.server.faults().set_state(State::Up);
        self.witness.was_away(begin, Instant::now());
        self.states += 1;
    }

    /// Lets time pass, and looks at what the server has seen.
    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            pause(500);
            let seen = self.server.requests();
            self.server.clear_requests();
            self.witness.look(seen);
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

impl Soak {
    fn judge(mut self, before: &Figures, after: &Figures) {
        self.witness.silent_at_the_end();
        let alive = self.sidecars.iter_mut().map(Sidecar::alive).filter(|alive| *alive).count();
        let grown = before.iter().zip(after).map(|(before, after)| after.0.abs_diff(before.0));
        let drift = grown.clone().max().unwrap_or(0);
        let median = measure::median(grown.map(|kib| kib as f64).collect());
        let leaks = before.iter().zip(after).filter(|(before, after)| before.1 != after.1).count();
        let ends: Vec<_> = self.sidecars.iter_mut().map(measure::terminate).collect();
        let slowest = ends.iter().map(|(_, time)| *time).max().unwrap_or_default();
        let clean = ends.iter().filter(|(code, _)| *code == Some(0)).count();
        let panics = self.sidecars.iter().filter(|one| one.log().contains("panicked")).count();

        let (all, witness) = (self.plan.processes, &self.witness);
        let mut verdict = Verdict::default();
        println!();
        verdict.fact("renewals", &grouped(witness.renewals));
        verdict.fact("requests", &witness.requests());
        verdict.fact("server away or broken", &format!("{} times", self.states));
        for invariant in ["I1", "I2", "I3", "I4"] {
            let broken = witness.violations.iter().filter(|one| one.starts_with(invariant)).count();
            verdict.row(invariant, &witness.seen(invariant), broken == 0);
        }
        let ms = slowest.as_secs_f64() * 1000.0;
        let ended =
            format!("{clean} of {all} end cleanly on SIGTERM, the slowest after {ms:.1} ms");
        verdict.row("I10", &ended, clean == all && slowest <= LONGEST_END);
        let living = format!("{alive} of {all} lived to the end, {panics} panics");
        verdict.row("I11", &living, alive == all && panics == 0);
        let memory = format!("memory moved by {median} KiB (median), {drift} KiB at most");
        verdict.row("I12", &memory, drift <= DRIFT);
        verdict.row("I12", &format!("descriptors changed in {leaks} of {all}"), leaks == 0);
        for violation in witness.violations.iter().take(20) {
            println!("  {violation}");
        }
        println!();
        assert!(!verdict.broken, "an invariant was broken; again with SEED={}", self.plan.seed);
        println!("All invariants held.");
    }
}

#[derive(Default)]
struct Verdict {
    broken: bool,
}

impl Verdict {
    fn fact(&mut self, what: &str, value: &str) {
        println!("  {what:24}{value}");
    }

    fn row(&mut self, invariant: &str, seen: &str, ok: bool) {
        self.broken |= !ok;
        println!("  {invariant:4} {seen:70} {}", if ok { green("ok") } else { red("BROKEN") });
    }
}
