//! Memory of pairs that their objects do not hold: pure. A pair with nothing to remember takes no room.
//!
//! Two maps of pairs are elsewhere. Deletions that wait count together: their number decides about each of them, and a
//! new session clears them all ([`gate`](crate::sync::gate)). Failures belong to the workqueue, as
//! client-go's rate limiter has its own map next to the queue ([`workqueue`](crate::sync::workqueue)).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    cache::store::Answer,
    model::{
        key::{KindIndex, Pair},
        object::{SourceObject, TargetNamespace, TargetObject, TargetSecret},
    },
    sync::{fighting::LastWrites, observed::SettledDiff, status::PairCondition},
};

/// The memory of one remote's pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory(BTreeMap<Pair, PairMemory>);

/// The memory of one pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PairMemory {
    pub(super) settled: SettledDiff,
    /// What the target's server did not keep of what is settled, in words.
    pub(super) altered: Option<Box<str>>,
    pub(super) writes: LastWrites,
    /// Attempts in a row that were outdated although both objects had been read again before them.
    pub(super) stale: u32,
    /// What its own requests showed.
    answers: Option<Box<Answers>>,
    /// Its Secrets were found as they were uploaded.
    pub(super) secrets_checked: bool,
    /// Since when it has waited for a deletion to finish.
    pub(super) waiting_since: Option<Instant>,
    /// Set while it is not in sync, with the time since when it has not been.
    condition: Option<(PairCondition, Instant)>,
}

/// What requests of a pair showed and its stores do not have yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Answers {
    pub(super) source: Option<Answer<SourceObject>>,
    pub(super) target: Option<Answer<TargetObject>>,
    pub(super) namespace: Option<Answer<TargetNamespace>>,
    /// By their position in `-local-secret-name`.
    pub(super) secrets: BTreeMap<usize, Option<Answer<TargetSecret>>>,
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

    /// The pairs of a kind with [`Answers`].
    pub(super) fn answered(&self, kind: KindIndex) -> Vec<Pair> {
        let all =
            self.0.iter().filter(|(pair, memory)| pair.kind == kind && memory.answers.is_some());
        all.map(|(pair, _)| pair.clone()).collect()
    }

    /// Forgets that Secrets were found as they were uploaded.
    pub(super) fn forget_secrets(&mut self) {
        self.change_all(&mut |memory| memory.secrets_checked = false);
    }

    /// Forgets of all pairs what matters for a short time only.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.change_all(&mut |memory| memory.writes.forget_old(now));
    }

    /// Changes the memory of all pairs, and forgets those of which nothing is left.
    fn change_all(&mut self, change: &mut dyn FnMut(&mut PairMemory)) {
        self.0.retain(|_, memory| {
            change(memory);
            *memory != PairMemory::default()
        });
    }

    /// Makes pairs due whose last write was altered, of one kind or of all; returns them.
    pub(super) fn retry_altered(&mut self, kind: Option<KindIndex>) -> Vec<Pair> {
        let mut due = Vec::new();
        for (pair, memory) in &mut self.0 {
            if memory.altered.is_some() && kind.is_none_or(|kind| kind == pair.kind) {
                // The condition stays until the result is known.
                (memory.altered, memory.settled) = (None, memory.settled.unsettled());
                memory.writes = LastWrites::default();
                due.push(pair.clone());
            }
        }
        due
    }

    /// The pairs that are not in sync, in order.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (&Pair, &PairCondition)> {
        let all = self.0.iter();
        all.filter_map(|(pair, memory)| Some((pair, &memory.condition.as_ref()?.0)))
    }
}

impl PairMemory {
    pub(super) fn with_answers<T>(&mut self, change: impl FnOnce(&mut Answers) -> T) -> T {
        let mut answers = self.answers.take().unwrap_or_default();
        let result = change(&mut answers);
        answers.secrets.retain(|_, answer| answer.is_some());
        self.answers = Some(answers).filter(|answers| **answers != Answers::default());
        result
    }

    /// Forgets what was written: both objects are gone.
    pub(super) fn forget_writes(&mut self) {
        (self.settled, self.altered) = (SettledDiff::default(), None);
        self.writes = LastWrites::default();
    }

    /// Records what the target's server did not keep when it was written last.
    pub(super) fn set_altered(&mut self, altered: Option<String>) {
        self.settled.altered = altered.is_some();
        self.altered = altered.map(Into::into);
    }

    /// Records whether it waits; returns for how long it has.
    pub(super) fn waited(&mut self, waits: bool, now: Instant) -> Duration {
        if !waits {
            self.waiting_since = None;
        }
        let since = if waits { *self.waiting_since.get_or_insert(now) } else { now };
        now.saturating_duration_since(since)
    }

    /// `true` if it changed.
    pub(super) fn set_condition(&mut self, condition: Option<PairCondition>, now: Instant) -> bool {
        let (before, since) = self.condition.take().unzip();
        let news = before != condition;
        self.condition = condition.map(|condition| (condition, since.unwrap_or(now)));
        news
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::{model::key::KindIndex, sync::status::PairState};

    #[test]
    fn a_pair_is_remembered_while_there_is_something_to_remember() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let pair = Pair { kind: KindIndex::FIRST, key: "ns/x".into() };
        let later = now + Duration::from_secs(7);
        assert!(memory.update(&pair, |pair| pair.waited(true, now)).is_zero());
        let condition = PairCondition::new(PairState::Waiting, false, "why");
        let failing = PairCondition::new(PairState::Failing, false, "why");
        let steps = [(&condition, now, true), (&condition, later, false), (&failing, later, true)];
        for (condition, at, news) in steps.into_iter().chain([(&condition, later, true)]) {
            let set = |pair: &mut PairMemory| pair.set_condition(Some(condition.clone()), at);
            assert_eq!(memory.update(&pair, set), news);
        }
        assert_eq!(memory.conditions().collect::<Vec<_>>(), [(&pair, &condition)]);
        assert_eq!(memory.update(&pair, |pair| pair.waited(true, later)).as_secs(), 7);
        assert!(memory.update(&pair, |pair| pair.waited(false, later)).is_zero());
        assert!(memory.update(&pair, |pair| pair.set_condition(None, later)));
        assert_eq!(memory, Memory::default());
        assert!(!memory.update(&pair, |pair| pair.set_condition(None, later)), "nothing was known");
        assert_eq!(memory, Memory::default());
    }

    #[test]
    fn an_altered_write_is_due_again_and_its_status_is_not() {
        let mut memory = Memory::default();
        let pair = |kind, key: &str| Pair { kind, key: key.into() };
        let [one, other, fine] = [
            pair(KindIndex::FIRST, "ns/x"),
            pair(KindIndex::SECOND, "ns/x"),
            pair(KindIndex::FIRST, "ns/y"),
        ];
        for (pair, altered) in [(&one, true), (&other, true), (&fine, false)] {
            memory.update(pair, |memory| {
                memory.settled.content = Some((1, 2));
                memory.settled.status = Some((3, 4));
                memory.set_altered(altered.then(|| "why".to_owned()));
            });
        }
        assert_eq!(memory.retry_altered(Some(KindIndex::SECOND)), slice::from_ref(&other));
        assert_eq!(memory.retry_altered(None), slice::from_ref(&one));
        let settled = |pair| memory.get(pair).unwrap().settled;
        let status = SettledDiff { status: Some((3, 4)), ..SettledDiff::default() };
        assert_eq!([settled(&one), settled(&other)], [status; 2]);
        assert_eq!(settled(&fine), SettledDiff { content: Some((1, 2)), ..status });
    }

    #[test]
    fn writes_are_remembered_while_somebody_may_undo_them() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let pair = Pair { kind: KindIndex::FIRST, key: "ns/x".into() };
        memory.update(&pair, |memory| memory.writes.update.wrote(7, now));
        memory.forget_old(now + Duration::from_secs(119));
        assert!(memory.get(&pair).is_some());
        memory.forget_old(now + Duration::from_secs(120));
        assert_eq!(memory, Memory::default());
    }
}
