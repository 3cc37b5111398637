//! Limit for the deletions of one remote: a token bucket for each kind. Pure.
//!
//! If more deletions wait than a person makes at once, something went wrong at the source: all of that kind wait.
//! Namespaces count as a kind of their own.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use apiclient::token_bucket::TokenBucket;

use crate::{
    model::key::{KindIndex, Pair},
    settings::OrphanSettings,
    sync::status::Reason,
};

/// What counts together, and the key of a pair: the targets of a kind, or with `None` namespaces.
pub(crate) type Counted<'a> = (Option<KindIndex>, &'a Arc<str>);

/// The deletions of one remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeletionLimit {
    settings: OrphanSettings,
    kinds: Vec<(Option<KindIndex>, KindDeletions)>,
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
        Self { settings, kinds: Vec::new() }
    }

    /// Asks for a deletion. An `orphan` has its grace first. `restarted`: another process started within the limit's
    /// period, and may have used up all tokens but one.
    ///
    /// # Errors
    /// Why it has to wait.
    pub(crate) fn ask(
        &mut self,
        (counted, key): Counted<'_>,
        orphan: bool,
        restarted: bool,
        now: Instant,
    ) -> Result<(), Reason> {
        let OrphanSettings { grace, most, .. } = self.settings;
        let KindDeletions { bucket, waiting } = self.of(counted, restarted, now);
        let new = Waiting { since: now, hold: None, has_token: false };
        let own = waiting.entry(key.clone()).or_insert(new).clone();
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
        let hold = match verdict {
            // Until what surrounds the source was read again.
            Ok(()) => own.hold.filter(|hold| hold.is_of_more()),
            Err(reason) => Some(reason).filter(|reason| !matches!(reason, Reason::GracePeriod(_))),
        };
        let has_token = own.has_token || verdict.is_ok();
        waiting.insert(key.clone(), Waiting { since: own.since, hold, has_token });
        verdict
    }

    /// Holds a deletion that has passed the limit while the source is only a part of what is being deleted. Once that
    /// is back, the source may follow: `None` after a reason starts over.
    ///
    /// # Errors
    /// Why it has to wait.
    pub(crate) fn hold(
        &mut self,
        counted: Counted<'_>,
        reason: Option<Reason>,
        orphan: bool,
        now: Instant,
    ) -> Result<(), Reason> {
        let KindDeletions { waiting, .. } = self.of(counted.0, false, now);
        let Some(own) = waiting.get_mut(counted.1) else { return Ok(()) };
        let held = std::mem::replace(&mut own.hold, reason);
        match reason {
            Some(reason) => Err(reason),
            None if held.is_some() => {
                waiting.remove(counted.1);
                self.ask(counted, orphan, false, now)
            }
            None => Ok(()),
        }
    }

    /// Forgets a pair that needs no deletion (any more): should its source go again, its grace starts over.
    pub(crate) fn forget(&mut self, pair: &Pair) {
        for (_, kind) in self.kinds.iter_mut().filter(|(of, _)| of.is_none_or(|of| of == pair.kind))
        {
            kind.waiting.remove(&pair.key);
        }
    }

    /// Starts all grace periods over: a source that was missing may be back.
    pub(crate) fn restart_grace(&mut self, now: Instant) {
        let waiting = self.kinds.iter_mut().flat_map(|(_, kind)| kind.waiting.values_mut());
        waiting.for_each(|waiting| waiting.since = now);
    }

    /// The number of deletions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.kinds.iter().map(|(_, kind)| kind.waiting.len()).sum()
    }

    /// The number of deletions that wait for a person, and the reasons.
    pub(crate) fn held(&self) -> (usize, Vec<Reason>) {
        let waiting = self.kinds.iter().flat_map(|(_, kind)| kind.waiting.values());
        let (mut number, mut reasons) = (0, Vec::new());
        for hold in waiting.filter_map(|waiting| waiting.hold).filter(|hold| hold.needs_people()) {
            number += 1;
            if !reasons.contains(&hold) {
                reasons.push(hold);
            }
        }
        (number, reasons)
    }

    fn of(&mut self, of: Option<KindIndex>, restarted: bool, now: Instant) -> &mut KindDeletions {
        let known = self.kinds.iter().position(|(kind, _)| *kind == of);
        let index = known.unwrap_or_else(|| {
            let OrphanSettings { most, within, .. } = self.settings;
            let bucket = TokenBucket::new(within / most.max(1), most, now);
            let bucket = if restarted { bucket.with_tokens(1) } else { bucket };
            self.kinds.push((of, KindDeletions { bucket, waiting: BTreeMap::new() }));
            self.kinds.len() - 1
        });
        &mut self.kinds[index].1
    }
}

#[cfg(test)]
mod tests;
