//! Fights: two writers that undo each other, recognised by the same write again and again: pure.

use std::time::{Duration, Instant};

/// The repetitions of a write in a row from which on two writers fight. Fewer may be a person with an editor.
const MOST: u8 = 8;
/// The longest time between two of them, and between two attempts in a fight. An autoscaler, the usual opponent,
/// writes every 15 s (kube-controller-manager, `--horizontal-pod-autoscaler-sync-period`).
const QUIET: Duration = Duration::from_secs(60);

/// The last writes of a pair, each for as long as it may be undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LastWrites {
    /// Of the source's content and metadata to the target, new or not.
    pub(crate) update: LastWrite,
    /// Of the target's status to the source.
    pub(crate) status: LastWrite,
}

/// The last write of one sort, if there was one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LastWrite(Option<RepeatedWrite>);

/// A write, and how often it had to be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RepeatedWrite {
    /// Digest of what was written.
    what: u64,
    times: u8,
    at: Instant,
}

/// A fight that goes on: what is not written again before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fight {
    /// Digest of what the target would be given.
    pub(crate) update: Option<u64>,
    /// Digest of the status that the source would be given.
    pub(crate) status: Option<u64>,
    /// The time until the next attempt, or until it is over.
    pub(crate) left: Duration,
}

impl LastWrites {
    /// The fight that goes on at `now`, if there is one.
    pub(crate) fn fight(&self, now: Instant) -> Option<Fight> {
        let [update, status] = [self.update, self.status].map(|last| last.contested(now));
        let left = update.iter().chain(&status).map(|(_, left)| *left).min()?;
        let what = |contested: Option<(u64, Duration)>| contested.map(|(what, _)| what);
        Some(Fight { update: what(update), status: what(status), left })
    }

    /// Forgets writes that nobody will undo any more.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        for last in [&mut self.update, &mut self.status] {
            last.0 = last.0.filter(|last| now.saturating_duration_since(last.at) < 2 * QUIET);
        }
    }
}

impl LastWrite {
    /// Records that this was written.
    pub(crate) fn wrote(&mut self, what: u64, now: Instant) {
        let again = self.0.filter(|last| {
            // In a fight the next attempt comes after the quiet time.
            let longest = if last.times >= MOST { 2 * QUIET } else { QUIET };
            last.what == what && now.saturating_duration_since(last.at) <= longest
        });
        let times = again.map_or(0, |last| last.times.saturating_add(1));
        self.0 = Some(RepeatedWrite { what, times, at: now });
    }

    /// What is not to be written now, and for how long.
    fn contested(self, now: Instant) -> Option<(u64, Duration)> {
        let last = self.0.filter(|last| last.times >= MOST)?;
        let left = QUIET.saturating_sub(now.saturating_duration_since(last.at));
        (!left.is_zero()).then_some((last.what, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the same, `every` so many seconds; the fight after each.
    fn fights(times: u64, every: u64) -> Vec<bool> {
        let (mut writes, start) = (LastWrites::default(), Instant::now());
        (0..times)
            .map(|n| {
                let now = start + Duration::from_secs(n * every);
                writes.update.wrote(7, now);
                writes.fight(now).is_some()
            })
            .collect()
    }

    #[test]
    fn the_same_write_again_and_again_is_a_fight() {
        let expected: Vec<_> = (1..=10).map(|n| n > 8).collect();
        assert_eq!(fights(10, 0), expected);
        assert_eq!(fights(10, 15), expected, "an autoscaler");
        assert_eq!(fights(10, 61), [false; 10]);
    }

    #[test]
    fn another_write_is_none() {
        let (mut writes, now) = (LastWrites::default(), Instant::now());
        (0..20).for_each(|n| writes.update.wrote(n % 2, now));
        (0..8).for_each(|_| writes.status.wrote(7, now));
        assert_eq!(writes.fight(now), None);
    }

    #[test]
    fn a_fight_has_one_attempt_a_minute_and_ends_when_it_is_quiet() {
        let (mut writes, start) = (LastWrites::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        (0..9).for_each(|_| writes.status.wrote(7, start));
        let fight = |left| {
            let left = Duration::from_secs(left);
            Some(Fight { update: None, status: Some(7), left })
        };
        assert_eq!(writes.fight(at(10)), fight(50));
        assert_eq!(writes.fight(at(60)), None, "the next attempt");
        writes.status.wrote(7, at(61));
        assert_eq!(writes.fight(at(61)), fight(60), "undone again");
        writes.forget_old(at(180));
        assert_eq!(writes.fight(at(100)), fight(21));
        writes.forget_old(at(181));
        assert_eq!(writes, LastWrites::default());
        writes.status.wrote(7, at(182));
        assert_eq!(writes.fight(at(182)), None);
    }

    #[test]
    fn a_fight_on_both_sides_goes_on_until_the_first_attempt() {
        let (mut writes, start) = (LastWrites::default(), Instant::now());
        let later = start + Duration::from_secs(20);
        for _ in 0..9 {
            writes.update.wrote(7, start);
            writes.status.wrote(8, later);
        }
        let left = Duration::from_secs(40);
        assert_eq!(writes.fight(later), Some(Fight { update: Some(7), status: Some(8), left }));
    }
}
