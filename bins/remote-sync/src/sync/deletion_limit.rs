//! Limit for the deletions of one remote: a token bucket for each kind. Pure.
//!
//! If more deletions wait than a person makes at once, something went wrong at the source: all of that kind wait.

use std::{collections::BTreeMap, mem, sync::Arc, time::Instant};

use apiclient::token_bucket::TokenBucket;

use crate::{
    model::key::{KindIndex, Pair},
    settings::OrphanSettings,
    sync::status::Reason,
};

/// The deletions of one remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeletionLimit {
    settings: OrphanSettings,
    kinds: BTreeMap<KindIndex, KindDeletions>,
}

/// The deletions of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KindDeletions {
    bucket: TokenBucket,
    waiting: BTreeMap<Arc<str>, Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    since: Instant,
    /// Why it is held, apart from its grace.
    hold: Option<Reason>,
    /// It has its token: an attempt that failed needs no second one.
    has_token: bool,
}

impl DeletionLimit {
    pub(crate) fn new(settings: OrphanSettings) -> Self {
        Self { settings, kinds: BTreeMap::new() }
    }

    /// Asks for a deletion. An `orphan` has its grace first. `restarted`: another process started within the limit's
    /// period, and may have used up all tokens but one.
    ///
    /// # Errors
    /// Why it has to wait.
    pub(crate) fn ask(
        &mut self,
        pair: &Pair,
        orphan: bool,
        restarted: bool,
        now: Instant,
    ) -> Result<(), Reason> {
        let OrphanSettings { grace, most, .. } = self.settings;
        let KindDeletions { bucket, waiting } = self.of(pair.kind, restarted, now);
        let new = Waiting { since: now, hold: None, has_token: false };
        let own = waiting.entry(pair.key.clone()).or_insert(new).clone();
        // More than the limit need not be counted.
        let enough = most as usize + 1;
        let number = waiting.values().filter(|waiting| !waiting.has_token).take(enough).count();
        let left =
            grace.unwrap_or_default().saturating_sub(now.saturating_duration_since(own.since));
        let verdict = if !own.has_token && number == enough {
            Err(Reason::TooMany)
        } else if orphan && !left.is_zero() {
            Err(Reason::GracePeriod(left))
        } else if own.has_token {
            Ok(())
        } else {
            bucket.take(now).map_err(Reason::NextToken)
        };
        let counts = |reason: &Reason| !matches!(reason, Reason::GracePeriod(_));
        // What surrounds the source holds it until that was read again.
        let of_more = own.hold.filter(|hold| hold.is_of_more());
        let hold = of_more.or_else(|| verdict.err().filter(counts));
        let has_token = own.has_token || verdict.is_ok();
        waiting.insert(pair.key.clone(), Waiting { since: own.since, hold, has_token });
        verdict
    }

    /// Holds a deletion with this verdict while the source is only a part of what is being deleted. Once that is back,
    /// the source may follow: `None` after a reason starts the grace over.
    ///
    /// # Errors
    /// Why it has to wait.
    pub(crate) fn hold(
        &mut self,
        pair: &Pair,
        reason: Option<Reason>,
        verdict: Result<(), Reason>,
        orphan: bool,
        now: Instant,
    ) -> Result<(), Reason> {
        let KindDeletions { waiting, .. } = self.of(pair.kind, false, now);
        let Some(own) = waiting.get_mut(&pair.key) else { return verdict };
        let held = mem::replace(&mut own.hold, reason);
        match reason {
            Some(reason) => Err(reason),
            None if held.is_some() => {
                waiting.remove(&pair.key);
                self.ask(pair, orphan, false, now)
            }
            None => verdict,
        }
    }

    /// Forgets a pair that needs no deletion (any more): should its source go again, its grace starts over.
    pub(crate) fn forget(&mut self, pair: &Pair) {
        if let Some(kind) = self.kinds.get_mut(&pair.kind) {
            kind.waiting.remove(&pair.key);
        }
    }

    /// Starts the grace periods of a kind over: a source that was missing may be back.
    pub(crate) fn restart_grace(&mut self, kind: KindIndex, now: Instant) {
        let waiting = self.kinds.get_mut(&kind).into_iter().flat_map(|it| it.waiting.values_mut());
        waiting.for_each(|waiting| waiting.since = now);
    }

    /// The number of deletions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.kinds.values().map(|kind| kind.waiting.len()).sum()
    }

    /// The number of deletions that wait for a person, and the reasons.
    pub(crate) fn held(&self) -> (usize, Vec<Reason>) {
        let waiting = self.kinds.values().flat_map(|kind| kind.waiting.values());
        let (mut number, mut reasons) = (0, Vec::new());
        for hold in waiting.filter_map(|waiting| waiting.hold).filter(|hold| hold.needs_people()) {
            number += 1;
            if !reasons.contains(&hold) {
                reasons.push(hold);
            }
        }
        (number, reasons)
    }

    fn of(&mut self, kind: KindIndex, restarted: bool, now: Instant) -> &mut KindDeletions {
        let OrphanSettings { most, within, .. } = self.settings;
        self.kinds.entry(kind).or_insert_with(|| {
            let bucket = TokenBucket::new(within / most.max(1), most, now);
            let bucket = if restarted { bucket.with_tokens(1) } else { bucket };
            KindDeletions { bucket, waiting: BTreeMap::new() }
        })
    }
}

#[cfg(test)]
mod tests;
