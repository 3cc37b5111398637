//! Memory of pairs that their objects do not hold: pure. A pair with nothing to remember takes no room.
//!
//! Two maps of pairs are elsewhere. Orphans count together: their number decides about each of them, and a new
//! session clears them all ([`orphan`](crate::sync::orphan)). Failures belong to the workqueue, as
//! client-go's rate limiter has its own map next to the queue ([`workqueue`](crate::sync::workqueue)).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    model::key::Pair,
    sync::{observed::SettledDiff, status::PairCondition},
};

/// The memory of one remote's pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory(BTreeMap<Pair, PairMemory>);

/// The memory of one pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PairMemory {
    pub(super) settled: SettledDiff,
    /// The source has left the lists, for a reason that is not known yet.
    pub(super) unlisted: bool,
    /// Its Secrets were found as they were uploaded.
    pub(super) secrets_checked: bool,
    /// Since when it has waited for a deletion to finish.
    pub(super) waiting_since: Option<Instant>,
    /// Set while it is not in sync.
    condition: Option<PairCondition>,
}

impl Memory {
    pub(super) fn get(&self, pair: &Pair) -> Option<&PairMemory> {
        self.0.get(pair)
    }

    /// Changes the memory of a pair, and forgets the pair if nothing is left.
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

    /// Forgets that Secrets were found as they were uploaded.
    pub(super) fn forget_secrets(&mut self) {
        self.0.retain(|_, memory| {
            memory.secrets_checked = false;
            *memory != PairMemory::default()
        });
    }

    /// The pairs that are not in sync, in order.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (&Pair, &PairCondition)> {
        self.0.iter().filter_map(|(pair, memory)| Some((pair, memory.condition.as_ref()?)))
    }
}

impl PairMemory {
    /// Records whether it waits; returns for how long it has.
    pub(super) fn waited(&mut self, waits: bool, now: Instant) -> Duration {
        if !waits {
            self.waiting_since = None;
        }
        let since = if waits { *self.waiting_since.get_or_insert(now) } else { now };
        now.saturating_duration_since(since)
    }

    /// `true` if it changed.
    pub(super) fn set_condition(&mut self, condition: Option<PairCondition>) -> bool {
        let news = self.condition != condition;
        self.condition = condition;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::key::KindIndex, sync::status::PairState};

    #[test]
    fn a_pair_is_remembered_while_there_is_something_to_remember() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let pair = Pair { kind: KindIndex::FIRST, key: "ns/x".into() };
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
