//! Rate limiter for the workers' requests to one cluster: a token bucket, as in client-go. Unlike there nobody
//! reserves a token of the future: ordinary work yields to urgent work.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{lock::lock, stop::Stop, token_bucket::TokenBucket};

/// How long ordinary work yields before it looks again, at least.
const YIELD_TIME: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    /// The server asked for a pause until this time.
    paused_until: Instant,
    /// Urgent attempts that wait.
    urgent: usize,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub fn new(qps: u32, burst: u32) -> Self {
        let (interval, now) = (Duration::from_secs(1).checked_div(qps), Instant::now());
        let bucket = TokenBucket::new(interval.unwrap_or_default(), burst, now);
        Self(Mutex::new(State { bucket, paused_until: now, urgent: 0 }))
    }

    /// Waits for a token.
    pub fn wait(&self, priority: Priority, stop: &Stop) -> Admission {
        let urgent = usize::from(priority == Priority::Urgent);
        lock(&self.0).urgent += urgent;
        let mut waited = false;
        let admission = loop {
            let taken = lock(&self.0).take(priority, Instant::now());
            let Err(time) = taken else { break Admission::Admitted { waited } };
            waited = true;
            if stop.wait(time) {
                break Admission::Stopped;
            }
        };
        lock(&self.0).urgent -= urgent;
        admission
    }

    pub fn put_back(&self) {
        lock(&self.0).bucket.put_back();
    }

    /// Blocks all requests for this time (429 with Retry-After).
    pub fn pause(&self, time: Duration) {
        let mut state = lock(&self.0);
        state.paused_until = state.paused_until.max(Instant::now() + time);
    }
}

impl State {
    /// Takes a token; an error is the time until the next try.
    fn take(&mut self, priority: Priority, now: Instant) -> Result<(), Duration> {
        let pause = self.paused_until.saturating_duration_since(now);
        if !pause.is_zero() {
            return Err(pause);
        }
        if priority == Priority::Backlog && self.urgent > 0 {
            return Err(self.bucket.wait(now).max(YIELD_TIME));
        }
        self.bucket.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn backlog_yields_to_urgent_work() {
        let now = Instant::now();
        let bucket = TokenBucket::new(SECOND, 1, now);
        let mut state = State { bucket, paused_until: now, urgent: 1 };
        assert_eq!(state.take(Priority::Backlog, now), Err(YIELD_TIME));
        assert_eq!(state.take(Priority::Urgent, now), Ok(()));
        assert_eq!(state.take(Priority::Backlog, now), Err(SECOND));
        state.urgent = 0;
        assert_eq!(state.take(Priority::Backlog, now + SECOND), Ok(()));
    }

    #[test]
    fn a_pause_stops_what_has_no_limit() {
        let (limiter, now) = (RateLimiter::new(0, 1), Instant::now());
        let take = |at| lock(&limiter.0).take(Priority::Urgent, at);
        assert!((0..1000).all(|_| take(now).is_ok()));
        limiter.pause(7 * SECOND);
        limiter.pause(3 * SECOND);
        assert!(take(now).is_err_and(|wait| wait >= 7 * SECOND));
        assert_eq!(take(now + 8 * SECOND), Ok(()));
    }

    #[test]
    fn a_token_comes_back_and_a_wait_ends_with_the_process() {
        let (limiter, stop) = (RateLimiter::new(1, 1), Stop::default());
        lock(&limiter.0).bucket = TokenBucket::new(3600 * SECOND, 1, Instant::now());
        let wait = || limiter.wait(Priority::Urgent, &stop);
        assert_eq!(wait(), Admission::Admitted { waited: false });
        limiter.put_back();
        assert_eq!(wait(), Admission::Admitted { waited: false });
        stop.raise();
        assert_eq!((wait(), lock(&limiter.0).urgent), (Admission::Stopped, 0));
    }
}
