//! Backoff: the wait after a failure, and which failures to log.

use std::{
    mem::{Discriminant, discriminant},
    time::{Duration, Instant},
};

use log::Level;

use crate::{error::Error, log_line::seconds, log_object, resource::Target};

/// The upper bound of the wait after the first failure; it doubles with each failure.
const INITIAL_WAIT: Duration = Duration::from_secs(1);
/// A persistent failure is logged again after this.
const REMINDER_INTERVAL: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub struct Backoff {
    cap: Duration,
    /// The longest Retry-After that is honored.
    pause: Duration,
    failures: u32,
    /// The kinds of failure that were logged, and when.
    logged: Vec<(Discriminant<Error>, Instant)>,
}

#[derive(Debug, PartialEq)]
pub struct Retry {
    pub wait: Duration,
    /// It is the first failure of its kind, or due for a reminder.
    pub should_log: bool,
}

impl Retry {
    pub fn level(&self) -> Level {
        if self.should_log { Level::Warn } else { Level::Debug }
    }

    /// Logs the failure `what` about `target`; an empty `server` is left out.
    pub fn log(&self, server: &str, target: &Target<'_>, error: &Error, what: &str) {
        let (level, retry_in) = (self.level(), seconds(self.wait));
        log_object!(
            level, target, server = server, error:% = error, retry_in = retry_in;
            "{what}"
        );
    }
}

impl Backoff {
    /// With waits of at most `cap`; a Retry-After of up to `cap` is added.
    pub const fn new(cap: Duration) -> Self {
        Self { cap, pause: cap, failures: 0, logged: Vec::new() }
    }

    /// Caps Retry-After at `pause`: the answer may come from a gateway.
    #[must_use]
    pub const fn honoring(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Counts a failure and draws the wait with full jitter, from 0 to 1 s, 2 s, 4 s … `cap`: a fleet that failed
    /// together must not return together (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
    /// The server's Retry-After is added. `random` is uniform in [0, 1).
    pub fn failed(&mut self, error: &Error, now: Instant, random: f64) -> Retry {
        let kind = discriminant(error);
        self.logged.retain(|(_, at)| now < *at + REMINDER_INTERVAL);
        let should_log = self.logged.iter().all(|(logged, _)| *logged != kind);
        if should_log {
            self.logged.push((kind, now));
        }
        let pause = error.retry_after().unwrap_or_default().min(self.pause);
        let wait = pause + self.left_undone(random);
        Retry { wait, should_log }
    }

    /// Counts an incomplete attempt, and draws the wait as after a failure.
    pub fn left_undone(&mut self, random: f64) -> Duration {
        let ceiling = INITIAL_WAIT.saturating_mul(1 << self.failures.min(16)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        ceiling.mul_f64(random)
    }

    /// Resets, and returns the number of failures before.
    pub fn succeeded(&mut self) -> u32 {
        self.logged.clear();
        std::mem::take(&mut self.failures)
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable() -> Error {
        Error::Unreachable("gone".into())
    }

    fn wait(backoff: &mut Backoff, error: &Error, random: f64) -> Duration {
        backoff.failed(error, Instant::now(), random).wait
    }

    #[test]
    fn waits_are_drawn_from_a_doubling_capped_range() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let ceilings: Vec<u64> =
            (0..8).map(|_| wait(&mut backoff, &unreachable(), 1.0).as_secs()).collect();
        assert_eq!(ceilings, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(wait(&mut backoff, &unreachable(), 0.0), Duration::ZERO);
        assert_eq!(backoff.succeeded(), 9);
        assert_eq!(wait(&mut backoff, &unreachable(), 1.0), Duration::from_secs(1));
    }

    #[test]
    fn retry_after_is_a_lower_bound() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let retry_after = Some(Duration::from_secs(7));
        let error = Error::Unavailable { message: "busy".into(), retry_after, of_object: false };
        assert_eq!(wait(&mut backoff, &error, 0.0), Duration::from_secs(7));
        assert!(wait(&mut backoff, &error, 0.5) <= Duration::from_secs(9));
    }

    #[test]
    fn retry_after_is_honored_up_to_the_limit_of_the_job() {
        let retry_after = Some(Duration::from_secs(3600));
        let error = Error::Unavailable { message: "busy".into(), retry_after, of_object: false };
        let mut backoff = Backoff::new(Duration::from_secs(60));
        assert_eq!(wait(&mut backoff, &error, 0.0), Duration::from_secs(60));
        let mut patient = Backoff::new(Duration::from_secs(60)).honoring(Duration::from_secs(300));
        assert_eq!(wait(&mut patient, &error, 0.0), Duration::from_secs(300));
    }

    #[test]
    fn lasting_failure_is_logged_every_ten_minutes() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let start = Instant::now();
        let mut should_log = |error: &Error, seconds| {
            backoff.failed(error, start + Duration::from_secs(seconds), 0.5).should_log
        };
        let refused = Error::Unauthorized("no".into());
        assert!(should_log(&refused, 0));
        assert!(!should_log(&refused, 1) && !should_log(&refused, 599));
        assert!(should_log(&refused, 600) && !should_log(&refused, 601));
        assert!(should_log(&unreachable(), 602), "another kind of failure is news");
        assert!(!should_log(&refused, 603), "but not the one before once more");
    }

    #[test]
    fn counting_never_overflows() {
        let mut backoff = Backoff { failures: u32::MAX, ..Backoff::new(Duration::from_secs(60)) };
        assert_eq!(wait(&mut backoff, &unreachable(), 1.0), Duration::from_secs(60));
    }
}
