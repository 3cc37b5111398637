use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;

const PERIOD: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn created(duration: Duration, now: SystemTime) -> Lease {
    renewed(&new("ns", "x"), duration, now, true)
}

#[test]
fn new_lease_has_a_renew_time() {
    let Lease { metadata, spec } = created(PERIOD, at(0));
    assert_eq!(metadata.name.as_deref(), Some("x"));
    assert_eq!(spec.renew_time.as_deref(), Some("1970-01-01T00:00:00.000000Z"));
    assert_eq!(spec.lease_duration_seconds, Some(60));
}

#[test]
fn only_our_fields_are_rewritten() {
    let mut lease = created(PERIOD / 2, at(0));
    lease.metadata.resource_version = Some("7".into());
    lease.metadata.other.insert("annotations".into(), serde_json::json!({"a": "b"}));
    lease.spec.holder_identity = Some("other".into());
    lease.spec.other.insert("strategy".into(), "new".into());
    let others = renewed(&lease, PERIOD, at(100), false);
    assert_eq!(others.spec.lease_duration_seconds, Some(30));
    let mut expected = lease.clone();
    expected.spec.renew_time = others.spec.renew_time.clone();
    assert_eq!(others, expected);
    let own = renewed(&lease, PERIOD, at(100), true);
    assert_eq!(own.spec.lease_duration_seconds, Some(60));
}

#[test]
fn renew_time_moves_forward_over_small_clock_steps() {
    let time = |lease: &Lease| parse_micro_time(lease.spec.renew_time.as_deref().unwrap()).unwrap();
    let first = created(PERIOD, at(1000));
    let again = renewed(&first, PERIOD, at(1000), true);
    assert!(time(&again) > time(&first));
    let stepped_back = renewed(&again, PERIOD, at(990), true);
    assert!(time(&stepped_back) > time(&again));
    let set_back = renewed(&stepped_back, PERIOD, at(500), true);
    assert_eq!(time(&set_back), at(500));
}

/// A server with one Lease.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
    /// Times that were written, in order.
    written: Vec<String>,
}

impl Server {
    fn handle(&mut self, wanted: Option<&Lease>) -> Result<Lease> {
        let Some(wanted) = wanted else {
            return self.lease.clone().ok_or_else(|| Error::NotFound("not there".into()));
        };
        let current = self.lease.as_ref().map(|lease| &lease.metadata.resource_version);
        match (&wanted.metadata.resource_version, current) {
            (None, Some(_)) => Err(Error::AlreadyExists("there".into())),
            (Some(_), None) => Err(Error::NotFound("gone".into())),
            (version @ Some(_), Some(now)) if version != now => {
                Err(Error::Conflict("stale".into()))
            }
            _ => {
                self.written.extend(wanted.spec.renew_time.clone());
                Ok(self.touch(wanted.clone()))
            }
        }
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
    requests: Vec<&'static str>,
}

impl Bench {
    fn new() -> Self {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let now = Now { instant: Instant::now(), wall };
        let renewal = Renewal::new(Some(new("cluster1", "my-addon")), PERIOD, now.instant);
        Self { renewal, now, requests: Vec::new() }
    }

    /// A renewal that succeeded a period ago.
    fn due(server: &mut Server) -> Self {
        let mut bench = Self::new();
        bench.renew(&mut |wanted| server.handle(wanted)).unwrap();
        bench.pass(PERIOD);
        bench.requests.clear();
        bench
    }

    fn pass(&mut self, time: Duration) {
        self.now = Now { instant: self.now.instant + time, wall: self.now.wall + time };
    }

    fn waits(&self) -> Duration {
        self.renewal.due(self.now).saturating_duration_since(self.now.instant)
    }

    fn renew(&mut self, send: &mut dyn FnMut(Option<&Lease>) -> Result<Lease>) -> Result<u32> {
        assert_eq!(self.waits(), Duration::ZERO);
        let requests = &mut self.requests;
        let result = self.renewal.renew(self.now, &mut |wanted| {
            requests.push(match wanted {
                None => "read",
                Some(lease) if lease.metadata.resource_version.is_none() => "create",
                Some(_) => "replace",
            });
            send(wanted)
        });
        if let Err(error) = &result {
            self.renewal.failed(error, self.now.instant);
        }
        result
    }

    fn settle(&mut self, server: &mut Server) -> Vec<&'static str> {
        self.renew(&mut |wanted| server.handle(wanted)).unwrap();
        std::mem::take(&mut self.requests)
    }

    fn fail(&mut self, error: Error) {
        assert_eq!(self.renew(&mut |_| Err(error.clone())), Err(error));
        self.requests.clear();
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
        assert_eq!(bench.waits(), PERIOD);
        bench.pass(PERIOD);
        assert_eq!(bench.settle(&mut server), ["replace"]);
    }
    assert_eq!(server.written.len(), 6);
}

#[test]
fn conflict_or_deletion_is_resolved_at_once() {
    let mut server = Server::default();
    let mut bench = Bench::due(&mut server);
    server.touched();
    assert_eq!(bench.settle(&mut server), ["replace", "read", "replace"]);
    bench.pass(PERIOD);
    server.lease = None;
    assert_eq!(bench.settle(&mut server), ["replace", "read", "create"]);
    // Another one may create it first.
    let (mut raced, mut first) = (Bench::new(), true);
    let result = raced.renew(&mut |wanted| match std::mem::take(&mut first) {
        true => Err(Error::NotFound("not yet".into())),
        false => server.handle(wanted),
    });
    assert_eq!((result, &*raced.requests), (Ok(0), &["read", "create", "read", "replace"][..]));
}

#[test]
fn three_conflicts_wait_for_the_next_try() {
    let mut server = Server::default();
    let mut bench = Bench::due(&mut server);
    let result = bench.renew(&mut |wanted| {
        server.touched();
        server.handle(wanted)
    });
    assert!(matches!(result, Err(Error::Conflict(_))), "{result:?}");
    assert_eq!(bench.requests, ["replace", "read", "replace", "read", "replace"]);
    bench.pass(PERIOD);
    assert_eq!(bench.renew(&mut |wanted| server.handle(wanted)), Ok(1));
}

#[test]
fn after_a_refusal_the_lease_is_read_again() {
    let refused = (Error::Invalid("no resourceVersion".into()), &["read", "replace"][..]);
    for (error, requests) in [refused, (unreachable(), &["replace"])] {
        let mut server = Server::default();
        let mut bench = Bench::due(&mut server);
        bench.fail(error);
        bench.pass(PERIOD);
        assert_eq!(bench.settle(&mut server), requests);
    }
}

#[test]
fn new_credentials_do_not_wait_out_what_the_old_ones_brought() {
    let mut bench = Bench::due(&mut Server::default());
    for _ in 0..8 {
        bench.fail(Error::Unauthorized("expired".into()));
        assert!(bench.waits() <= PERIOD);
        bench.pass(bench.waits());
    }
    bench.fail(Error::Unauthorized("expired".into()));
    bench.renewal.credentials_changed(bench.now.instant);
    assert_eq!(bench.waits(), Duration::ZERO);
}

#[test]
fn wall_clock_set_back_changes_no_interval() {
    for back in [SECOND, Duration::from_secs(3600)] {
        let mut server = Server::default();
        let mut bench = Bench::due(&mut server);
        bench.now.wall -= back;
        bench.settle(&mut server);
        bench.pass(SECOND * 30);
        bench.now.wall -= back;
        assert_eq!(bench.waits(), SECOND * 30, "set back by {back:?}");
    }
}

#[test]
fn machine_that_slept_renews_at_the_first_look() {
    let mut server = Server::default();
    let mut bench = Bench::due(&mut server);
    bench.settle(&mut server);
    bench.pass(SECOND * 5);
    bench.now.wall += Duration::from_millis(400);
    assert_eq!(bench.waits(), SECOND * 55, "a step of NTP changes nothing");
    // Asleep, the monotonic clock stands still.
    bench.now.wall += Duration::from_secs(600);
    assert_eq!(bench.settle(&mut server), ["replace"]);
    assert_eq!(bench.waits(), PERIOD, "and then one renewal a period");
}

#[test]
fn clock_jump_does_not_shorten_a_back_off() {
    let mut bench = Bench::due(&mut Server::default());
    bench.fail(unreachable());
    let wait = bench.waits();
    for _ in 0..1000 {
        bench.now.wall += Duration::from_secs(3600);
        assert_eq!(bench.waits(), wait, "no storm from a clock that runs wild");
    }
}

/// A thousand renewals with faults before and after a write, other writers and deletions.
#[test]
fn renewal_keeps_its_invariants_in_a_random_world() {
    let (mut server, mut bench) = (Server::default(), Bench::new());
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..1000 {
        assert!(bench.waits() <= PERIOD, "the wait is at most a period");
        bench.pass(bench.waits());
        let before = server.written.len();
        let result = bench.renew(&mut |wanted| match random.u8(..20) {
            0 => Err(unreachable()),
            1 => server.handle(wanted).and_then(|_| Err(unreachable())),
            2 => Err(Error::Forbidden("403".into())),
            3 if server.lease.is_some() => {
                server.touched();
                server.handle(wanted)
            }
            4 => {
                server.lease = None;
                server.handle(wanted)
            }
            _ => server.handle(wanted),
        });
        assert!(result.is_err() || server.written.len() > before, "success is a write");
        bench.pass(Duration::from_millis(random.u64(1..500)));
    }
    assert!(server.written.is_sorted_by(|a, b| a < b), "renewTime only grows");
}

/// Requests that reached the hub, in seconds after it came back.
fn fleet_after_an_outage(clients: usize, after: Duration) -> Vec<f64> {
    fastrand::seed(39);
    let mut fleet: Vec<_> = (0..clients).map(|_| (Bench::new(), Server::default())).collect();
    let begin = Instant::now();
    let (away, back) = (begin + PERIOD * 2, begin + PERIOD * 12);
    let mut order: BinaryHeap<_> = (0..clients)
        .map(|index| Reverse((begin + PERIOD.mul_f64(fastrand::f64()), index)))
        .collect();
    let mut arrivals = Vec::new();
    while let Some(Reverse((instant, index))) = order.pop() {
        if instant > back + after {
            return arrivals;
        }
        let (bench, server) = &mut fleet[index];
        bench.pass(instant.saturating_duration_since(bench.now.instant));
        if (away..back).contains(&instant) {
            bench.fail(unreachable());
        } else {
            let count = bench.settle(server).len();
            let since = instant.checked_duration_since(back);
            arrivals.extend(since.into_iter().flat_map(|it| vec![it.as_secs_f64(); count]));
        }
        order.push(Reverse((instant + bench.waits(), index)));
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
    let mut bench = Bench::new();
    bench.renewal = Renewal::new(None, PERIOD, bench.now.instant);
    let mut server = Server::default();
    assert!(matches!(bench.renew(&mut |wanted| server.handle(wanted)), Err(Error::NotFound(_))));
    bench.pass(PERIOD);
    bench.requests.clear();
    let holder = || Some("managed-cluster-lease".to_owned());
    let spec = LeaseSpec { holder_identity: holder(), ..LeaseSpec::default() };
    server.touch(Lease { spec, ..new("cluster1", "x") });
    assert_eq!(bench.settle(&mut server), ["read", "replace"]);
    let spec = server.lease.unwrap().spec;
    assert_eq!((spec.holder_identity, spec.lease_duration_seconds), (holder(), None));
    assert!(spec.renew_time.is_some());
}
