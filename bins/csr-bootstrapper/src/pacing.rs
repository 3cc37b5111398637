//! Paces. An attempt is due when the last success said, or with backoff after a failure. A write follows the last one
//! at an interval. A credential also rests after requests that ended, and spaces the writes of its Secret.

use std::{
    mem,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::{Backoff, Retry},
    error::{Error, Result},
    resource::Target,
};

/// The first rest, and the longest one: each consecutive end doubles it.
pub(crate) type Rest = (Duration, Duration);

/// The rest after Denied or Failed: a human or a policy refused, which time alone seldom changes.
pub(crate) const REST_REFUSED: Rest = (Duration::from_secs(300), MAX_BACKOFF);
/// The rest after any other end of a request.
pub(crate) const REST_SHORT: Rest = (Duration::from_secs(2), MAX_BACKOFF);
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(3600);
/// The interval of writes of the Secret; it doubles each time that somebody undoes a write.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// The default's longest backoff. It is short because an add-on's namespace is created with its other objects.
const DEFAULT_BACKOFF: Duration = Duration::from_secs(15);
/// The longest Retry-After that is honored.
const DEFAULT_PAUSE: Duration = Duration::from_secs(60);
/// The least interval of writes of a status. It doubles after each write that leaves another one needed, so that a
/// disagreement with another writer causes no loop.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest of these intervals, and so the maximum age of a status.
const MAX_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CredentialPace {
    /// Number of consecutive requests that ended without a certificate.
    ends: u32,
    /// Until when nothing is requested.
    rest: Option<Instant>,
    saved: Option<Instant>,
    /// Number of consecutive writes before `saved` that somebody undid.
    repeats: u32,
}

impl CredentialPace {
    /// Returns the end of the rest, if it is in the future.
    pub(crate) fn resting(&self, now: Instant) -> Option<Instant> {
        self.rest.filter(|until| now < *until)
    }

    /// Returns the earliest time of the next write of the Secret, if it is in the future.
    pub(crate) fn next_write(&self, now: Instant) -> Option<Instant> {
        let interval = WRITE_INTERVAL.saturating_mul(1 << self.repeats.min(11)).min(MAX_BACKOFF);
        self.saved.map(|saved| saved + interval).filter(|until| now < *until)
    }

    /// Records the end of a request; returns the length of the rest, which doubles with each consecutive end. `random`
    /// is uniform in [0, 1).
    pub(crate) fn ended(&mut self, rest: Rest, now: Instant, random: f64) -> Duration {
        let (first, longest) = rest;
        let rest = first.saturating_mul(1 << self.ends.min(11)).min(longest);
        // Jitter: a fleet that was denied together must not retry together.
        let rest = rest + rest.mul_f64(random / 4.0);
        self.ends = self.ends.saturating_add(1);
        self.rest = Some(now + rest);
        rest
    }

    /// Stops requests until then.
    pub(crate) fn halted(&mut self, until: Instant) {
        self.rest = Some(until);
    }

    /// Ends the rest: another hub or bootstrap identity may have more success. The interval of writes stays:
    /// somebody may change these repeatedly.
    pub(crate) fn end_rest(&mut self) {
        (self.ends, self.rest) = (0, None);
    }

    /// Records a saved credential; `regular` if the previous one was due.
    pub(crate) fn saved(&mut self, regular: bool, now: Instant) {
        self.end_rest();
        self.wrote(regular, now);
    }

    /// Records a write of the Secret; `regular` if the last write was still in place.
    pub(crate) fn wrote(&mut self, regular: bool, now: Instant) {
        let is_first = self.saved.replace(now).is_none();
        self.repeats = if regular || is_first { 0 } else { self.repeats.saturating_add(1) };
    }
}

/// When something is due: an attempt, or a write that settles a matter.
pub(crate) struct Pace {
    pub(crate) at: Instant,
    /// The least interval after the next write.
    interval: Duration,
    errors: Backoff,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(Backoff::new(DEFAULT_BACKOFF).honoring(DEFAULT_PAUSE))
    }
}

impl Pace {
    pub(crate) fn new(errors: Backoff) -> Self {
        Self { at: Instant::now(), interval: MIN_INTERVAL, errors }
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.errors.failures() > 0
    }

    /// Returns when a write is allowed; `None` if none is needed, which settles the matter.
    pub(crate) fn due(&mut self, is_needed: bool, now: Instant) -> Option<Instant> {
        if !is_needed && now >= self.at {
            self.interval = MIN_INTERVAL;
        }
        is_needed.then_some(self.at)
    }

    /// Records a successful write; returns the number of failures before it.
    pub(crate) fn wrote(&mut self, now: Instant) -> u32 {
        self.at = now + self.next_interval();
        self.errors.succeeded()
    }

    /// Records a failure. A conflict counts as a write instead: it is routine, and the watch returns the other write.
    pub(crate) fn failed(&mut self, error: &Error, now: Instant) -> Retry {
        let retry = match error {
            Error::Conflict(_) | Error::AlreadyExists(_) => {
                Retry { wait: self.next_interval(), should_log: false }
            }
            error => self.errors.failed(error, now, fastrand::f64()),
        };
        self.at = now + retry.wait;
        retry
    }

    /// Returns the interval, and doubles it.
    fn next_interval(&mut self) -> Duration {
        let next = (self.interval * 2).min(MAX_INTERVAL);
        mem::replace(&mut self.interval, next)
    }

    /// Records the result of an attempt, and logs a failure as `what` about `target`; returns when the next one is due.
    pub(crate) fn set(
        &mut self,
        result: Result<Instant>,
        target: &Target<'_>,
        what: &str,
    ) -> Instant {
        match result {
            Ok(at) => {
                self.errors.succeeded();
                (self.at, self.interval) = (at, MIN_INTERVAL);
            }
            Err(error) => self.failed(&error, Instant::now()).log("", target, &error, what),
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use log::Level;

    use super::*;

    #[test]
    fn rests_double_until_a_certificate_or_another_hub() {
        let (now, mut pacing) = (Instant::now(), CredentialPace::default());
        let rest =
            |pacing: &mut CredentialPace, rest, random| pacing.ended(rest, now, random).as_secs();
        let rests = [0.0, 0.0, 0.5].map(|random| rest(&mut pacing, REST_REFUSED, random));
        assert_eq!(rests, [300, 600, 1350]);
        assert_eq!(pacing.resting(now), Some(now + Duration::from_secs(1350)));
        assert_eq!(pacing.resting(now + Duration::from_secs(1350)), None);
        for end in [
            |it: &mut CredentialPace| it.end_rest(),
            |it: &mut CredentialPace| it.saved(true, it.rest.unwrap()),
        ] {
            end(&mut pacing);
            assert_eq!(pacing.resting(now), None);
            assert_eq!(rest(&mut pacing, REST_SHORT, 0.0), 2);
        }
        let all = (0..40).map(|_| rest(&mut pacing, REST_SHORT, 0.0));
        assert_eq!(all.last(), Some(3600));
    }

    #[test]
    fn writes_that_somebody_undoes_become_rare() {
        let (start, mut pacing) = (Instant::now(), CredentialPace::default());
        assert_eq!(pacing.next_write(start), None);
        let mut wrote = |regular| {
            pacing.wrote(regular, start);
            pacing.next_write(start).unwrap().duration_since(start).as_secs()
        };
        assert_eq!([false, false, false, true, true, false].map(&mut wrote), [2, 4, 8, 2, 2, 4]);
        assert_eq!((0..40).map(|_| wrote(false)).last(), Some(3600));
        pacing.end_rest();
        assert_eq!(pacing.next_write(start), Some(start + MAX_BACKOFF));
    }

    #[test]
    fn disputed_status_is_written_every_10_s_at_most() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let mut gaps = Vec::new();
        for _ in 0..8 {
            pace.due(true, now);
            pace.wrote(now);
            gaps.push((pace.at - now).as_secs());
            now = pace.at;
        }
        assert_eq!(gaps, [1, 2, 4, 8, 10, 10, 10, 10]);
        pace.due(false, now - Duration::from_secs(1));
        pace.wrote(now);
        assert_eq!(pace.at, now + MAX_INTERVAL, "the echo alone settles nothing");
        now = pace.at;
        pace.due(false, now);
        pace.wrote(now);
        assert_eq!(pace.at, now + MIN_INTERVAL);
    }

    /// Conflicts do not delay the write that follows them.
    #[test]
    fn failed_write_backs_off_and_is_logged_once() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let refused = Error::Forbidden("no".into());
        assert_eq!([0; 2].map(|_| pace.failed(&refused, now).level()), [Level::Warn, Level::Debug]);
        assert!(pace.at <= now + Duration::from_secs(2));
        assert_eq!(pace.wrote(now), 2);
        for _ in 0..20 {
            let failed = pace.failed(&Error::Conflict("other".into()), now);
            assert_eq!((failed.level(), pace.is_failing()), (Level::Debug, false));
            assert!((now + MIN_INTERVAL..=now + MAX_INTERVAL).contains(&pace.at));
            now = pace.at;
        }
    }
}
