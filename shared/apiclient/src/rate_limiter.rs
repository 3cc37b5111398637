//! Token bucket, and the rate limiter for the requests of all workers to a cluster. As in client-go, a worker reserves
//! the next token and waits for it. The backlog reserves only tokens that are due soon: recent changes overtake it.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{lock::lock, stop::Stop};

/// A bucket of up to `burst` tokens, which gains one per `interval`. It is pure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// How long after `at` the bucket is full.
    debt: Duration,
    at: Instant,
}

impl TokenBucket {
    pub fn new(interval: Duration, burst: u32, now: Instant) -> Self {
        Self { interval, burst: burst.max(1), debt: Duration::ZERO, at: now }
    }

    /// Keeps at most `tokens`.
    #[must_use]
    pub fn with_tokens(mut self, tokens: u32) -> Self {
        let missing = self.burst.saturating_sub(tokens);
        self.debt = self.debt.max(self.interval.saturating_mul(missing));
        self
    }

    pub fn wait(&mut self, now: Instant) -> Duration {
        self.debt = self.debt.saturating_sub(now.saturating_duration_since(self.at));
        self.at = self.at.max(now);
        self.debt.saturating_sub(self.interval.saturating_mul(self.burst - 1))
    }

    /// Takes a token; the error is the time until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        match self.wait(now) {
            Duration::ZERO => {
                self.reserve(now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// Reserves the next token; returns the time until it is due.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let wait = self.wait(now);
        self.debt = self.debt.saturating_add(self.interval);
        wait
    }

    pub fn put_back(&mut self) {
        self.debt = self.debt.saturating_sub(self.interval);
    }
}

/// The backlog retries after this time at the latest: tokens may be put back.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// How far ahead the backlog reserves tokens.
const AHEAD: Duration = Duration::from_millis(250);

/// Shared by all workers of a cluster; lists, watches and probes bypass it.
#[derive(Debug)]
pub struct RateLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    /// The end of a pause that the server requested.
    paused: Instant,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub fn new(qps: u32, burst: u32) -> Self {
        let (interval, now) =
            (Duration::from_secs(1).checked_div(qps).unwrap_or_default(), Instant::now());
        Self(Mutex::new(State { bucket: TokenBucket::new(interval, burst, now), paused: now }))
    }

    /// Waits for a token; returns `false` once `stop` is raised.
    pub fn wait(&self, urgent: bool, stop: &Stop) -> bool {
        loop {
            let reserved = lock(&self.0).reserve(urgent, Instant::now());
            match reserved {
                Ok(wait) => return !stop.wait(wait),
                // No queue: the first to retry takes the token.
                Err(wait) if stop.wait(wait + AHEAD.mul_f64(fastrand::f64())) => return false,
                Err(_) => {}
            }
        }
    }

    pub fn put_back(&self) {
        lock(&self.0).bucket.put_back();
    }

    /// Blocks requests for this time, after a 429 with Retry-After.
    pub fn pause(&self, time: Duration) {
        let mut state = lock(&self.0);
        state.paused = state.paused.max(Instant::now() + time);
    }
}

impl State {
    /// Reserves a token; returns the time until it is due. The error is the time until a retry.
    fn reserve(&mut self, urgent: bool, now: Instant) -> Result<Duration, Duration> {
        let wait = self.bucket.wait(now).max(self.paused.saturating_duration_since(now));
        if !urgent && wait > AHEAD {
            return Err(wait.min(MAX_WAIT));
        }
        self.bucket.reserve(now);
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn burst_is_free_and_then_each_token_takes_an_interval() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(SECOND, 3, now);
        assert!((0..3).all(|_| bucket.take(now).is_ok()));
        assert_eq!(bucket.take(now), Err(SECOND));
        assert_eq!(bucket.take(now + SECOND / 2), Err(SECOND / 2));
        assert_eq!(bucket.take(now + SECOND), Ok(()));
        assert_eq!(bucket.wait(now + SECOND), SECOND);
        bucket.put_back();
        assert_eq!(bucket.take(now + SECOND), Ok(()));
        assert!((0..3).all(|_| bucket.take(now + 3600 * SECOND).is_ok()));
        assert!(bucket.take(now + 3600 * SECOND).is_err(), "no more than the burst gathers");
    }

    #[test]
    fn bucket_begins_with_as_many_tokens_as_it_is_given() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(SECOND, 10, now).with_tokens(1);
        assert_eq!((bucket.take(now), bucket.take(now)), (Ok(()), Err(SECOND)));
    }

    #[test]
    fn extreme_values_neither_overflow_nor_run_out() {
        let now = Instant::now();
        let mut endless = TokenBucket::new(Duration::ZERO, 0, now);
        assert!((0..1000).all(|_| endless.take(now).is_ok()));
        let mut once = TokenBucket::new(Duration::MAX, u32::MAX, now).with_tokens(1);
        assert_eq!(once.take(now), Ok(()));
        let mut once = TokenBucket::new(Duration::MAX, 1, now);
        assert_eq!((once.take(now), once.take(now)), (Ok(()), Err(Duration::MAX)));
    }

    #[test]
    fn each_request_waits_for_its_own_token() {
        let (limiter, now) = (RateLimiter::new(1, 1), Instant::now());
        let reserve = || lock(&limiter.0).reserve(true, now).unwrap().as_secs();
        assert_eq!([reserve(), reserve(), reserve()], [0, 1, 2]);
        limiter.put_back();
        assert_eq!(reserve(), 2);
        let stop = Stop::default();
        stop.raise();
        assert!(!limiter.wait(true, &stop) && !limiter.wait(false, &stop));
    }

    #[test]
    fn a_recent_change_waits_a_moment_for_any_backlog() {
        let (limiter, now) = (RateLimiter::new(20, 1), Instant::now());
        let reserve = |urgent, at| lock(&limiter.0).reserve(urgent, at);
        let served = |at| (0..1600).filter(|_| reserve(false, at).is_ok()).count();
        assert_eq!(served(now), 6, "the tokens of a quarter of a second");
        assert!(reserve(true, now).is_ok_and(|wait| wait <= AHEAD + SECOND / 20));
        assert_eq!(served(now + SECOND), 6, "and those of the next one");
    }

    #[test]
    fn a_pause_stops_what_has_no_limit() {
        let (limiter, now) = (RateLimiter::new(0, 1), Instant::now());
        let wait = |at| lock(&limiter.0).reserve(true, at).unwrap();
        assert!((0..1000).all(|_| wait(now + SECOND).is_zero()));
        limiter.pause(7 * SECOND);
        limiter.pause(3 * SECOND);
        assert!(wait(now) >= 7 * SECOND && wait(now + 8 * SECOND).is_zero());
        assert!(lock(&limiter.0).reserve(false, now).is_err());
    }
}
