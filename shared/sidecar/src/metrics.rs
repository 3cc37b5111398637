//! Metrics in Prometheus' text format, and the ones of every program: about its process and its requests.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write},
    fs,
    time::{Duration, SystemTime},
};

use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use apiclient::client::{Client, Histogram, RequestMetrics};

use crate::{REVISION, VERSION};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

impl Family {
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "gauge", help }
    }

    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help }
    }

    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "histogram", help }
    }
}

/// Samples by family; `Display` writes the text of `/metrics`.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<Family, String>);

const REQUESTS: Family = Family::counter(
    "rest_client_requests_total",
    "Number of HTTP requests, partitioned by status code, method, and host.",
);
const DURATION: Family = Family::histogram(
    "rest_client_request_duration_seconds",
    "Request latency in seconds, up to the response headers. Broken down by verb and host.",
);
const SKEW: Family = Family::gauge(
    "sidecar_clock_skew_seconds",
    "Seconds by which the server's clock is ahead of ours, from its last response.",
);

pub const LAST_SUCCESS: Family = Family::gauge(
    "sidecar_last_success_timestamp_seconds",
    "Time of the program's last success, in seconds since the epoch.",
);
pub const FAILURES: Family =
    Family::gauge("sidecar_consecutive_failures", "Failures since the last success.");
/// Reloads of credentials, with controller-runtime's names; also the next one.
pub const CERTIFICATE_READS: Family =
    Family::counter("certwatcher_read_certificate_total", "Total number of certificate reads.");
pub const CERTIFICATE_ERRORS: Family = Family::counter(
    "certwatcher_read_certificate_errors_total",
    "Total number of certificate read errors.",
);
pub const CERTIFICATE_EXPIRES: Family = Family::gauge(
    "sidecar_certificate_expiration_timestamp_seconds",
    "Expiry of the client certificate for the hub, in seconds since the epoch.",
);

impl Metrics {
    pub fn add(&mut self, family: Family, labels: &[(&str, &str)], value: impl Display) {
        self.sample(family, "", labels, value);
    }

    fn add_histogram(&mut self, family: Family, labels: &[(&str, &str)], values: &Histogram) {
        let mut count = 0;
        for (index, part) in values.counts.iter().enumerate() {
            count += part;
            let bound =
                values.bounds.get(index).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            self.sample(family, "_bucket", &[labels, &[("le", &bound)]].concat(), count);
        }
        self.sample(family, "_sum", labels, values.sum);
        self.sample(family, "_count", labels, count);
    }

    /// Adds Prometheus' standard set about the process, which began at `started`.
    pub fn add_process(&mut self, name: &str, started: SystemTime) {
        let build = "The program, its version and its commit; always 1.";
        let labels = [("name", name), ("version", VERSION), ("revision", REVISION)];
        self.add(Family::gauge("sidecar_build_info", build), &labels, 1);
        let mut gauge = |name, help, value| self.add(Family::gauge(name, help), &[], value);
        let start = "Start time of the process since unix epoch in seconds.";
        gauge("process_start_time_seconds", start, timestamp(started));
        // Minus the descriptor of this read.
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count).saturating_sub(1);
        gauge("process_open_fds", "Number of open file descriptors.", files as f64);
        if let Some(most) = getrlimit(Resource::Nofile).current {
            gauge("process_max_fds", "Maximum number of open file descriptors.", most as f64);
        }
        let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
        let help = "Total user and system CPU time spent in seconds.";
        self.add(Family::counter("process_cpu_seconds_total", help), &[], cpu.as_secs_f64());
        // In pages: virtual memory, then resident memory (man 5 proc_pid_statm).
        let memory = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = memory.split(' ').map_while(|pages| pages.parse::<u64>().ok());
        let families = [
            ("process_virtual_memory_bytes", "Virtual memory size in bytes."),
            ("process_resident_memory_bytes", "Resident memory size in bytes."),
        ];
        for ((name, help), pages) in families.into_iter().zip(pages) {
            self.add(Family::gauge(name, help), &[], pages * page_size() as u64);
        }
    }

    /// Adds the requests of a client and the clock of its server, with the label `target`.
    pub fn add_client(&mut self, target: &str, client: &Client) {
        if let Some(clock) = client.clock() {
            self.add(SKEW, &[("host", &client.host()), ("target", target)], clock.ahead);
        }
        self.add_requests(target, client.requests());
    }

    /// Adds the requests to a server, which may have no client at present.
    pub fn add_requests(&mut self, target: &str, requests: &RequestMetrics) {
        let counts = requests.counts();
        let host = ("host", counts.host.as_str());
        for ((method, code), count) in &counts.answers {
            let labels = [("code", &**code), host, ("method", method), ("target", target)];
            self.add(REQUESTS, &labels, count);
        }
        for (method, durations) in &counts.durations {
            // client-go calls the method `verb` here.
            let labels = [host, ("target", target), ("verb", method)];
            self.add_histogram(DURATION, &labels, durations);
        }
    }

    fn sample(
        &mut self,
        family: Family,
        suffix: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        let text = self.0.entry(family).or_default();
        text.push_str(family.name);
        text.push_str(suffix);
        for (index, (label, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            // Writing into a String cannot fail.
            let _ = write!(text, "{before}{label}=\"{}\"", escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{end} {value}");
    }
}

impl Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (Family { name, kind, help }, samples) in &self.0 {
            write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")?;
        }
        Ok(())
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

pub fn timestamp(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Family = Family::gauge("a", "First.");
    const B: Family = Family::counter("b_total", "Second.");
    const C: Family = Family::histogram("c_seconds", "Third.");

    #[test]
    fn samples_of_a_family_are_together() {
        let mut metrics = Metrics::default();
        metrics.add(B, &[("x", "1"), ("y", "")], 2);
        metrics.add(A, &[], 0.5);
        metrics.add(B, &[("x", "\"2\"\\\n\u{200b}")], 3);
        let text = "# HELP a First.\n# TYPE a gauge\na 0.5\n\
            # HELP b_total Second.\n# TYPE b_total counter\n\
            b_total{x=\"1\",y=\"\"} 2\nb_total{x=\"\\\"2\\\"\\\\\\n\u{200b}\"} 3\n";
        assert_eq!(metrics.to_string(), text);
    }

    #[test]
    fn the_buckets_of_a_histogram_are_cumulative() {
        let (mut metrics, mut values) = (Metrics::default(), Histogram::new(&[0.1, 1.0]));
        [0.1, 0.5, 0.2, 7.0].into_iter().for_each(|value| values.add(value));
        metrics.add_histogram(C, &[("x", "1")], &values);
        let text = "# HELP c_seconds Third.\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{x=\"1\",le=\"0.1\"} 1\nc_seconds_bucket{x=\"1\",le=\"1\"} 3\n\
            c_seconds_bucket{x=\"1\",le=\"+Inf\"} 4\nc_seconds_sum{x=\"1\"} 7.8\n\
            c_seconds_count{x=\"1\"} 4\n";
        assert_eq!(metrics.to_string(), text);
    }

    #[test]
    fn the_process_is_described_by_the_standard_set() {
        let mut metrics = Metrics::default();
        metrics.add_process("x", SystemTime::UNIX_EPOCH);
        let text = metrics.to_string();
        for name in [
            "cpu_seconds_total",
            "open_fds",
            "max_fds",
            "resident_memory_bytes",
            "virtual_memory_bytes",
        ] {
            let sample = text.lines().find(|line| line.starts_with(&format!("process_{name} ")));
            let value = sample.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            assert!(value.is_some_and(|value| value > 0.0), "{name} in\n{text}");
        }
    }
}
