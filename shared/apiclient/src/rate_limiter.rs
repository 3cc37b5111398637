//! Rate limiter for the workers' requests to one cluster: as in client-go, each takes the next token, and waits for it.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{lock::lock, stop::Stop, token_bucket::TokenBucket};

/// Shared by all workers of a cluster; lists, watches and probes bypass it.
#[derive(Debug)]
pub struct RateLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    /// The server asked for a pause until this time.
    paused: Instant,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub fn new(qps: u32, burst: u32) -> Self {
        let (interval, now) =
            (Duration::from_secs(1).checked_div(qps).unwrap_or_default(), Instant::now());
        Self(Mutex::new(State { bucket: TokenBucket::new(interval, burst, now), paused: now }))
    }

    /// Takes a token, and waits until it is there; `false` once `stop` is raised.
    pub fn wait(&self, stop: &Stop) -> bool {
        let now = Instant::now();
        let due = lock(&self.0).reserve(now);
        !stop.wait(due - now)
    }

    pub fn put_back(&self) {
        lock(&self.0).bucket.put_back();
    }

    /// Blocks later requests for this time (429 with Retry-After).
    pub fn pause(&self, time: Duration) {
        let mut state = lock(&self.0);
        state.paused = state.paused.max(Instant::now() + time);
    }
}

impl State {
    /// Takes a token; returns when it may be used.
    fn reserve(&mut self, now: Instant) -> Instant {
        (now + self.bucket.reserve(now)).max(self.paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_waits_for_its_own_token() {
        let (limiter, now) = (RateLimiter::new(1, 1), Instant::now());
        let reserve = || (lock(&limiter.0).reserve(now) - now).as_secs();
        assert_eq!([reserve(), reserve(), reserve()], [0, 1, 2]);
        limiter.put_back();
        assert_eq!(reserve(), 2);
        let stop = Stop::default();
        stop.raise();
        assert!(!limiter.wait(&stop));
    }

    #[test]
    fn a_pause_stops_what_has_no_limit() {
        let (limiter, now) = (RateLimiter::new(0, 1), Instant::now());
        let reserve = |at| lock(&limiter.0).reserve(at) - at;
        let soon = now + Duration::from_secs(1);
        assert!((0..1000).all(|_| reserve(soon).is_zero()));
        limiter.pause(Duration::from_secs(7));
        limiter.pause(Duration::from_secs(3));
        assert!(reserve(now) >= Duration::from_secs(7));
        assert!(reserve(now + Duration::from_secs(8)).is_zero());
    }
}
