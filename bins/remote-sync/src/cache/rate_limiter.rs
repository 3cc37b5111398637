//! Rate limiter for the workers' requests to one cluster: a token bucket, as in client-go.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use shared::{lock::lock, stop::Stop};

/// Shared by all workers of a cluster; lists, watches and probes bypass it.
#[derive(Debug)]
pub(crate) struct RateLimiter(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    /// Requests per second; 0 means unlimited.
    qps: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
    /// The server asked for a pause until this time.
    closed: Option<Instant>,
}

impl RateLimiter {
    /// `qps` requests per second after the first `burst`; unlimited if `qps` is 0.
    pub(crate) fn new(qps: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        let (tokens, filled) = (burst, Instant::now());
        Self(Mutex::new(Bucket { qps, burst, tokens, filled, closed: None }))
    }

    /// Waits for a token; `false` if `stop` was raised.
    pub(crate) fn wait(&self, stop: &Stop) -> bool {
        let wait = lock(&self.0).take(Instant::now());
        wait.is_zero() || !stop.wait(wait)
    }

    /// Blocks all requests for this time (429 with Retry-After).
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut bucket = lock(&self.0);
        bucket.closed = Some(bucket.closed.map_or(until, |closed| closed.max(until)));
    }
}

impl Bucket {
    /// Reserves a token and returns how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let closed = self.closed.and_then(|until| until.checked_duration_since(now));
        let closed = closed.unwrap_or_default();
        if self.qps <= 0.0 {
            return closed;
        }
        let new = now.saturating_duration_since(self.filled).as_secs_f64() * self.qps;
        self.tokens = (self.tokens + new).min(self.burst) - 1.0;
        self.filled = now;
        Duration::from_secs_f64((-self.tokens).max(0.0) / self.qps).max(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_each_waits_its_turn() {
        let start = Instant::now();
        let mut bucket = Bucket { qps: 20.0, burst: 3.0, tokens: 3.0, filled: start, closed: None };
        let waits: Vec<_> = (0..5).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 50, 100]);
        assert_eq!(bucket.take(start + Duration::from_secs(60)).as_millis(), 0);
    }

    #[test]
    fn without_a_bound_only_the_server_stops_it() {
        let start = Instant::now();
        let mut bucket = Bucket { qps: 0.0, burst: 1.0, tokens: 1.0, filled: start, closed: None };
        assert!((0..1000).all(|_| bucket.take(start).is_zero()));
        bucket.closed = Some(start + Duration::from_secs(7));
        assert_eq!(bucket.take(start), Duration::from_secs(7));
        assert!(bucket.take(start + Duration::from_secs(7)).is_zero());
    }
}
