//! Limit for the deletions of one remote: a token bucket for each kind. Pure.
//!
//! If more deletions wait than a person makes at once, something went wrong at the source: all of that kind wait.

use std::{collections::BTreeMap, mem, sync::Arc, time::Instant};

use apiclient::rate_limiter::TokenBucket;

use crate::{
    model::key::{KindIndex, Pair},
    settings::OrphanSettings,
    sync::status::Reason,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeletionLimit {
    settings: OrphanSettings,
    kinds: BTreeMap<KindIndex, KindDeletions>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KindDeletions {
    bucket: TokenBucket,
    waiting: BTreeMap<Arc<str>, Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    since: Instant,
    /// Too many waited, or the source's Namespace or definition was being deleted, or gone.
    held: bool,
    /// It counts no more, also if its request fails.
    has_token: bool,
}

impl DeletionLimit {
    pub(crate) fn new(settings: OrphanSettings) -> Self {
        Self { settings, kinds: BTreeMap::new() }
    }

    /// Counts a deletion that waits. `drained`: when all tokens but one may have been used up.
    pub(crate) fn wait(
        &mut self,
        pair: &Pair,
        drained: Option<Instant>,
        now: Instant,
    ) -> Result<(), Reason> {
        let OrphanSettings { most, within, .. } = self.settings;
        let kind = self.kinds.entry(pair.kind).or_insert_with(|| {
            let full = |at| TokenBucket::new(within / most.max(1), most, at);
            let bucket = drained.map_or_else(|| full(now), |at| full(at).with_tokens(1));
            KindDeletions { bucket, waiting: BTreeMap::new() }
        });
        let new = Waiting { since: now, held: false, has_token: false };
        let has_token = kind.waiting.entry(pair.key.clone()).or_insert(new).has_token;
        let waiting = kind.waiting.values_mut().filter(|waiting| !waiting.has_token);
        if has_token || waiting.count() <= most as usize {
            return Ok(());
        }
        if let Some(own) = kind.waiting.get_mut(&pair.key) {
            own.held = true;
        }
        Err(Reason::TooMany)
    }

    /// Lets a deletion pass that waits. An `orphan` has its grace first. `swept`: the source's Namespace or definition
    /// is being deleted, or gone. Once nothing holds the deletion any more, its source may be back soon, and the grace
    /// starts over.
    pub(crate) fn pass(
        &mut self,
        pair: &Pair,
        swept: bool,
        orphan: bool,
        now: Instant,
    ) -> Result<(), Reason> {
        let kind = self.kinds.get_mut(&pair.kind);
        let Some((own, bucket)) =
            kind.and_then(|kind| Some((kind.waiting.get_mut(&pair.key)?, &mut kind.bucket)))
        else {
            return Err(Reason::TooMany);
        };
        if mem::replace(&mut own.held, swept) && !swept {
            own.since = now;
        }
        let grace = self.settings.grace.filter(|_| orphan).unwrap_or_default();
        let left = grace.saturating_sub(now.saturating_duration_since(own.since));
        match left.is_zero() {
            _ if swept => Err(Reason::Swept),
            false => Err(Reason::GracePeriod(left)),
            true if own.has_token => Ok(()),
            true => {
                bucket.take(now).map_err(Reason::NextToken)?;
                own.has_token = true;
                Ok(())
            }
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

    pub(crate) fn waiting(&self) -> usize {
        self.kinds.values().map(|kind| kind.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests;
