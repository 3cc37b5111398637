//! Probes of the spoke's API server, for its health and its version.

use std::{
    mem,
    time::{Duration, Instant},
};

use apiclient::{client::Client, log_line::quoted};
use serde_json::Value;

use crate::conditions::Condition;

pub(super) const AVAILABLE: &str = "ManagedClusterConditionAvailable";
/// A failure has to last this long before it is reported (ocm
/// `pkg/registration/spoke/managedcluster/available_reconcile.go`, failureThreshold).
const FAILURE_THRESHOLD: Duration = Duration::from_secs(20);
/// The next probe while something is wrong (there, healthCheckRetryInterval).
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
    health: ApiServerHealth,
    failing_since: Option<Instant>,
    /// Status code of the last answer; 0 stands for none.
    code: u16,
    probed: Option<Instant>,
    version: Option<String>,
}

impl Probes {
    pub(crate) fn health(&self) -> &ApiServerHealth {
        &self.health
    }

    /// `gitVersion`, once the spoke has answered with it.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The time of the next probe, after `now` if it is not due: each `period`, sooner while the spoke fails.
    pub(crate) fn due(&self, period: Duration, now: Instant) -> Instant {
        let wait = self.failing_since.map_or(period, |_| period.min(RETRY_INTERVAL));
        self.probed.map_or(now, |probed| probed + wait)
    }

    pub(crate) fn probe(&mut self, spoke: &Client) {
        // Code 0 stands for no answer.
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
            // Only the wording may differ: no reason for another write each time.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn available_threshold() {
        let (mut probes, start) = (Probes::default(), Instant::now());
        probes.record(200, "ok", start);
        assert_eq!(*probes.health(), ApiServerHealth::Ok);
        // Time counts, not the number of failures.
        for after in [0, 1, 2, 3, 5, 10, 15] {
            probes.record(500, "etcd failed", start + seconds(60 + after));
            assert_eq!(*probes.health(), ApiServerHealth::Unknown, "{after}");
        }
        probes.record(500, "[-]etcd failed\n", start + seconds(80));
        let message = "The kube-apiserver is not ok, status code: 500, [-]etcd failed";
        assert_eq!(*probes.health(), ApiServerHealth::Failing(message.into()));
        probes.record(500, "[-]etcd failed, request 2\n", start + seconds(85));
        assert_eq!(*probes.health(), ApiServerHealth::Failing(message.into()), "the same failure");
        probes.record(0, "get /livez on the spoke: no answer in time", start + seconds(90));
        let message = "The kube-apiserver is not ok, status code: 0, \
                       get /livez on the spoke: no answer in time";
        assert_eq!(*probes.health(), ApiServerHealth::Failing(message.into()), "another one");
    }

    #[test]
    fn available_reset() {
        let (mut probes, start) = (Probes::default(), Instant::now());
        probes.record(500, "", start);
        probes.record(500, "", start + seconds(15));
        probes.record(200, "ok", start + seconds(19));
        probes.record(500, "", start + seconds(25));
        probes.record(500, "", start + seconds(40));
        assert_eq!(*probes.health(), ApiServerHealth::Unknown, "counted from the second failure");
        probes.record(500, "", start + seconds(45));
        assert!(matches!(probes.health(), ApiServerHealth::Failing(_)));
        probes.record(200, "ok", start + seconds(50));
        assert_eq!(*probes.health(), ApiServerHealth::Ok, "one success is enough");
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
}
