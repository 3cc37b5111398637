//! When to try again: full jitter, so that a fleet that failed together does not return together.

use std::time::Duration;

/// The wait after the first failure is drawn from up to this, then doubled.
const FIRST: Duration = Duration::from_secs(1);

/// Counts failures in a row and says how long to wait after each.
#[derive(Clone, Debug)]
pub struct Backoff {
    cap: Duration,
    failures: u32,
}

impl Backoff {
    /// Waits are never longer than `cap`, but for a server's own Retry-After.
    pub const fn new(cap: Duration) -> Self {
        Self { cap, failures: 0 }
    }

    /// Counts a failure and draws the wait: full jitter, from nothing to 1 s, 2 s, 4 s … `cap`
    /// (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>), on top of
    /// `retry_after` where the server named one.
    ///
    /// `random` is uniform in [0, 1).
    pub fn failed(&mut self, retry_after: Option<Duration>, random: f64) -> Duration {
        let ceiling = FIRST
            .saturating_mul(1 << self.failures.min(16))
            .min(self.cap);
        self.failures = self.failures.saturating_add(1);
        retry_after.unwrap_or_default() + ceiling.mul_f64(random)
    }

    /// Back to normal; returns how many failures there were.
    pub fn succeeded(&mut self) -> u32 {
        std::mem::take(&mut self.failures)
    }

    /// Failures in a row so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_waits_are_drawn_from_a_doubling_capped_range() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let ceilings: Vec<u64> = (0..8)
            .map(|_| backoff.failed(None, 1.0).as_secs())
            .collect();
        assert_eq!(ceilings, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.failed(None, 0.0), Duration::ZERO);
        assert_eq!(backoff.succeeded(), 9);
        assert_eq!(backoff.failed(None, 1.0), Duration::from_secs(1));
    }

    #[test]
    fn retry_after_is_a_floor() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let seven = Some(Duration::from_secs(7));
        assert_eq!(backoff.failed(seven, 0.0), Duration::from_secs(7));
        assert!(backoff.failed(seven, 0.5) <= Duration::from_secs(9));
    }

    #[test]
    fn counting_never_overflows() {
        let mut backoff = Backoff {
            cap: Duration::from_secs(60),
            failures: u32::MAX,
        };
        assert_eq!(backoff.failed(None, 1.0), Duration::from_secs(60));
    }
}
