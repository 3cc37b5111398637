//! The pace of certificate requests: rests after a request that ended, waits after a failure, and the time
//! between two writes of the Secret. No I/O, no clock.

use std::time::{Duration, Instant};

use super::{csr_status::CsrFailure, need::Requester};

/// After Denied or Failed: a human or a policy said no, which time alone seldom changes.
pub(super) const REST_REFUSED: Duration = Duration::from_secs(300);
/// After a certificate that cannot be used, if the next one ends so too.
const REST_WRONG: Duration = Duration::from_secs(30);
/// After a request of another identity than the present requester, or one that somebody deleted, and after the first of
/// the wrong ones.
pub(super) const REST_SHORT: Duration = Duration::from_secs(2);
pub(super) const SHORT_RESTS: [Duration; 2] = [REST_SHORT, REST_SHORT.saturating_mul(2)];
/// The longest rest.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(3600);
/// Between the write of a certificate that was used until it was due, however short it is, and the next one.
pub(super) const PACE: Duration = Duration::from_secs(5);
/// Between a write of the Secret that somebody undid and the next one; it doubles each time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The waits between requests and between writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pacing {
    /// Requests in a row that ended without a certificate.
    ends: u32,
    /// Until then this identity requests nothing.
    rest: Option<(Instant, Requester)>,
    /// Until then nothing is done while this is the identity, after a failure.
    failed: Option<(Instant, Option<Requester>)>,
    saved: Option<Instant>,
    /// Writes of the Secret in a row that somebody undid.
    repeats: u32,
}

impl Pacing {
    /// The end of the wait after a failure of this identity, if it lasts.
    pub(super) fn failing(&self, requester: Option<Requester>, now: Instant) -> Option<Instant> {
        let (until, of) = self.failed?;
        (now < until && of == requester).then_some(until)
    }

    /// The end of the identity's rest, if it lasts.
    pub(super) fn resting(&self, requester: Requester, now: Instant) -> Option<Instant> {
        let (until, of) = self.rest?;
        (now < until && of == requester).then_some(until)
    }

    /// The earliest time of the next write of the Secret, if it is in the future.
    pub(crate) fn next_write(&self, regular: bool, now: Instant) -> Option<Instant> {
        let repeats = REPEAT_INTERVAL.saturating_mul(1 << self.repeats.min(12)).min(MAX_BACKOFF);
        let pace = if regular && self.repeats == 0 { PACE } else { repeats };
        let until = self.saved? + pace;
        (now < until).then_some(until)
    }

    /// A request of `requester` ended: it rests for the `first` time, after the next end for the `second`, and then twice
    /// as long after each end in a row. Returns for how long; `random` is uniform in [0, 1).
    pub(super) fn ended(
        &mut self,
        [first, second]: [Duration; 2],
        requester: Requester,
        now: Instant,
        random: f64,
    ) -> Duration {
        let rest = match self.ends {
            0 => first,
            ends => second.saturating_mul(1 << (ends - 1).min(8)).min(MAX_BACKOFF),
        };
        // Jitter: a fleet that was denied together must not retry together.
        let rest = rest + rest.mul_f64(random / 4.0);
        self.ends = self.ends.saturating_add(1);
        self.rest = Some((now + rest, requester));
        rest
    }

    /// `requester` rests until then.
    pub(super) fn halted(&mut self, requester: Requester, until: Instant) {
        self.rest = Some((until, requester));
    }

    /// Something failed while this was the identity: nothing is done until then.
    pub(super) fn failed(&mut self, requester: Option<Requester>, until: Instant) {
        self.failed = Some((until, requester));
    }

    /// A certificate was saved; `regular` if the one before was due.
    pub(crate) fn saved(&mut self, regular: bool, now: Instant) {
        (self.ends, self.rest) = (0, None);
        self.repeats = if regular { 0 } else { self.repeats.saturating_add(1) };
        self.saved = Some(now);
    }

    /// The rest of the Secret was repaired.
    pub(crate) fn repaired(&mut self, now: Instant) {
        self.repeats = self.repeats.saturating_add(1);
        self.saved = Some(now);
    }

    /// Another bootstrap kubeconfig ends all rests and waits, but for those between writes.
    pub(super) fn restart(&mut self) {
        *self = Self { saved: self.saved, ..Self::default() };
    }
}

/// The first and the second rest before the next key.
pub(super) fn rests_after(failure: &CsrFailure) -> [Duration; 2] {
    match failure {
        CsrFailure::Denied(_) | CsrFailure::Failed(_) => [REST_REFUSED, 2 * REST_REFUSED],
        CsrFailure::Rejected(_) => [REST_SHORT, REST_WRONG],
        CsrFailure::Foreign => SHORT_RESTS,
    }
}
