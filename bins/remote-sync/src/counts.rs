//! What the workers did, for `/metrics`.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use shared::{lock::lock, metrics::Metrics};

/// Counts by remote.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// By remote and what was written.
    writes: BTreeMap<(String, &'static str), u64>,
    /// Passes that failed, by remote and what their failure asks for.
    failures: BTreeMap<(String, &'static str), u64>,
    /// Sources that were older than what the target has, by remote.
    regressions: BTreeMap<String, u64>,
    /// From the event to the last write that it led to.
    spec_lag: Lag,
    status_lag: Lag,
}

#[derive(Debug, Default)]
struct Lag {
    sum: Duration,
    count: u64,
}

impl Counts {
    pub(crate) fn wrote(&self, remote: &str, what: &'static str) {
        *lock(&self.0).writes.entry((remote.to_owned(), what)).or_default() += 1;
    }

    pub(crate) fn failed(&self, remote: &str, class: &'static str) {
        *lock(&self.0).failures.entry((remote.to_owned(), class)).or_default() += 1;
    }

    pub(crate) fn regressed(&self, remote: &str) {
        *lock(&self.0).regressions.entry(remote.to_owned()).or_default() += 1;
    }

    pub(crate) fn spec_lag(&self, lag: Duration) {
        lock(&self.0).spec_lag.add(lag);
    }

    pub(crate) fn status_lag(&self, lag: Duration) {
        lock(&self.0).status_lag.add(lag);
    }

    /// The remote is gone, and its numbers with it.
    pub(crate) fn forget(&self, remote: &str) {
        let mut numbers = lock(&self.0);
        numbers.writes.retain(|(name, _), _| name != remote);
        numbers.failures.retain(|(name, _), _| name != remote);
        numbers.regressions.remove(remote);
    }

    pub(crate) fn metrics(&self, metrics: &mut Metrics) {
        let numbers = lock(&self.0);
        for ((remote, what), count) in &numbers.writes {
            let labels = [("cluster", remote.as_str()), ("what", *what)];
            metrics.counter("remote_sync_writes_total", &labels, count);
        }
        for ((remote, class), count) in &numbers.failures {
            let labels = [("cluster", remote.as_str()), ("class", *class)];
            metrics.counter("remote_sync_failures_total", &labels, count);
        }
        for (remote, count) in &numbers.regressions {
            let labels = [("cluster", remote.as_str())];
            metrics.counter("remote_sync_generation_regressed_total", &labels, count);
        }
        for (sum, count, lag) in [
            (
                "remote_sync_spec_lag_seconds_sum",
                "remote_sync_spec_lag_seconds_count",
                &numbers.spec_lag,
            ),
            (
                "remote_sync_status_lag_seconds_sum",
                "remote_sync_status_lag_seconds_count",
                &numbers.status_lag,
            ),
        ] {
            metrics.counter(sum, &[], lag.sum.as_secs_f64());
            metrics.counter(count, &[], lag.count);
        }
    }
}

impl Lag {
    fn add(&mut self, lag: Duration) {
        self.sum += lag;
        self.count += 1;
    }
}
