use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;
use crate::api::LeaseSpec;

const PERIOD: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// A server with one Lease, and the faults on the way to it and back.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
    /// Times that were written, in order.
    written: Vec<String>,
}

impl Server {
    fn handle(&mut self, action: &Action) -> Result<Lease> {
        let current = self.lease.as_ref().map(|lease| &lease.metadata.resource_version);
        let Action::Write(lease) = action else {
            return self.lease.clone().ok_or_else(|| Error::NotFound("not there".into()));
        };
        match (&lease.metadata.resource_version, current) {
            (None, Some(_)) => Err(Error::AlreadyExists("there".into())),
            (Some(_), None) => Err(Error::NotFound("gone".into())),
            (version @ Some(_), Some(now)) if version != now => {
                Err(Error::Conflict("stale".into()))
            }
            _ => Ok(self.write(lease)),
        }
    }

    fn write(&mut self, lease: &Lease) -> Lease {
        self.written.extend(lease.spec.renew_time.clone());
        self.touch(lease.clone())
    }

    /// Another writer changes a field that is not ours.
    fn touch(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }

    fn touched(&mut self) {
        let lease = self.lease.clone().unwrap();
        self.touch(lease);
    }
}

/// A renewal on a clock of its own.
struct Bench {
    renewal: Renewal,
    now: Now,
    random: f64,
}

impl Bench {
    fn new() -> Self {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let now = Now { instant: Instant::now(), wall };
        let renewal = Renewal::of_own("cluster1", "my-addon", PERIOD, now.instant);
        Self { renewal, now, random: 0.5 }
    }

    /// A renewal that has just succeeded.
    fn renewed(server: &mut Server) -> Self {
        let mut bench = Self::new();
        bench.settle(server);
        bench
    }

    fn pass(&mut self, time: Duration) {
        self.now = Now { instant: self.now.instant + time, wall: self.now.wall + time };
    }

    fn next(&self) -> Action {
        self.renewal.next(true, self.now)
    }

    fn waits(&self) -> Option<Duration> {
        match self.next() {
            Action::Wait(until) => Some(until - self.now.instant),
            _ => None,
        }
    }

    /// Sends the next request and records the answer of `server`.
    fn step(&mut self, server: impl FnOnce(&Action) -> Result<Lease>) -> (Action, RenewalOutcome) {
        let action = self.next();
        let answer = server(&action);
        let times = (self.now, self.now.instant);
        let outcome = self.renewal.answered(&action, &answer, times, self.random);
        (action, outcome)
    }

    /// Requests until the next wait.
    fn settle(&mut self, server: &mut Server) -> Vec<&'static str> {
        let mut requests = Vec::new();
        while self.waits().is_none() {
            assert!(requests.len() < 10, "{requests:?}");
            requests.push(self.step(|action| server.handle(action)).0.name());
        }
        requests
    }
}

impl Action {
    fn name(&self) -> &'static str {
        match self {
            Self::Wait(_) => "wait",
            Self::Read => "read",
            Self::Write(lease) if lease.metadata.resource_version.is_none() => "create",
            Self::Write(_) => "replace",
        }
    }
}

fn unreachable() -> Error {
    Error::Unreachable("nobody answers".into())
}

#[test]
fn the_first_look_creates_and_the_steady_state_is_one_request() {
    let (mut bench, mut server) = (Bench::new(), Server::default());
    assert_eq!(bench.settle(&mut server), ["read", "create"]);
    for _ in 0..5 {
        assert_eq!(bench.waits(), Some(PERIOD));
        bench.pass(PERIOD);
        assert_eq!(bench.settle(&mut server), ["replace"]);
    }
    assert_eq!(server.written.len(), 6);
}

#[test]
fn due_is_a_period_after_the_start_of_the_last_success() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    bench.pass(PERIOD);
    let action = bench.next();
    let sent = bench.now;
    bench.pass(Duration::from_secs(7));
    let answer = server.handle(&action);
    let times = (sent, bench.now.instant);
    let outcome = bench.renewal.answered(&action, &answer, times, 0.5);
    assert_eq!(outcome, RenewalOutcome::Renewed { failures: 0 });
    assert_eq!(bench.waits(), Some(Duration::from_secs(53)));
}

#[test]
fn a_closed_gate_waits_however_late_it_is() {
    let mut bench = Bench::renewed(&mut Server::default());
    bench.pass(PERIOD * 100);
    let closed = bench.renewal.next(false, bench.now);
    assert!(matches!(closed, Action::Wait(until) if until == bench.now.instant + PERIOD));
    assert_eq!(bench.next().name(), "replace", "at once when it opens");
}

#[test]
fn deleted_lease_is_created_at_once() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    bench.pass(PERIOD);
    server.lease = None;
    assert_eq!(bench.settle(&mut server), ["replace", "create"]);
    assert_eq!(bench.waits(), Some(PERIOD));
}

#[test]
fn conflict_is_resolved_at_once() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    bench.pass(PERIOD);
    server.touched();
    assert_eq!(bench.settle(&mut server), ["replace", "read", "replace"]);
    assert_eq!(bench.renewal.failures(), 0);
    // Another one may create it first.
    let mut other = Bench::new();
    other.step(|_| Err(Error::NotFound("not yet".into())));
    assert_eq!(other.settle(&mut server), ["create", "read", "replace"]);
}

#[test]
fn three_conflicts_wait_for_the_next_try() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    for _ in 0..20 {
        bench.pass(PERIOD);
        let mut sent = 0;
        while bench.waits().is_none() {
            server.touched();
            let (action, _) = bench.step(|action| {
                let answer = server.handle(action);
                server.touched();
                answer
            });
            sent += u32::from(action.name() == "replace");
        }
        assert_eq!(sent, MAX_CONFLICTS);
        assert!(bench.waits().is_some_and(|wait| wait <= PERIOD));
    }
    bench.pass(PERIOD);
    bench.settle(&mut server);
    assert_eq!(bench.renewal.failures(), 0);
}

#[test]
fn what_is_no_base_for_a_write_is_read_again() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    bench.pass(PERIOD);
    bench.step(|_| Err(Error::Invalid("no resourceVersion".into())));
    bench.pass(PERIOD);
    assert_eq!(bench.settle(&mut server), ["read", "replace"]);
}

#[test]
fn new_credentials_do_not_wait_out_what_the_old_ones_brought() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    bench.random = 1.0;
    bench.pass(PERIOD);
    for _ in 0..8 {
        bench.step(|_| Err(Error::Unauthorized("expired".into())));
        let wait = bench.waits().unwrap();
        bench.pass(wait);
    }
    bench.step(|_| Err(Error::Unauthorized("expired".into())));
    assert_eq!(bench.waits(), Some(PERIOD));
    bench.renewal.credentials_changed(bench.now.instant);
    assert_eq!(bench.settle(&mut server), ["replace"]);
}

#[test]
fn lease_that_may_not_be_created_is_looked_for() {
    let (mut server, mut bench) = (Server::default(), Bench::new());
    let mut requests = Vec::new();
    while requests.len() < 6 {
        bench.pass(bench.waits().unwrap_or_default());
        let (action, _) = bench.step(|action| match action.name() {
            "create" => Err(Error::Forbidden("403".into())),
            _ => server.handle(action),
        });
        requests.push(action.name());
    }
    assert_eq!(requests, ["read", "create", "read", "create", "read", "create"]);
    server.touch(lease::new("cluster1", "my-addon"));
    bench.pass(bench.waits().unwrap_or_default());
    assert_eq!(bench.settle(&mut server), ["read", "replace"]);
}

#[test]
fn wall_clock_set_back_changes_no_interval() {
    for back in [SECOND, Duration::from_secs(3600)] {
        let mut server = Server::default();
        let mut bench = Bench::renewed(&mut server);
        bench.pass(SECOND * 30);
        bench.now.wall -= back;
        assert_eq!(bench.waits(), Some(SECOND * 30));
        bench.pass(SECOND * 30);
        assert_eq!(bench.settle(&mut server), ["replace"]);
        assert_eq!(bench.waits(), Some(PERIOD), "set back by {back:?}");
    }
}

#[test]
fn machine_that_slept_renews_at_the_first_look() {
    let mut server = Server::default();
    let mut bench = Bench::renewed(&mut server);
    bench.pass(SECOND * 5);
    bench.now.wall += Duration::from_millis(400);
    assert_eq!(bench.waits(), Some(SECOND * 55), "a step of NTP changes nothing");
    // Asleep, the monotonic clock stands still.
    bench.now.wall += Duration::from_secs(600);
    assert_eq!(bench.settle(&mut server), ["replace"]);
    assert_eq!(bench.waits(), Some(PERIOD), "and then one renewal a period");
}

#[test]
fn clock_jump_does_not_shorten_a_back_off() {
    let mut bench = Bench::renewed(&mut Server::default());
    bench.pass(PERIOD);
    bench.step(|_| Err(unreachable()));
    let wait = bench.waits();
    for _ in 0..1000 {
        bench.now.wall += Duration::from_secs(3600);
        assert_eq!(bench.waits(), wait, "no storm from a clock that runs wild");
    }
}

#[test]
fn renewal_keeps_its_invariants_in_a_random_world() {
    for seed in 0..60 {
        random_world(&mut fastrand::Rng::with_seed(seed));
    }
}

/// A thousand requests with faults before and after the write, other writers and deletions.
fn random_world(random: &mut fastrand::Rng) {
    let (mut server, mut bench) = (Server::default(), Bench::new());
    let mut last: Option<Instant> = None;
    let mut trouble = Duration::ZERO;
    for _ in 0..1000 {
        if let Some(wait) = bench.waits() {
            assert!(wait <= PERIOD, "the wait is at most a period");
            bench.pass(wait);
        }
        bench.random = random.f64();
        let fault = random.u8(..20);
        let (action, outcome) = bench.step(|action| disturbed(&mut server, action, fault));
        bench.pass(Duration::from_millis(random.u64(1..500)));
        if let Action::Write(lease) = &action {
            let (name, namespace) = (&lease.metadata.name, &lease.metadata.namespace);
            let written = (name.as_deref(), namespace.as_deref());
            assert_eq!(written, (Some("my-addon"), Some("cluster1")), "no other Lease is written");
        }
        match outcome {
            RenewalOutcome::Renewed { .. } => {
                let since = last.replace(bench.now.instant).map(|at| bench.now.instant - at);
                assert!(
                    since.is_none_or(|since| since <= PERIOD * 5 / 4 + trouble),
                    "renewed in time"
                );
                trouble = Duration::ZERO;
            }
            RenewalOutcome::Failed(retry) => trouble += retry.wait + SECOND,
            RenewalOutcome::Continue => trouble += SECOND,
        }
    }
    assert!(server.written.is_sorted_by(|a, b| a < b), "renewTime only grows");
}

fn disturbed(server: &mut Server, action: &Action, fault: u8) -> Result<Lease> {
    match fault {
        0 => Err(unreachable()),
        1 => server.handle(action).and_then(|_| Err(unreachable())),
        2 => Err(Error::Unavailable { message: "500".into(), retry_after: None, of_object: false }),
        3 if server.lease.is_some() => {
            server.touched();
            server.handle(action)
        }
        _ => server.handle(action),
    }
}

/// Requests that reached the hub, in seconds after it came back.
fn fleet_after_an_outage(clients: usize, after: Duration) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(39);
    let begin = Instant::now();
    let (away, back) = (begin + PERIOD * 2, begin + PERIOD * 12);
    let mut fleet: Vec<_> = (0..clients).map(|_| (Bench::new(), Server::default())).collect();
    let mut order: BinaryHeap<_> =
        (0..clients).map(|index| Reverse((begin + PERIOD.mul_f64(random.f64()), index))).collect();
    let mut arrivals = Vec::new();
    while let Some(Reverse((instant, index))) = order.pop() {
        if instant > back + after {
            return arrivals;
        }
        let (bench, server) = &mut fleet[index];
        bench.pass(instant.saturating_duration_since(bench.now.instant));
        bench.random = random.f64();
        while bench.waits().is_none() {
            if (away..back).contains(&instant) {
                bench.step(|_| Err(unreachable()));
            } else {
                bench.step(|action| server.handle(action));
                arrivals.extend((instant >= back).then(|| (instant - back).as_secs_f64()));
            }
        }
        order.push(Reverse((instant + bench.waits().unwrap(), index)));
    }
    arrivals
}

#[test]
fn fleet_comes_back_spread_over_the_period() {
    let after = PERIOD * 5;
    let arrivals = fleet_after_an_outage(3500, after);
    let mean = arrivals.len() as f64 / after.as_secs_f64();
    // Ten seconds at a time: a count of 600 has a spread of 4 %.
    let mut counts = [0_u32; 30];
    for at in &arrivals {
        counts[(at / 10.0) as usize % 30] += 1;
    }
    let peak = f64::from(*counts.iter().max().unwrap()) / 10.0;
    assert!(peak <= 2.0 * mean, "peak {peak:.0}/s, mean {mean:.0}/s: {counts:?}");
    let missing = counts[..6].iter().filter(|count| **count == 0).count();
    assert_eq!(missing, 0, "the first minute is used as a whole: {counts:?}");
}

#[test]
fn a_lease_of_others_is_never_created_and_keeps_its_duration() {
    let mut bench = Bench { renewal: Renewal::of_others(PERIOD, Instant::now()), ..Bench::new() };
    bench.now.instant = Instant::now();
    let mut server = Server::default();
    assert!(matches!(bench.step(|action| server.handle(action)).1, RenewalOutcome::Failed(_)));
    bench.pass(PERIOD);
    let holder = || Some("managed-cluster-lease".to_owned());
    let spec = LeaseSpec { holder_identity: holder(), ..LeaseSpec::default() };
    server.touch(Lease { spec, ..lease::new("cluster1", "x") });
    assert_eq!(bench.settle(&mut server), ["read", "replace"]);
    let spec = server.lease.unwrap().spec;
    assert_eq!((spec.holder_identity, spec.lease_duration_seconds), (holder(), None));
    assert!(spec.renew_time.is_some());
    bench.renewal.set_period(PERIOD * 2);
    assert_eq!(bench.waits(), Some(PERIOD * 2));
    bench.renewal.set_period(SECOND);
    bench.random = 1.0;
    bench.pass(PERIOD);
    for _ in 0..8 {
        bench.step(|_| Err(unreachable()));
        assert!(bench.waits().is_some_and(|wait| wait <= SECOND), "by the new period");
        bench.pass(SECOND);
    }
}
