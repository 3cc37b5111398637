//! Rate limiter for the workers' requests to one cluster: a token bucket, as in client-go. Unlike there nobody
//! reserves a token of the future: who has to wait stands in a line that urgent work overtakes, and in which
//! the remotes take turns.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use apiclient::{lock::lock, stop::Stop};

/// Urgent attempts that come before one of the backlog, which they never stop altogether.
const URGENT_IN_A_ROW: u8 = 7;
/// The longest wait in one piece; whoever becomes the first of the line is woken.
const SLICE: Duration = Duration::from_secs(60);

/// The parts of the line, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// An attempt that has begun: what it is based on must not grow old.
    Begun,
    /// An attempt for a pair with a recent event.
    Urgent,
    /// An attempt for a pair that a list returned.
    Backlog,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// There is a token; `waited` means that what was known before may be old.
    Admitted { waited: bool },
    /// It gave up for something urgent.
    Yielded,
    /// The remote was removed, or the process is shutting down.
    Stopped,
}

/// Somebody who needs a token.
pub(crate) struct Waiter<'a> {
    pub(crate) remote: &'a str,
    pub(crate) lane: Lane,
    /// Woken when it is the first of the line, and when it may have to yield.
    pub(crate) stop: &'a Stop,
    pub(crate) yields: &'a dyn Fn() -> bool,
}

/// Shared by all workers of a cluster; lists, watches and probes bypass it.
#[derive(Debug)]
pub(crate) struct RateLimiter(Mutex<Bucket>);

/// A place in the line: lane, round and number.
type LinePlace = (Lane, u64, u64);

#[derive(Debug)]
struct Bucket {
    /// Requests per second; 0 means unlimited.
    qps: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
    /// The server asked for a pause until this time.
    closed: Option<Instant>,
    /// In order; a vector, as it is short.
    line: Vec<(LinePlace, Stop)>,
    /// The number of the next place.
    next: u64,
    /// The round that is being served; each remote has one place in a round.
    round: u64,
    /// The last round of each remote in the line.
    rounds: BTreeMap<String, u64>,
    /// Urgent ones since the last of the backlog.
    in_a_row: u8,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub(crate) fn new(qps: f64, burst: u32) -> Self {
        Self(Mutex::new(Bucket::new(qps, burst, Instant::now())))
    }

    /// Waits for a token.
    pub(crate) fn wait(&self, waiter: &Waiter<'_>) -> Admission {
        let (mut place, mut waited) = (None, false);
        loop {
            let seen = waiter.stop.wakes();
            let Some(until) = lock(&self.0).take(&mut place, waiter, Instant::now()) else {
                return Admission::Admitted { waited };
            };
            waited = true;
            let stopped = waiter.stop.wait_for_change(seen, until);
            if stopped || (waiter.yields)() {
                place.into_iter().for_each(|place| lock(&self.0).leave(place));
                return if stopped { Admission::Stopped } else { Admission::Yielded };
            }
        }
    }

    /// Returns a token that was not used.
    pub(crate) fn give_back(&self) {
        let mut bucket = lock(&self.0);
        bucket.tokens = (bucket.tokens + 1.0).min(bucket.burst);
        bucket.wake_first();
    }

    /// Blocks all requests for this time (429 with Retry-After).
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut bucket = lock(&self.0);
        bucket.closed = Some(bucket.closed.map_or(until, |closed| closed.max(until)));
    }
}

impl Bucket {
    fn new(qps: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            qps,
            burst,
            tokens: burst,
            filled: now,
            closed: None,
            line: Vec::new(),
            next: 0,
            round: 0,
            rounds: BTreeMap::new(),
            in_a_row: 0,
        }
    }

    /// Takes a token; otherwise returns when to try again, unless woken before.
    fn take(
        &mut self,
        place: &mut Option<LinePlace>,
        waiter: &Waiter<'_>,
        now: Instant,
    ) -> Option<Instant> {
        let due = self.due(now);
        if self.line.is_empty() && due <= now {
            self.tokens -= 1.0;
            return None;
        }
        let own = *place.get_or_insert_with(|| self.enlist(waiter));
        if self.first().is_none_or(|(first, _)| *first != own) {
            return Some(now + SLICE);
        }
        if due > now {
            return Some(due.min(now + SLICE));
        }
        self.tokens -= 1.0;
        match own.0 {
            Lane::Begun => {}
            Lane::Urgent => self.in_a_row = self.in_a_row.saturating_add(1),
            Lane::Backlog => self.in_a_row = 0,
        }
        self.round = self.round.max(own.1);
        self.leave(own);
        None
    }

    /// The time of the next token.
    fn due(&mut self, now: Instant) -> Instant {
        let closed = self.closed.unwrap_or(now);
        if self.qps <= 0.0 {
            self.tokens = self.burst;
            return closed;
        }
        let new = now.saturating_duration_since(self.filled).as_secs_f64() * self.qps;
        (self.tokens, self.filled) = ((self.tokens + new).min(self.burst), now);
        let missing = Duration::from_secs_f64((1.0 - self.tokens).max(0.0) / self.qps);
        closed.max(now + missing)
    }

    /// Puts somebody into the line. Attempts that have begun have no rounds: there are few, and in each round
    /// their remotes had a place already.
    fn enlist(&mut self, waiter: &Waiter<'_>) -> LinePlace {
        let round = if waiter.lane == Lane::Begun { 0 } else { self.next_round(waiter.remote) };
        self.next += 1;
        let place = (waiter.lane, round, self.next);
        let index = self.index(place);
        self.line.insert(index, (place, waiter.stop.clone()));
        place
    }

    fn next_round(&mut self, remote: &str) -> u64 {
        let round = self.rounds.get(remote).map_or(0, |last| last + 1).max(self.round);
        self.rounds.insert(remote.to_owned(), round);
        round
    }

    /// Where a place is in the line, or would be.
    fn index(&self, place: LinePlace) -> usize {
        self.line.partition_point(|(other, _)| *other < place)
    }

    /// Who has the next token.
    fn first(&self) -> Option<&(LinePlace, Stop)> {
        let first = self.line.first()?;
        if first.0.0 == Lane::Urgent && self.in_a_row >= URGENT_IN_A_ROW {
            return self.line.get(self.index((Lane::Backlog, 0, 0))).or(Some(first));
        }
        Some(first)
    }

    fn leave(&mut self, place: LinePlace) {
        let index = self.index(place);
        if self.line.get(index).is_some_and(|(there, _)| *there == place) {
            self.line.remove(index);
        }
        if self.line.is_empty() {
            self.rounds.clear();
        }
        self.wake_first();
    }

    fn wake_first(&self) {
        if let Some((_, stop)) = self.first() {
            stop.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a bucket without a token, and who has the next ones.
    struct Scene {
        bucket: Bucket,
        stop: Stop,
        now: Instant,
        waiting: Vec<(&'static str, Option<LinePlace>, Lane)>,
    }

    impl Scene {
        fn new(qps: f64) -> Self {
            let now = Instant::now();
            let mut bucket = Bucket::new(qps, 1, now);
            bucket.tokens = 0.0;
            Self { bucket, stop: Stop::default(), now, waiting: Vec::new() }
        }

        fn take(
            &mut self,
            place: &mut Option<LinePlace>,
            remote: &str,
            lane: Lane,
        ) -> Option<Duration> {
            let waiter = Waiter { remote, lane, stop: &self.stop, yields: &|| false };
            self.bucket.take(place, &waiter, self.now).map(|until| until - self.now)
        }

        fn comes(&mut self, remote: &'static str, lane: Lane) {
            let mut place = None;
            assert!(self.take(&mut place, remote, lane).is_some());
            self.waiting.push((remote, place, lane));
        }

        /// Who has the next token, a second later.
        fn next(&mut self) -> &'static str {
            self.now += Duration::from_secs(1);
            for index in 0..self.waiting.len() {
                let (remote, mut place, lane) = self.waiting[index];
                if self.take(&mut place, remote, lane).is_none() {
                    self.waiting.remove(index);
                    return remote;
                }
            }
            panic!("nobody")
        }
    }

    #[test]
    fn a_burst_is_free_and_then_each_waits_its_turn() {
        let mut scene = Scene::new(20.0);
        (scene.bucket.burst, scene.bucket.tokens) = (3.0, 3.0);
        assert!((0..3).all(|_| scene.take(&mut None, "r", Lane::Begun).is_none()));
        let (mut first, mut second) = (None, None);
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(scene.take(&mut first, "r", Lane::Backlog), ms(50));
        assert_eq!(scene.take(&mut second, "r", Lane::Backlog), Some(SLICE), "until it is woken");
        scene.now += Duration::from_millis(50);
        assert_eq!(scene.take(&mut second, "r", Lane::Backlog), Some(SLICE));
        let seen = scene.stop.wakes();
        assert_eq!(scene.take(&mut first, "r", Lane::Backlog), None);
        assert!(scene.stop.wakes() > seen, "the next one is woken");
        assert_eq!(scene.take(&mut second, "r", Lane::Backlog), ms(50));
    }

    #[test]
    fn without_a_bound_only_the_server_stops_it() {
        let mut scene = Scene::new(0.0);
        assert!((0..1000).all(|_| scene.take(&mut None, "r", Lane::Backlog).is_none()));
        scene.bucket.closed = Some(scene.now + Duration::from_secs(7));
        let mut place = None;
        assert_eq!(scene.take(&mut place, "r", Lane::Begun), Some(Duration::from_secs(7)));
        scene.now += Duration::from_secs(7);
        assert_eq!(scene.take(&mut place, "r", Lane::Begun), None);
    }

    #[test]
    fn urgent_work_overtakes_the_backlog_of_all_remotes() {
        let mut scene = Scene::new(1.0);
        (0..50).for_each(|_| scene.comes("busy", Lane::Backlog));
        scene.comes("edited", Lane::Urgent);
        scene.comes("begun", Lane::Begun);
        assert_eq!([(); 3].map(|()| scene.next()), ["begun", "edited", "busy"]);
    }

    #[test]
    fn remotes_take_turns_however_many_workers_each_has() {
        let mut scene = Scene::new(1.0);
        for remote in ["a", "a", "a", "a", "b", "b", "c"] {
            scene.comes(remote, Lane::Urgent);
        }
        assert_eq!([(); 7].map(|()| scene.next()).concat(), "abcabaa");
        assert!(scene.bucket.rounds.is_empty());
        // Whoever comes later has no turns left over.
        (0..3).for_each(|_| scene.comes("a", Lane::Urgent));
        assert_eq!(scene.next(), "a");
        (0..2).for_each(|_| scene.comes("b", Lane::Urgent));
        assert_eq!([(); 4].map(|()| scene.next()).concat(), "baba");
    }

    #[test]
    fn urgent_work_does_not_stop_the_backlog() {
        let mut scene = Scene::new(1.0);
        (0..2).for_each(|_| scene.comes("l", Lane::Backlog));
        (0..16).for_each(|_| scene.comes("e", Lane::Urgent));
        assert_eq!([(); 18].map(|()| scene.next()).concat(), "eeeeeeeleeeeeeelee");
    }

    #[test]
    fn whoever_gives_up_leaves_the_line_and_a_token_comes_back() {
        let limiter = RateLimiter::new(0.001, 1);
        let stop = Stop::default();
        let wait = |yields: &dyn Fn() -> bool| {
            limiter.wait(&Waiter { remote: "r", lane: Lane::Backlog, stop: &stop, yields })
        };
        assert_eq!(wait(&|| false), Admission::Admitted { waited: false });
        limiter.give_back();
        assert_eq!(wait(&|| false), Admission::Admitted { waited: false });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&|| true));
            while lock(&limiter.0).line.is_empty() {
                std::thread::yield_now();
            }
            stop.wake();
            assert_eq!(waiter.join().unwrap(), Admission::Yielded);
            let waiter = scope.spawn(|| wait(&|| false));
            stop.raise();
            assert_eq!(waiter.join().unwrap(), Admission::Stopped);
        });
        assert!(lock(&limiter.0).line.is_empty());
    }
}
