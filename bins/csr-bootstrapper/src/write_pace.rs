//! Pace of the writes of one thing, that settles a disagreement with another writer slowly: pure.

use std::time::{Duration, Instant};

use apiclient::{backoff::Backoff, error::Error};

/// The shortest time between two writes; it doubles after each write that did not settle the matter, so
/// that another writer's disagreement causes no loop.
const GAP: Duration = Duration::from_secs(1);
/// The longest wait between two attempts, and between two writes.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The pace of one part's writes.
pub(crate) struct WritePace {
    /// The time before which nothing is written.
    pub(crate) not_before: Instant,
    gap: Duration,
    backoff: Backoff,
}

impl WritePace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { not_before: now, gap: GAP, backoff: Backoff::new(LONGEST_WAIT) }
    }

    /// Records whether a write is needed; once it is not, the matter is settled.
    pub(crate) fn needed(&mut self, needed: bool, now: Instant) {
        if !needed && now >= self.not_before {
            self.gap = GAP;
        }
    }

    /// Records a write that arrived; returns the failures before it.
    pub(crate) fn wrote(&mut self, now: Instant) -> u32 {
        self.not_before = now + self.gap;
        self.gap = (self.gap * 2).min(LONGEST_WAIT);
        self.backoff.succeeded()
    }

    /// Records a failed write; returns whether to log it.
    pub(crate) fn failed(&mut self, error: &Error, now: Instant) -> bool {
        let retry = self.backoff.failed(error, now, fastrand::f64());
        self.not_before = now + retry.wait;
        retry.should_log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disputed_status_is_written_once_a_minute_at_most() {
        let mut now = Instant::now();
        let mut pace = WritePace::new(now);
        let mut gaps = Vec::new();
        for _ in 0..8 {
            pace.needed(true, now);
            pace.wrote(now);
            gaps.push((pace.not_before - now).as_secs());
            now = pace.not_before;
        }
        assert_eq!(gaps, [1, 2, 4, 8, 16, 32, 60, 60]);
        pace.needed(false, now - Duration::from_secs(1));
        pace.wrote(now);
        assert_eq!(pace.not_before, now + LONGEST_WAIT, "the echo alone settles nothing");
        now = pace.not_before;
        pace.needed(false, now);
        pace.wrote(now);
        assert_eq!(pace.not_before, now + GAP);
    }

    #[test]
    fn a_failed_write_backs_off_and_is_told_once() {
        let now = Instant::now();
        let mut pace = WritePace::new(now);
        let refused = Error::Forbidden("no".into());
        assert!(pace.failed(&refused, now) && !pace.failed(&refused, now));
        assert!(pace.not_before <= now + Duration::from_secs(2));
        assert_eq!(pace.wrote(now), 2);
    }
}
