//! Probes of the spoke's API server, for its health and its version, and the Events on the hub about its availability.

use std::{
    mem,
    time::{Duration, Instant},
};

use apiclient::{client::Client, event::EventRecord, log_line::quoted, log_object};
use log::Level;
use serde_json::Value;

use super::MANAGED_CLUSTERS;
use crate::conditions::{Condition, has};

pub(super) const AVAILABLE: &str = "ManagedClusterConditionAvailable";
/// How long a failure must last before it is reported (ocm
/// `pkg/registration/spoke/managedcluster/available_reconcile.go`, failureThreshold).
const FAILURE_THRESHOLD: Duration = Duration::from_secs(20);
/// The interval of probes during a failure (upstream's healthCheckRetryInterval).
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ApiServerHealth {
    /// Not probed yet, or failing for too short a time to be reported.
    #[default]
    Unknown,
    Ok,
    Failing(String),
}

impl ApiServerHealth {
    pub(super) fn condition(&self) -> Option<Condition> {
        let (status, reason, message) = match self {
            Self::Unknown => return None,
            Self::Ok => ("True", "ManagedClusterAvailable", "Managed cluster is available"),
            Self::Failing(message) => {
                ("False", "ManagedClusterKubeAPIServerUnavailable", message.as_str())
            }
        };
        Some(Condition::new(status, reason, message.to_owned()))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Probes {
    pub(super) health: ApiServerHealth,
    failing_since: Option<Instant>,
    /// Status code of the last answer; 0 without an answer.
    code: u16,
    probed: Option<Instant>,
    /// `gitVersion` of the spoke, once known.
    pub(super) version: Option<String>,
}

impl Probes {
    /// Returns when the next probe is due: each `period`, or sooner during a failure.
    pub(crate) fn due(&self, period: Duration, now: Instant) -> Instant {
        let wait = self.failing_since.map_or(period, |_| period.min(RETRY_INTERVAL));
        self.probed.map_or(now, |probed| probed + wait)
    }

    pub(crate) fn probe(&mut self, spoke: &Client) {
        let (code, text) = spoke.text("/livez").unwrap_or_else(|error| (0, error.to_string()));
        self.record(code, &text, Instant::now());
        if code == 200
            && let Ok(answer) = spoke.document("/version")
        {
            self.version = git_version(&answer).or_else(|| self.version.take());
        }
    }

    fn record(&mut self, code: u16, text: &str, now: Instant) {
        self.probed = Some(now);
        let is_same = mem::replace(&mut self.code, code) == code;
        if code == 200 {
            self.failing_since = None;
            if let ApiServerHealth::Failing(_) = mem::replace(&mut self.health, ApiServerHealth::Ok)
            {
                log::info!("the spoke's API server is healthy again");
            }
            return;
        }
        let since = *self.failing_since.get_or_insert(now);
        let message =
            format!("The kube-apiserver is not ok, status code: {code}, {}", quoted(text));
        log::debug!(error = message; "a probe of the spoke's API server failed");
        self.health = match mem::take(&mut self.health) {
            // Only the wording may differ, which is not worth a write after each probe.
            health @ ApiServerHealth::Failing(_) if is_same => health,
            _ if now < since + FAILURE_THRESHOLD => ApiServerHealth::Unknown,
            _ => {
                log::warn!(error = message; "the spoke's API server is not healthy");
                ApiServerHealth::Failing(message)
            }
        };
    }
}

fn git_version(answer: &Value) -> Option<String> {
    let version = quoted(answer["gitVersion"].as_str()?);
    (!version.is_empty()).then_some(version)
}

/// Writes the Event for the change of a ManagedCluster from `before` to `after`; a failure is only logged.
pub(super) fn write_event(client: &Client, before: &Value, after: &Value) {
    let name = after["metadata"]["name"].as_str().unwrap_or_default();
    let Some(record) = event(name, before, after) else { return };
    // As in upstream: the reference to a cluster-scoped object has the Event's namespace.
    let target = MANAGED_CLUSTERS.object(name, name);
    if let Err(error) = record.write(client, &target, after["metadata"]["uid"].as_str()) {
        log_object!(Level::Debug, target, error:% = error; "the Event is not written");
    }
}

/// Returns the Event in upstream's words (ocm `pkg/registration/spoke/managedcluster/status_controller.go`,
/// sendAvailableConditionEvent).
fn event(name: &str, before: &Value, after: &Value) -> Option<EventRecord> {
    let becomes = |status| has(after, AVAILABLE, status) && !has(before, AVAILABLE, status);
    let (reason, warning, more) = if becomes("True") {
        ("Available", false, ", and it is managed by the hub cluster. Its apieserver is available")
    } else if becomes("False") {
        ("Unavailable", true, ". However, its Kube API server is unavailable")
    } else {
        return None;
    };
    let note = format!("The {name} is successfully imported{more}");
    Some(EventRecord { controller: "csr-bootstrapper", reason, note, warning })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Upstream's available_threshold and available_reset.
    #[test]
    fn failure_is_reported_once_it_has_lasted() {
        let failing = |message: &str| {
            ApiServerHealth::Failing(format!(
                "The kube-apiserver is not ok, status code: {message}"
            ))
        };
        let (unknown, ok) = (ApiServerHealth::Unknown, ApiServerHealth::Ok);
        let (mut probes, start) = (Probes::default(), Instant::now());
        for (second, code, text, expected) in [
            (0, 200, "ok", ok.clone()),
            // Time counts, not the number of failures.
            (60, 500, "etcd failed", unknown.clone()),
            (62, 500, "etcd failed", unknown.clone()),
            (79, 500, "etcd failed", unknown.clone()),
            (80, 500, "[-]etcd failed\n", failing("500, [-]etcd failed")),
            // The same failure, then another one.
            (85, 500, "[-]etcd failed, request 2\n", failing("500, [-]etcd failed")),
            (90, 0, "no answer in time", failing("0, no answer in time")),
            // One success is enough, and the time counts from the next failure on.
            (91, 200, "ok", ok),
            (100, 500, "", unknown.clone()),
            (119, 500, "", unknown),
            (120, 500, "", failing("500, ")),
        ] {
            probes.record(code, text, start + seconds(second));
            assert_eq!(probes.health, expected, "{second}");
        }
    }

    #[test]
    fn looks_are_a_period_apart_and_closer_when_something_is_wrong() {
        let (mut probes, now) = (Probes::default(), Instant::now());
        assert_eq!(probes.due(PERIOD, now), now);
        probes.record(200, "ok", now);
        assert_eq!(probes.due(PERIOD, now), now + PERIOD);
        probes.record(500, "", now);
        assert_eq!(probes.due(PERIOD, now), now + RETRY_INTERVAL);
        assert_eq!(probes.due(seconds(1), now), now + seconds(1));
    }

    #[test]
    fn the_version_is_git_version() {
        let answer = json!({"major": "1", "gitVersion": "v1.34.3"});
        assert_eq!(git_version(&answer), Some("v1.34.3".to_owned()));
        for odd in [json!({}), json!([]), json!({"gitVersion": ""}), json!({"gitVersion": 1})] {
            assert_eq!(git_version(&odd), None, "{odd}");
        }
    }

    /// A ManagedCluster with this status of its availability.
    fn cluster(status: &str) -> Value {
        json!({"status": {"conditions": [{"type": AVAILABLE, "status": status}]}})
    }

    #[test]
    fn event_tells_a_change_of_availability_in_upstreams_words() {
        let good = "The c1 is successfully imported, and it is managed by the hub cluster. Its apieserver is available";
        let bad = "The c1 is successfully imported. However, its Kube API server is unavailable";
        for (before, after, expected) in [
            ("", "True", Some(("Available", false, good))),
            ("Unknown", "True", Some(("Available", false, good))),
            ("False", "True", Some(("Available", false, good))),
            ("True", "False", Some(("Unavailable", true, bad))),
            ("", "False", Some(("Unavailable", true, bad))),
            ("True", "True", None),
            ("False", "False", None),
            ("True", "Unknown", None),
        ] {
            let found = event("c1", &cluster(before), &cluster(after));
            let found = found.as_ref().map(|it| (it.reason, it.warning, &*it.note));
            assert_eq!(found, expected);
        }
    }
}
