//! Clocks of this machine and of the hub. Either may be wrong, and the hub's may be that of a gateway
//! before it: an irreversible step needs both. No I/O, no clock.

use std::time::{Duration, Instant, SystemTime};

use apiclient::client::ServerClock;

#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    own: SystemTime,
    hub: Option<SystemTime>,
}

impl Clocks {
    /// From `own`, the time of this machine, at the instant `now`, and the hub's clock, which advances
    /// independently of ours: that may be set.
    pub fn new(own: SystemTime, now: Instant, hub: Option<ServerClock>) -> Self {
        let hub =
            hub.and_then(|clock| clock.time.checked_add(now.saturating_duration_since(clock.last)));
        Self { own, hub }
    }

    /// Returns whether every clock is past `end`.
    pub fn are_past(&self, end: SystemTime) -> bool {
        self.all().all(|now| now > end)
    }

    /// Returns whether `begin` is more than `tolerance` ahead by every clock.
    pub fn are_before(&self, begin: SystemTime, tolerance: Duration) -> bool {
        self.all().all(|now| now + tolerance < begin)
    }

    /// The time until `at`, when a credential of the hub is due: by the hub's clock, which also checks it, if known.
    pub fn until_due(&self, at: SystemTime) -> Duration {
        at.duration_since(self.hub.unwrap_or(self.own)).unwrap_or_default()
    }

    /// The remaining lifetime of a certificate that was just issued, by the clocks for which it is valid; all of its
    /// lifetime if it is valid for none. The longer one counts: the shorter one, if wrong, would cause endless
    /// requests.
    pub fn left_of_new(&self, begin: SystemTime, end: SystemTime) -> Duration {
        let left = |now| end.duration_since(now).unwrap_or_default();
        let valid = self.all().filter(|now| (begin..=end).contains(now));
        valid.map(left).max().unwrap_or_else(|| left(begin))
    }

    fn all(&self) -> impl Iterator<Item = SystemTime> {
        [Some(self.own), self.hub].into_iter().flatten()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Instant;

    use super::*;
    use crate::certificate::authority::{HOUR, MINUTE, now};

    const DAY: Duration = Duration::from_secs(86_400);

    /// Both clocks at this time.
    pub(crate) fn at(time: SystemTime) -> Clocks {
        Clocks { own: time, hub: None }
    }

    /// A hub that is `ahead` by so many seconds.
    pub(crate) fn hub(ahead: i64) -> Clocks {
        let (last, apart) = (Instant::now(), Duration::from_secs(ahead.unsigned_abs()));
        let time = if ahead < 0 { now() - apart } else { now() + apart };
        Clocks::new(now(), last, Some(ServerClock { ahead, time, last }))
    }

    #[test]
    fn the_hubs_time_goes_on_whatever_ours_is_set_to() {
        let (last, time) = (Instant::now(), now());
        let clock = ServerClock { ahead: 0, time, last };
        let clocks = Clocks::new(now() + HOUR * 5, last + MINUTE, Some(clock));
        assert!(clocks.are_past(now()) && !clocks.are_past(now() + MINUTE * 2));
        assert_eq!(clocks.until_due(now() + MINUTE * 2), MINUTE);
    }

    #[test]
    fn what_cannot_be_undone_needs_both_clocks() {
        let year = 365 * 86_400;
        for (clocks, past, before) in [
            (at(now()), true, true),
            (hub(0), true, true),
            (hub(year), true, false),
            (hub(-year), false, true),
        ] {
            assert_eq!(clocks.are_past(now() - HOUR), past, "{clocks:?}");
            assert_eq!(clocks.are_before(now() + HOUR, MINUTE), before, "{clocks:?}");
            assert!(!clocks.are_past(now() + DAY * 400) && !clocks.are_before(now(), MINUTE));
        }
    }

    #[test]
    fn certificate_is_due_by_the_hubs_clock() {
        assert_eq!(at(now()).until_due(now() + MINUTE), MINUTE);
        for (ahead, left) in [(7200, Duration::ZERO), (0, HOUR), (-7200, HOUR * 3)] {
            assert_eq!(hub(ahead).until_due(now() + HOUR), left, "{ahead}");
        }
    }

    #[test]
    fn what_was_left_is_by_the_clocks_that_can_be_right() {
        let (begin, end) = (now() - MINUTE * 5, now() + MINUTE);
        for (ahead, left) in [(0, 60), (59, 60), (-59, 119), (3600, 60), (-3600, 60)] {
            let left = Duration::from_secs(left);
            assert_eq!(hub(ahead).left_of_new(begin, end), left, "{ahead}");
        }
        assert_eq!(at(now() + HOUR).left_of_new(begin, end), MINUTE * 6);
        assert_eq!(at(now()).left_of_new(end, begin), Duration::ZERO);
    }
}
