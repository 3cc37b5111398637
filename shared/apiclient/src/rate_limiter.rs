//! Rate limiter for the workers' requests to one cluster: a token bucket, as in client-go. Unlike there nobody
//! reserves a token of the future: who waits stands in a line that urgent work overtakes.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{lock::lock, stop::Stop, token_bucket::TokenBucket};

/// The longest wait in one piece; the first of the line is woken.
const SLICE: Duration = Duration::from_secs(60);

/// The order of attempts; within a priority, they are served in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// An attempt that has begun, or for a pair with a recent event.
    Urgent,
    /// An attempt for a pair that a list returned.
    Backlog,
}

/// Shared by all workers of a cluster; lists, watches and probes bypass it.
#[derive(Debug)]
pub struct RateLimiter(Mutex<State>);

/// A place in the line: first by priority, then by number.
type LinePlace = (Priority, u64);

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    /// The server asked for a pause until this time.
    paused: Option<Instant>,
    line: BTreeMap<LinePlace, Stop>,
    /// The number of the next place.
    next: u64,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub fn new(qps: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(qps).unwrap_or_default();
        let bucket = TokenBucket::new(interval, burst, Instant::now());
        Self(Mutex::new(State { bucket, paused: None, line: BTreeMap::new(), next: 0 }))
    }

    /// Waits for a token; `false` once `stop` is raised. It is woken when this is the first of the line.
    pub fn wait(&self, priority: Priority, stop: &Stop) -> bool {
        let place = lock(&self.0).enlist(priority, stop);
        loop {
            let seen = stop.wakes();
            let Err(until) = lock(&self.0).take(place, Instant::now()) else { return true };
            if stop.wait_for_change(seen, until) {
                lock(&self.0).leave(place);
                return false;
            }
        }
    }

    pub fn put_back(&self) {
        let mut state = lock(&self.0);
        state.bucket.put_back();
        state.wake_first();
    }

    /// Blocks all requests for this time (429 with Retry-After).
    pub fn pause(&self, time: Duration) {
        let until = Some(Instant::now() + time);
        let mut state = lock(&self.0);
        state.paused = state.paused.max(until);
    }
}

impl State {
    fn enlist(&mut self, priority: Priority, stop: &Stop) -> LinePlace {
        self.next += 1;
        let place = (priority, self.next);
        self.line.insert(place, stop.clone());
        place
    }

    fn leave(&mut self, place: LinePlace) {
        self.line.remove(&place);
        self.wake_first();
    }

    /// Takes a token and leaves the line. The error is when to try again, unless woken before.
    fn take(&mut self, place: LinePlace, now: Instant) -> Result<(), Instant> {
        if self.line.first_key_value().is_some_and(|(first, _)| *first != place) {
            return Err(now + SLICE);
        }
        let due = self.paused.unwrap_or(now).max(now + self.bucket.wait(now));
        if due > now {
            return Err(due.min(now + SLICE));
        }
        // It is there, as nobody has to wait for it.
        let _ = self.bucket.take(now);
        self.leave(place);
        Ok(())
    }

    fn wake_first(&self) {
        if let Some((_, stop)) = self.line.first_key_value() {
            stop.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state without a token, and one each second.
    fn empty() -> State {
        let bucket = TokenBucket::new(Duration::from_secs(1), 1, Instant::now()).with_tokens(0);
        State { bucket, paused: None, line: BTreeMap::new(), next: 0 }
    }

    #[test]
    fn urgent_work_overtakes_the_backlog_and_wakes_whoever_is_next() {
        let (mut state, stop, now) = (empty(), Stop::default(), Instant::now());
        let priorities = [Priority::Backlog, Priority::Backlog, Priority::Urgent];
        let places = priorities.map(|priority| state.enlist(priority, &stop));
        assert!(places.iter().all(|place| state.take(*place, now).is_err()));
        let mut order = Vec::new();
        for second in 1..4 {
            let at = now + Duration::from_secs(second);
            let seen = stop.wakes();
            let waiting = (0..3).filter(|index| !order.contains(index));
            let served = waiting.into_iter().find(|&index| state.take(places[index], at).is_ok());
            order.extend(served);
            assert!(second == 3 || stop.wakes() > seen);
        }
        assert_eq!((order, state.line.len()), (vec![2, 0, 1], 0));
    }

    #[test]
    fn a_pause_stops_what_has_no_limit() {
        let (limiter, stop) = (RateLimiter::new(0, 1), Stop::default());
        let now = Instant::now();
        let enlist = || lock(&limiter.0).enlist(Priority::Urgent, &stop);
        let take = |place, at| lock(&limiter.0).take(place, at);
        assert!((0..1000).all(|_| take(enlist(), now).is_ok()));
        limiter.pause(Duration::from_secs(7));
        limiter.pause(Duration::from_secs(3));
        let place = enlist();
        assert!(take(place, now).is_err_and(|until| until >= now + Duration::from_secs(7)));
        assert_eq!(take(place, now + Duration::from_secs(8)), Ok(()));
    }

    #[test]
    fn whoever_gives_up_leaves_the_line_and_a_token_comes_back() {
        let (limiter, stop) = (RateLimiter::new(1, 1), Stop::default());
        lock(&limiter.0).bucket = TokenBucket::new(Duration::from_secs(3600), 1, Instant::now());
        let wait = || limiter.wait(Priority::Backlog, &stop);
        assert!(wait());
        limiter.put_back();
        assert!(wait());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(wait);
            while lock(&limiter.0).line.is_empty() {
                std::thread::yield_now();
            }
            stop.raise();
            assert!(!waiter.join().unwrap());
        });
        assert!(lock(&limiter.0).line.is_empty());
    }
}
