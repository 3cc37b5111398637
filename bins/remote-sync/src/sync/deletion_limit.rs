//! Limit for the deletions of one remote: a token bucket for each kind. Pure.
//!
//! More waiting deletions than a person requests at once indicate a fault at the source: all of the kind are held.

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
    /// Too many waited, or the source's Namespace was terminating or gone, or its definition was terminating.
    held: bool,
    /// Once it has a token, the deletion no longer counts as waiting, even if its request fails.
    has_token: bool,
}

impl DeletionLimit {
    pub(crate) fn new(settings: OrphanSettings) -> Self {
        Self { settings, kinds: BTreeMap::new() }
    }

    /// Registers a waiting deletion. `drained`: when all tokens but one may have been used.
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

    /// Lets a waiting deletion pass, an `orphan` only after the grace period. `swept`: the source's Namespace is
    /// terminating or gone, or its definition is terminating. When a hold ends, the grace period starts over, as the
    /// source may return soon.
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

    /// Forgets a pair without a deletion: if its source disappears again, the grace period starts over.
    pub(crate) fn forget(&mut self, pair: &Pair) {
        if let Some(kind) = self.kinds.get_mut(&pair.kind) {
            kind.waiting.remove(&pair.key);
        }
    }

    /// Restarts the grace periods of a kind: a missing source may be back.
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
