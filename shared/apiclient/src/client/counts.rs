//! Request metrics, by method and code. They outlive a client, so that the series of a cluster persist while it is
//! unreachable.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::lock::lock;

/// The bounds of client-go's histogram, in seconds (component-base `metrics/prometheus/restclient`).
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Counts of one server, shared by its clients and the metrics.
#[derive(Clone, Debug, Default)]
pub struct RequestMetrics(Arc<Mutex<RequestCounts>>);

#[derive(Clone, Debug, Default)]
pub struct RequestCounts {
    pub host: String,
    /// Answers by method and code; the code is `<error>` if there was none, as in client-go.
    pub answers: BTreeMap<(String, String), u64>,
    /// The time to the response headers, by method.
    pub durations: BTreeMap<String, Histogram>,
    /// Reloads of credentials: valid and invalid ones.
    reloads: (u64, u64),
}

impl RequestMetrics {
    pub fn counts(&self) -> RequestCounts {
        lock(&self.0).clone()
    }

    pub fn reloads(&self) -> (u64, u64) {
        lock(&self.0).reloads
    }

    pub fn add_reload(&self, is_valid: bool) {
        let (valid, invalid) = &mut lock(&self.0).reloads;
        *(if is_valid { valid } else { invalid }) += 1;
    }

    pub(crate) fn add(&self, method: &str, code: Option<u16>, time: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let mut counts = lock(&self.0);
        *counts.answers.entry((method.to_owned(), code)).or_default() += 1;
        let duration = counts.durations.entry(method.to_owned());
        duration.or_insert_with(|| Histogram::new(&SECONDS)).add(time.as_secs_f64());
    }

    pub(crate) fn count_for(&self, host: &str) {
        let mut counts = lock(&self.0);
        if counts.host != host {
            let (host, reloads) = (host.to_owned(), counts.reloads);
            *counts = RequestCounts { host, reloads, ..RequestCounts::default() };
        }
    }
}

/// Histogram as in Prometheus.
#[derive(Clone, Debug)]
pub struct Histogram {
    pub bounds: &'static [f64],
    /// One count for each bound, and one for values above all bounds.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub fn add(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }
}
