//! Prometheus' text format, and what every program says of itself and of its requests.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    fs,
    time::SystemTime,
};

use crate::client::Client;

/// Samples by family; printing gives the text of `/metrics`.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<(&'static str, &'static str), Vec<String>>);

impl Metrics {
    /// Adds a sample of a gauge.
    pub fn gauge(&mut self, name: &'static str, labels: &[(&str, &str)], value: impl Display) {
        self.add(name, "gauge", "", labels, value);
    }

    /// Adds a sample of a counter.
    pub fn counter(&mut self, name: &'static str, labels: &[(&str, &str)], value: impl Display) {
        self.add(name, "counter", "", labels, value);
    }

    /// Adds what is known of the process; `started` is when it began.
    pub fn process(&mut self, name: &str, started: SystemTime) {
        let labels = [("name", name), ("version", env!("CARGO_PKG_VERSION"))];
        self.gauge("sidecar_build_info", &labels, 1);
        self.gauge("process_start_time_seconds", &[], timestamp(started));
        self.gauge("process_resident_memory_bytes", &[], resident_bytes());
    }

    /// Adds the requests of a client and the clock of its server; `target` tells it from the others.
    pub fn client(&mut self, target: &str, client: &Client) {
        let host = client.host();
        self.gauge(
            "clock_skew_seconds",
            &[("host", &host), ("target", target)],
            client.clock_skew().unwrap_or(0),
        );
        for (method, code, answers) in client.answered() {
            let labels =
                [("code", &*code), ("host", &host), ("method", &method), ("target", target)];
            self.counter("rest_client_requests_total", &labels, answers.count);
            let name = "rest_client_request_duration_seconds";
            let sum = answers.time.as_secs_f64();
            self.add(name, "summary", "_sum", &labels, sum);
            self.add(name, "summary", "_count", &labels, answers.count);
        }
    }

    fn add(
        &mut self,
        name: &'static str,
        kind: &'static str,
        suffix: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        // Rust's own escapes for text are those of the format for all that our labels can hold.
        let labels: Vec<_> =
            labels.iter().map(|(label, text)| format!("{label}={text:?}")).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.0.entry((name, kind)).or_default().push(format!("{name}{suffix}{labels} {value}"));
    }
}

impl Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((name, kind), samples) in &self.0 {
            writeln!(f, "# TYPE {name} {kind}")?;
            for sample in samples {
                writeln!(f, "{sample}")?;
            }
        }
        Ok(())
    }
}

/// Seconds since the epoch.
pub fn timestamp(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_family_are_together() {
        let mut metrics = Metrics::default();
        metrics.counter("b_total", &[("x", "1")], 2);
        metrics.gauge("a", &[], 0.5);
        metrics.counter("b_total", &[("x", "\"2\"")], 3);
        let text = "# TYPE a gauge\na 0.5\n# TYPE b_total counter\nb_total{x=\"1\"} 2\nb_total{x=\"\\\"2\\\"\"} 3\n";
        assert_eq!(metrics.to_string(), text);
    }
}
