//! Token bucket: pure.

use std::time::{Duration, Instant};

/// Holds up to `burst` tokens, and gains one each `interval`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// The time after `at` until the bucket is full.
    debt: Duration,
    at: Instant,
}

impl TokenBucket {
    pub fn new(interval: Duration, burst: u32, now: Instant) -> Self {
        Self { interval, burst: burst.max(1), debt: Duration::ZERO, at: now }
    }

    /// The same with at most this many tokens.
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

    /// Takes a token; an error is the time until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        match self.wait(now) {
            Duration::ZERO => {
                self.reserve(now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// Takes a token that may come later; returns the time until then.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let wait = self.wait(now);
        self.debt = self.debt.saturating_add(self.interval);
        wait
    }

    pub fn put_back(&mut self) {
        self.debt = self.debt.saturating_sub(self.interval);
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
}
