//! What the program remembers about pairs beyond their objects. Pure. A pair with nothing to remember takes no memory.
//!
//! Two more maps have pairs as keys. Waiting deletions are counted together: their number decides about each of them,
//! and a new session restarts all their grace periods ([`deletion_limit`](crate::sync::deletion_limit)). Failures
//! belong to the workqueue, like client-go's rate limiter beside its queue ([`workqueue`](apiclient::workqueue)).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    cache::{Answers, RetryClass, backoff},
    model::{annotations::Uid, key::Pair},
    sync::status::PairCondition,
};

/// The longest wait before a write is repeated that another writer keeps undoing. The usual one, an autoscaler, writes
/// every 15 s (kube-controller-manager, `--horizontal-pod-autoscaler-sync-period`).
const MAX_REPEAT_WAIT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory(BTreeMap<Pair, PairMemory>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PairMemory {
    /// The last write of content and metadata to the target.
    pub(super) updated: LastWrite,
    /// The last write of the status to the source.
    pub(super) uploaded: LastWrite,
    /// What the pair's own requests returned.
    answers: Option<Box<Answers>>,
    /// The pair's Secrets that are uploaded: index in `-target-secret-name`, uid of the source, and version. Usually
    /// one or two; a map would take hundreds of bytes per pair.
    pub(super) uploads: Vec<(usize, Uid, u64)>,
    /// Set while the pair is not in sync.
    condition: Option<PairCondition>,
}

impl Memory {
    pub(crate) fn get(&self, pair: &Pair) -> Option<&PairMemory> {
        self.0.get(pair)
    }

    /// Changes a pair's memory, and removes it if nothing is left.
    pub(crate) fn update<T>(
        &mut self,
        pair: &Pair,
        change: impl FnOnce(&mut PairMemory) -> T,
    ) -> T {
        let memory = self.0.entry(pair.clone()).or_default();
        let result = change(memory);
        if *memory == PairMemory::default() {
            self.0.remove(pair);
        }
        result
    }

    pub(crate) fn forget_uploads(&mut self) {
        self.change_all(&mut |memory| memory.uploads.clear());
    }

    /// Forgets writes that have lasted long enough.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.change_all(&mut |memory| {
            memory.updated.forget_old(now);
            memory.uploaded.forget_old(now);
        });
    }

    /// Changes all pairs' memory, and removes the memory of each pair that has nothing left.
    fn change_all(&mut self, change: &mut dyn FnMut(&mut PairMemory)) {
        self.0.retain(|_, memory| {
            change(memory);
            *memory != PairMemory::default()
        });
    }

    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&Pair, &PairCondition)> {
        let all = self.0.iter();
        all.filter_map(|(pair, memory)| Some((pair, memory.condition.as_ref()?)))
    }
}

impl PairMemory {
    pub(super) fn with_answers<T>(&mut self, change: impl FnOnce(&mut Answers) -> T) -> T {
        let mut answers = self.answers.take().unwrap_or_default();
        let result = change(&mut answers);
        self.answers = Some(answers).filter(|answers| **answers != Answers::default());
        result
    }

    /// Forgets writes and uploads, because both objects are gone.
    pub(super) fn forget_objects(&mut self) {
        self.uploads.clear();
        (self.updated, self.uploaded) = Default::default();
    }

    /// Returns whether the condition changed.
    pub(super) fn set_condition(&mut self, condition: Option<PairCondition>) -> bool {
        std::mem::replace(&mut self.condition, condition.clone()) != condition
    }
}

/// The last write of this sort, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LastWrite(Option<Written>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Written {
    /// Digest of the content that was written.
    what: u64,
    /// Digest of the result on the server; `None` if the server did not keep all that was written.
    became: Option<u64>,
    /// How often the write was repeated.
    times: u32,
    at: Instant,
}

impl LastWrite {
    pub(super) fn wrote(&mut self, what: u64, became: Option<u64>, now: Instant) {
        self.forget_old(now);
        let again = self.0.filter(|last| last.what == what);
        let times = again.map_or(0, |last| last.times.saturating_add(1));
        self.0 = Some(Written { what, became, times, at: now });
    }

    /// The digests of the written content and of the result on the server.
    pub(super) fn settled(self) -> Option<(u64, u64)> {
        self.0.and_then(|last| Some((last.what, last.became?)))
    }

    /// The time until this may be written. Repeated writes of the same content back off: another writer undoes them.
    pub(super) fn wait(self, what: u64, now: Instant) -> Duration {
        let again = self.0.filter(|last| last.what == what);
        again.map_or(Duration::ZERO, |last| {
            let wait = backoff(RetryClass::Transient, last.times).min(MAX_REPEAT_WAIT);
            wait.saturating_sub(now.saturating_duration_since(last.at))
        })
    }

    /// After a quiet period, resets the count, and forgets a write whose result is equal or was not kept.
    fn forget_old(&mut self, now: Instant) {
        let Some(last) = &mut self.0 else { return };
        if now.saturating_duration_since(last.at) < 2 * MAX_REPEAT_WAIT {
            return;
        }
        last.times = 0;
        if last.became.is_none_or(|became| became == last.what) {
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::status::PairState;

    #[test]
    fn a_pair_is_remembered_while_there_is_something_to_remember() {
        let mut memory = Memory::default();
        let pair = Pair { kind: 0, key: "ns/x".into() };
        let condition = PairCondition::new(PairState::Waiting, false, "why");
        let failing = PairCondition::new(PairState::Failing, false, "why");
        let steps = [(&condition, true), (&condition, false), (&failing, true)];
        for (condition, news) in steps.into_iter().chain([(&condition, true)]) {
            let set = |pair: &mut PairMemory| pair.set_condition(Some(condition.clone()));
            assert_eq!(memory.update(&pair, set), news);
        }
        assert_eq!(memory.conditions().collect::<Vec<_>>(), [(&pair, &condition)]);
        assert!(memory.update(&pair, |pair| pair.set_condition(None)));
        assert_eq!(memory, Memory::default());
        assert!(!memory.update(&pair, |pair| pair.set_condition(None)), "nothing was known");
        assert_eq!(memory, Memory::default());
    }

    #[test]
    fn the_same_write_again_and_again_backs_off() {
        let (mut last, start) = (LastWrite::default(), Instant::now());
        let mut now = start;
        let waits: Vec<_> = (0..20)
            .map(|_| {
                last.wrote(7, None, now);
                assert_eq!(last.wait(8, now), Duration::ZERO, "another write does not wait");
                now += last.wait(7, now);
                assert_eq!(last.wait(7, now), Duration::ZERO);
                now.duration_since(start).as_millis()
            })
            .collect();
        assert_eq!(waits[..4], [5, 15, 35, 75]);
        assert_eq!(waits[19] - waits[18], 60_000);
        last.wrote(8, None, now);
        assert_eq!(last.wait(8, now).as_millis(), 5);
        last.wrote(8, None, now + 2 * MAX_REPEAT_WAIT);
        assert_eq!(last.wait(8, now + 2 * MAX_REPEAT_WAIT).as_millis(), 5, "it was quiet");
    }

    #[test]
    fn writes_are_remembered_while_they_matter() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let pair = Pair { kind: 0, key: "ns/x".into() };
        for (became, kept) in [(None, false), (Some(7), false), (Some(8), true)] {
            memory.update(&pair, |memory| memory.updated.wrote(7, became, now));
            memory.forget_old(now + Duration::from_secs(119));
            assert!(memory.get(&pair).is_some());
            memory.forget_old(now + Duration::from_secs(120));
            assert_eq!(memory.get(&pair).is_some(), kept, "{became:?}");
        }
    }
}
