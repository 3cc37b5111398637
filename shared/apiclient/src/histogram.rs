//! Histogram of values, as Prometheus wants durations.

#[derive(Clone, Debug)]
pub struct Histogram {
    pub bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
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
