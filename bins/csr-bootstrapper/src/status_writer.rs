//! Writer of statuses: patches that are guarded by a version, at a pace that settles a disagreement with another writer
//! slowly.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    client::{Client, Patch},
    error::{Error, Result},
    resource::Target,
};
use log::Level;
use serde_json::{Map, Value, json};

/// The shortest time between two writes; it doubles after each write that did not settle the matter, so
/// that another writer's disagreement causes no loop.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest of these times: what a status says is at most this old.
const MAX_INTERVAL: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Changes the `status` of `object`, if it still is this version: a patch replaces whole lists.
pub(crate) fn patch_status(
    client: &Client,
    target: &Target<'_>,
    object: &Value,
    status: &Map<String, Value>,
) -> Result<Value> {
    let metadata =
        guard(object).ok_or_else(|| Error::BadPeer(format!("{target} has no resourceVersion")))?;
    let patch = json!({"metadata": metadata, "status": status});
    client.patch(&target.status(), Patch::Merge, &patch)
}

/// The metadata of a patch for this version of `object` alone; `None` if it has none.
fn guard(object: &Value) -> Option<Value> {
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str()?;
    Some(json!({"uid": metadata["uid"], "resourceVersion": version}))
}

/// The pace of the writes of one thing: pure.
pub(crate) struct WritePace {
    not_before: Instant,
    interval: Duration,
    backoff: Backoff,
}

impl WritePace {
    fn new(now: Instant) -> Self {
        Self { not_before: now, interval: MIN_INTERVAL, backoff: Backoff::new(MAX_BACKOFF) }
    }

    /// When a write may be made; `None` if none is needed, which settles the matter.
    pub(crate) fn due(&mut self, is_needed: bool, now: Instant) -> Option<Instant> {
        if !is_needed && now >= self.not_before {
            self.interval = MIN_INTERVAL;
        }
        is_needed.then_some(self.not_before)
    }

    /// Records a write that arrived; returns the failures before it.
    pub(crate) fn wrote(&mut self, now: Instant) -> u32 {
        self.step(now);
        self.backoff.succeeded()
    }

    /// Records a failed write; returns the level to log it at. After a conflict the watch brings the other write, and
    /// the next attempt keeps the pace of writes: a lagging watch must not lengthen the wait.
    pub(crate) fn failed(&mut self, error: &Error, now: Instant) -> Level {
        if matches!(error, Error::Conflict(_)) {
            self.step(now);
            return Level::Debug;
        }
        let retry = self.backoff.failed(error, now, fastrand::f64());
        self.not_before = now + retry.wait;
        retry.level()
    }

    fn step(&mut self, now: Instant) {
        self.not_before = now + self.interval;
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
    }
}

impl Default for WritePace {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_for_one_version_of_an_object() {
        let named = json!({"metadata": {"name": "x", "uid": "u-1", "resourceVersion": "7"}});
        assert_eq!(guard(&named), Some(json!({"uid": "u-1", "resourceVersion": "7"})));
        for odd in [json!(null), json!([]), json!({"metadata": {"uid": "u-1"}})] {
            assert_eq!(guard(&odd), None, "{odd}");
        }
    }

    #[test]
    fn disputed_status_is_written_every_10_s_at_most() {
        let mut now = Instant::now();
        let mut pace = WritePace::new(now);
        let mut gaps = Vec::new();
        for _ in 0..8 {
            pace.due(true, now);
            pace.wrote(now);
            gaps.push((pace.not_before - now).as_secs());
            now = pace.not_before;
        }
        assert_eq!(gaps, [1, 2, 4, 8, 10, 10, 10, 10]);
        pace.due(false, now - Duration::from_secs(1));
        pace.wrote(now);
        assert_eq!(pace.not_before, now + MAX_INTERVAL, "the echo alone settles nothing");
        now = pace.not_before;
        pace.due(false, now);
        pace.wrote(now);
        assert_eq!(pace.not_before, now + MIN_INTERVAL);
    }

    #[test]
    fn failed_write_backs_off_and_is_logged_once() {
        let now = Instant::now();
        let mut pace = WritePace::new(now);
        let refused = Error::Forbidden("no".into());
        assert_eq!([0; 2].map(|_| pace.failed(&refused, now)), [Level::Warn, Level::Debug]);
        assert!(pace.not_before <= now + Duration::from_secs(2));
        assert_eq!(pace.wrote(now), 2);
        assert_eq!(pace.failed(&Error::Conflict("other".into()), now), Level::Debug);
    }

    #[test]
    fn conflicts_do_not_delay_the_write_that_follows_them() {
        let mut now = Instant::now();
        let mut pace = WritePace::new(now);
        for _ in 0..20 {
            pace.failed(&Error::Conflict("other".into()), now);
            assert!(pace.not_before <= now + MAX_INTERVAL);
            now = pace.not_before;
        }
    }
}
