//! Memory of pairs beside their objects: pure. A pair with nothing to remember takes no room.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    model::key::Pair,
    sync::{observed::SettledDiff, status::PairCondition},
};

/// The memory of one remote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory(BTreeMap<Pair, PairMemory>);

/// What is remembered of one pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PairMemory {
    pub(super) settled: SettledDiff,
    /// The source has just left the lists.
    pub(super) unlisted: bool,
    /// It waits for the end of something.
    pub(super) waiting_since: Option<Instant>,
    /// It is not in step.
    condition: Option<PairCondition>,
}

impl Memory {
    pub(super) fn get(&self, pair: &Pair) -> Option<&PairMemory> {
        self.0.get(pair)
    }

    /// Changes what is remembered of a pair; forgets the pair where nothing is left.
    pub(super) fn update<T>(
        &mut self,
        pair: &Pair,
        change: impl FnOnce(&mut PairMemory) -> T,
    ) -> T {
        if let Some(memory) = self.0.get_mut(pair) {
            let result = change(memory);
            if *memory == PairMemory::default() {
                self.0.remove(pair);
            }
            return result;
        }
        let mut memory = PairMemory::default();
        let result = change(&mut memory);
        if memory != PairMemory::default() {
            self.0.insert(pair.clone(), memory);
        }
        result
    }

    /// The pairs that are not in step, in order, and why.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (&Pair, &PairCondition)> {
        self.0.iter().filter_map(|(pair, memory)| Some((pair, memory.condition.as_ref()?)))
    }
}

impl PairMemory {
    /// For how long it has waited; with `waits` unset it does no more.
    pub(super) fn waited(&mut self, waits: bool, now: Instant) -> Duration {
        if !waits {
            self.waiting_since = None;
        }
        let since = if waits { *self.waiting_since.get_or_insert(now) } else { now };
        now.saturating_duration_since(since)
    }

    /// `true` if that is news.
    pub(super) fn set_condition(&mut self, condition: Option<PairCondition>) -> bool {
        let news = self.condition != condition;
        self.condition = condition;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::status::PairState;

    #[test]
    fn a_pair_is_remembered_while_there_is_something_to_remember() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let pair = Pair { kind: 0, key: "ns/x".into() };
        let later = now + Duration::from_secs(7);
        assert!(memory.update(&pair, |pair| pair.waited(true, now)).is_zero());
        let condition = PairCondition::new(PairState::Waiting, "why");
        assert!(memory.update(&pair, |pair| pair.set_condition(Some(condition.clone()))));
        assert!(!memory.update(&pair, |pair| pair.set_condition(Some(condition.clone()))));
        assert_eq!(memory.conditions().collect::<Vec<_>>(), [(&pair, &condition)]);
        assert_eq!(memory.update(&pair, |pair| pair.waited(true, later)).as_secs(), 7);
        assert!(memory.update(&pair, |pair| pair.waited(false, later)).is_zero());
        assert!(memory.update(&pair, |pair| pair.set_condition(None)));
        assert_eq!(memory, Memory::default());
        assert!(!memory.update(&pair, |pair| pair.set_condition(None)), "nothing was known");
        assert_eq!(memory, Memory::default());
    }
}
