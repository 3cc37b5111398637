//! Rate limiter for the workers' requests to one cluster: a token bucket, as in client-go. Unlike there nobody
//! reserves a token of the future: who waits stands in a line that urgent work overtakes.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{lock::lock, stop::Stop, token_bucket::TokenBucket};

/// The longest wait in one piece; the first of the line is woken.
const SLICE: Duration = Duration::from_secs(60);

/// The order of attempts; those of one priority are served in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// An attempt that has begun, or for a pair with a recent event.
    Urgent,
    /// An attempt for a pair that a list returned.
    Backlog,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// There is a token; `waited` means that what was known before may be old.
    Admitted { waited: bool },
    /// The remote was removed, or the process is shutting down.
    Stopped,
}

/// Shared by all workers of a cluster; lists, watches and probes bypass it.
#[derive(Debug)]
pub struct RateLimiter(Mutex<State>);

/// A place in the line: the priority and a number.
type LinePlace = (Priority, u64);

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    /// The server asked for a pause until this time.
    paused: Option<Instant>,
    /// In order; a vector, as it is short.
    line: Vec<(LinePlace, Stop)>,
    /// The number of the next place.
    next: u64,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub fn new(qps: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(qps).unwrap_or_default();
        let bucket = TokenBucket::new(interval, burst, Instant::now());
        Self(Mutex::new(State { bucket, paused: None, line: Vec::new(), next: 0 }))
    }

    /// Waits for a token. `stop` is woken when this is the first of the line.
    pub fn wait(&self, priority: Priority, stop: &Stop) -> Admission {
        let mut place = None;
        loop {
            let seen = stop.wakes();
            let waited = place.is_some();
            let Some(until) = lock(&self.0).take(&mut place, priority, stop, Instant::now()) else {
                return Admission::Admitted { waited };
            };
            if stop.wait_for_change(seen, until) {
                place.into_iter().for_each(|place| lock(&self.0).leave(place));
                return Admission::Stopped;
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
    /// Takes a token; otherwise returns when to try again, unless woken before.
    fn take(
        &mut self,
        place: &mut Option<LinePlace>,
        priority: Priority,
        stop: &Stop,
        now: Instant,
    ) -> Option<Instant> {
        let own = *place.get_or_insert_with(|| self.enlist(priority, stop));
        if self.line.first().is_some_and(|(first, _)| *first != own) {
            return Some(now + SLICE);
        }
        let due = self.paused.unwrap_or(now).max(now + self.bucket.wait(now));
        if due > now {
            return Some(due.min(now + SLICE));
        }
        // It is there, as nobody has to wait for it.
        let _ = self.bucket.take(now);
        self.leave(own);
        None
    }

    fn enlist(&mut self, priority: Priority, stop: &Stop) -> LinePlace {
        self.next += 1;
        let place = (priority, self.next);
        let index = self.line.partition_point(|(other, _)| *other < place);
        self.line.insert(index, (place, stop.clone()));
        place
    }

    fn leave(&mut self, place: LinePlace) {
        self.line.retain(|(other, _)| *other != place);
        self.wake_first();
    }

    fn wake_first(&self) {
        if let Some((_, stop)) = self.line.first() {
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
        State { bucket, paused: None, line: Vec::new(), next: 0 }
    }

    #[test]
    fn urgent_work_overtakes_the_backlog_and_wakes_whoever_is_next() {
        let (mut state, stop, now) = (empty(), Stop::default(), Instant::now());
        let mut places = [None; 3];
        let priorities = [Priority::Backlog, Priority::Backlog, Priority::Urgent];
        for (place, priority) in places.iter_mut().zip(priorities) {
            assert!(state.take(place, priority, &stop, now).is_some());
        }
        let mut order = Vec::new();
        for second in 1..4 {
            let at = now + Duration::from_secs(second);
            let seen = stop.wakes();
            let served = (0..3).filter(|index| !order.contains(index)).find(|&index| {
                state.take(&mut places[index], priorities[index], &stop, at).is_none()
            });
            order.extend(served);
            assert!(second == 3 || stop.wakes() > seen);
        }
        assert_eq!((order, state.line.len()), (vec![2, 0, 1], 0));
    }

    #[test]
    fn a_pause_stops_what_has_no_limit() {
        let (limiter, stop) = (RateLimiter::new(0, 1), Stop::default());
        let now = Instant::now();
        let take = |at| lock(&limiter.0).take(&mut None, Priority::Urgent, &stop, at);
        assert!((0..1000).all(|_| take(now).is_none()));
        limiter.pause(Duration::from_secs(7));
        limiter.pause(Duration::from_secs(3));
        let mut place = None;
        let mut take = |at| lock(&limiter.0).take(&mut place, Priority::Urgent, &stop, at);
        assert!(take(now).is_some_and(|until| until >= now + Duration::from_secs(7)));
        assert_eq!(take(now + Duration::from_secs(8)), None);
    }

    #[test]
    fn whoever_gives_up_leaves_the_line_and_a_token_comes_back() {
        let (limiter, stop) = (RateLimiter::new(1, 1), Stop::default());
        lock(&limiter.0).bucket = TokenBucket::new(Duration::from_secs(3600), 1, Instant::now());
        let wait = || limiter.wait(Priority::Backlog, &stop);
        assert_eq!(wait(), Admission::Admitted { waited: false });
        limiter.put_back();
        assert_eq!(wait(), Admission::Admitted { waited: false });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(wait);
            while lock(&limiter.0).line.is_empty() {
                std::thread::yield_now();
            }
            stop.raise();
            assert_eq!(waiter.join().unwrap(), Admission::Stopped);
        });
        assert!(lock(&limiter.0).line.is_empty());
    }
}
