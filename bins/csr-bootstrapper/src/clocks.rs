//! Clocks of this machine and of the hub. Either may be wrong, and the hub's may be that of a gateway
//! before it: an irreversible step needs both. No I/O, no clock.

use std::time::{Duration, Instant, SystemTime};

use apiclient::client::ServerClock;

/// The hub's clock is trusted when its answers have agreed for this long, or for a part of the
/// certificate's lifetime if that is shorter.
const TRUST_DELAY: Duration = Duration::from_secs(600);
const TRUST_DELAY_PART: u32 = 20;

/// The time by each known clock.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    own: SystemTime,
    hub: Option<HubTime>,
}

#[derive(Clone, Copy, Debug)]
struct HubTime {
    now: SystemTime,
    /// Between the first and the last of the answers that agree.
    agreed: Duration,
}

impl Clocks {
    /// From `own`, the time of this machine, at the instant `now`, and the hub's clock, which advances
    /// independently of ours: that may be set.
    pub fn new(own: SystemTime, now: Instant, hub: Option<ServerClock>) -> Self {
        let hub = hub.and_then(|clock| {
            let time = clock.time.checked_add(now.saturating_duration_since(clock.last));
            Some(HubTime { now: time?, agreed: clock.last.saturating_duration_since(clock.since) })
        });
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

    /// The time until every clock is past `end`.
    pub fn until_past(&self, end: SystemTime) -> Duration {
        self.all().map(|now| end.duration_since(now).unwrap_or_default()).max().unwrap_or_default()
    }

    /// The time until a certificate with this `life` is due, which it is at `at`. The earlier clock counts,
    /// as a slow one must not delay a renewal; while the hub's clock is not trusted, the later one counts.
    pub fn until_due(&self, at: SystemTime, life: Duration) -> Duration {
        let left = |now| at.duration_since(now).unwrap_or_default();
        match self.hub {
            Some(hub) if hub.agreed >= TRUST_DELAY.min(life / TRUST_DELAY_PART) => {
                left(self.own).min(left(hub.now))
            }
            _ => self.until_past(at),
        }
    }

    /// The remaining lifetime of a certificate that was just issued, by the clocks for which it is valid; all of its
    /// lifetime if it is valid for none. If the two differ by more than half, one of them is wrong, and the longer
    /// one counts: the shorter one would cause endless requests.
    pub fn left_of_new(&self, begin: SystemTime, end: SystemTime) -> Duration {
        let left = |now| end.duration_since(now).unwrap_or_default();
        let valid = || self.all().filter(|now| (begin..=end).contains(now)).map(left);
        match (valid().min(), valid().max()) {
            (Some(least), Some(most)) => {
                if least >= most / 2 {
                    least
                } else {
                    most
                }
            }
            _ => left(begin),
        }
    }

    fn all(&self) -> impl Iterator<Item = SystemTime> {
        [Some(self.own), self.hub.map(|hub| hub.now)].into_iter().flatten()
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Instant;

    use super::*;
    use crate::certificate::authority::{HOUR, MINUTE, now};

    const DAY: Duration = Duration::from_secs(86_400);

    /// Both clocks at this time.
    pub fn at(time: SystemTime) -> Clocks {
        Clocks { own: time, hub: None }
    }

    /// A hub that is `ahead` by so many seconds, as its answers have said for the time `agreed`.
    pub fn hub(ahead: i64, agreed: Duration) -> Clocks {
        let (since, apart) = (Instant::now(), Duration::from_secs(ahead.unsigned_abs()));
        let time = if ahead < 0 { now() - apart } else { now() + apart };
        let last = since + agreed;
        Clocks::new(now(), last, Some(ServerClock { ahead, time, since, last }))
    }

    #[test]
    fn the_hubs_time_goes_on_whatever_ours_is_set_to() {
        let (last, time) = (Instant::now(), now());
        let clock = ServerClock { ahead: 0, time, since: last, last };
        let clocks = Clocks::new(now() + HOUR * 5, last + MINUTE, Some(clock));
        assert!(clocks.are_past(now()) && !clocks.are_past(now() + MINUTE * 2));
        assert_eq!(clocks.until_past(now() + MINUTE * 2), MINUTE);
    }

    #[test]
    fn what_cannot_be_undone_needs_both_clocks() {
        let year = 365 * 86_400;
        for (clocks, past, before) in [
            (at(now()), true, true),
            (hub(0, Duration::ZERO), true, true),
            (hub(year, DAY), true, false),
            (hub(-year, DAY), false, true),
        ] {
            assert_eq!(clocks.are_past(now() - HOUR), past, "{clocks:?}");
            assert_eq!(clocks.are_before(now() + HOUR, MINUTE), before, "{clocks:?}");
            assert!(!clocks.are_past(now() + DAY * 400) && !clocks.are_before(now(), MINUTE));
        }
    }

    #[test]
    fn certificate_is_due_by_either_clock() {
        assert_eq!(at(now()).until_due(now() + MINUTE, DAY), MINUTE);
        let year = 365 * 86_400;
        for (ahead, agreed, left) in [
            (year, MINUTE * 9, HOUR),
            (year, MINUTE * 10, Duration::ZERO),
            (-year, MINUTE * 9, DAY * 365 + HOUR),
            (-year, MINUTE * 10, HOUR),
        ] {
            let until = hub(ahead, agreed).until_due(now() + HOUR, DAY);
            assert_eq!(until, left, "{ahead} {agreed:?}");
        }
        let short = hub(year, MINUTE * 3).until_due(now() + MINUTE, HOUR);
        assert_eq!(short, Duration::ZERO, "sooner where the certificate is short");
    }

    #[test]
    fn what_was_left_is_by_the_clocks_that_can_be_right() {
        let (begin, end) = (now() - MINUTE * 5, now() + MINUTE);
        for (ahead, left) in [(0, 60), (30, 30), (31, 60), (59, 60), (3600, 60), (-3600, 60)] {
            let left = Duration::from_secs(left);
            assert_eq!(hub(ahead, MINUTE).left_of_new(begin, end), left, "{ahead}");
        }
        assert_eq!(at(now() + HOUR).left_of_new(begin, end), MINUTE * 6);
        assert_eq!(at(now()).left_of_new(end, begin), Duration::ZERO);
    }
}
