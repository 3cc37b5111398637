//! Heartbeat on the hub: the Lease `managed-cluster-lease`, which the hub creates and reads, and which this
//! agent renews while the hub accepts the cluster.

use std::time::{Duration, Instant};

use apiclient::{
    controller,
    error::Error,
    lock::lock,
    log_line::seconds,
    log_object,
    renewal::{Action, Now, Renewal, RenewalOutcome},
    resource::{LEASES, Target},
    stop::Stop,
};
use log::Level;
use serde_json::Value;
use sidecar::renewal;

use super::conditions::accepted;
use crate::{agent::Agent, state::HubSession};

/// The Lease's name on the hub (ocm `pkg/registration/hub/lease/controller.go`).
const LEASE: &str = "managed-cluster-lease";
/// The period if the ManagedCluster has none (ocm `pkg/registration/hub/lease/controller.go:116-119`).
const DEFAULT_PERIOD: Duration = Duration::from_secs(60);

/// The effect of the ManagedCluster on the Lease's renewal.
#[derive(Debug, PartialEq, Eq)]
enum LeaseChange {
    Same,
    Started,
    Stopped,
    Other(Duration),
}

/// Renews the Lease whenever it is due and the hub accepts the cluster, until the end of the process.
pub(crate) fn run(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        run_session(agent, &session, &LEASES.object(&session.names.cluster, LEASE));
        lock(&agent.heartbeat).beat = None;
    }
}

/// Renews it as long as `session` lasts.
fn run_session(agent: &Agent, session: &HubSession, lease: &Target<'_>) {
    let mut renewal = None;
    let mut generation = session.client.generation();
    controller::run(&agent.stop, || {
        if session.stop.raised() {
            return None;
        }
        let wanted = session.managed_cluster().and_then(|cluster| period_of(&cluster));
        let now = Now::read();
        lock(&agent.heartbeat).beat = Some(now.instant);
        announce(agent, lease, &apply(&mut renewal, wanted, now.instant));
        let Some(renewal) = &mut renewal else { return Some(now.instant + Stop::SLICE) };
        let current = session.client.generation();
        if std::mem::replace(&mut generation, current) != current {
            renewal.credentials_changed(now.instant);
        }
        Some(match renewal.next(true, now) {
            Action::Wait(until) => until,
            action => {
                renew(agent, session, lease, renewal, (&action, now));
                now.instant
            }
        })
    });
}

/// Performs one request of a renewal and reports its outcome.
fn renew(
    agent: &Agent,
    session: &HubSession,
    lease: &Target<'_>,
    renewal: &mut Renewal,
    request: (&Action, Now),
) {
    let (first, server) = (renewal.renewed().is_none(), session.client.name());
    let (outcome, answer) =
        renewal::attempt(renewal, &agent.heartbeat, &session.client, lease, request);
    match (&outcome, &answer) {
        (RenewalOutcome::Renewed { .. }, _) if first => {
            let every = renewal.period().as_secs();
            let message = format!("{} is renewed every {every} s", what(lease));
            agent.record_event("ManagedClusterLeaseUpdateStarted", false, &message);
        }
        // The hub creates it a moment after it accepts the cluster.
        (RenewalOutcome::Failed(retry), Err(Error::NotFound(_))) if first && retry.should_log => {
            log_object!(
                Level::Info, lease, server = server;
                "waiting for the hub to create the Lease"
            );
        }
        _ => renewal::log_outcome(server, lease, &outcome, &answer),
    }
}

/// The renewal period that `cluster` asks for; `None` if the hub does not accept it.
fn period_of(cluster: &Value) -> Option<Duration> {
    accepted(cluster).then(|| lease_period(cluster))
}

/// The renewal period that `cluster` asks for.
pub(crate) fn lease_period(cluster: &Value) -> Duration {
    let seconds = cluster["spec"]["leaseDurationSeconds"].as_i64();
    // The field is an int32; more would overflow a clock.
    let seconds = seconds.and_then(|seconds| i32::try_from(seconds).ok());
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).map_or(DEFAULT_PERIOD, Duration::from_secs)
}

/// Starts, stops or changes the renewal as `wanted`.
fn apply(renewal: &mut Option<Renewal>, wanted: Option<Duration>, now: Instant) -> LeaseChange {
    match (renewal.as_mut(), wanted) {
        (None, None) => LeaseChange::Same,
        (Some(_), None) => {
            *renewal = None;
            LeaseChange::Stopped
        }
        (Some(renewal), Some(wanted)) if wanted == renewal.period() => LeaseChange::Same,
        (Some(renewal), Some(wanted)) => {
            renewal.set_period(wanted);
            LeaseChange::Other(wanted)
        }
        (None, Some(wanted)) => {
            *renewal = Some(Renewal::of_others(wanted, now));
            LeaseChange::Started
        }
    }
}

fn announce(agent: &Agent, lease: &Target<'_>, change: &LeaseChange) {
    match change {
        LeaseChange::Same => {}
        // Its first success is reported.
        LeaseChange::Started => log_object!(Level::Debug, lease; "the hub accepts the cluster"),
        LeaseChange::Stopped => {
            let message =
                format!("{} goes stale: the hub does not accept the cluster", what(lease));
            // People look for upstream's spelling.
            agent.record_event("ManagedClusterLeaseUpdateStoped", true, &message);
        }
        LeaseChange::Other(period) => {
            let period = seconds(*period);
            log_object!(Level::Info, lease, period = period; "the renewal period has changed");
        }
    }
}

/// The Lease's name in a sentence.
fn what(lease: &Target<'_>) -> String {
    format!("Lease {}/{LEASE} on the hub", lease.namespace.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use apiclient::api::LeaseSpec;
    use serde_json::json;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn cluster(accepted: &str, seconds: &Value) -> Value {
        json!({
            "metadata": {"name": "cluster1"},
            "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": seconds},
            "status": {"conditions": [{"type": "HubAcceptedManagedCluster", "status": accepted}]},
        })
    }

    /// State of a heartbeat loop without its requests.
    struct Bench {
        renewal: Option<Renewal>,
        now: Now,
    }

    impl Bench {
        fn new() -> Self {
            Self { renewal: None, now: Now::read() }
        }

        /// The loop reads this ManagedCluster.
        fn sees(&mut self, cluster: Option<&Value>) -> LeaseChange {
            let wanted = cluster.and_then(period_of);
            apply(&mut self.renewal, wanted, self.now.instant)
        }

        /// The requests until the next wait, and that wait.
        fn requests(&mut self) -> (Vec<&'static str>, Duration) {
            let (mut requests, renewal) = (Vec::new(), self.renewal.as_mut().unwrap());
            loop {
                let action = renewal.next(true, self.now);
                let answer = match &action {
                    Action::Wait(until) => return (requests, *until - self.now.instant),
                    Action::Replace(lease) => lease.clone(),
                    _ => apiclient::lease::new("cluster1", LEASE, LeaseSpec::default()),
                };
                requests.push(if action == Action::Read { "get" } else { "update" });
                let times = (self.now, self.now.instant);
                renewal.answered(&action, &Ok(answer), times, 0.5);
            }
        }

        fn pass(&mut self, time: Duration) {
            self.now = Now { instant: self.now.instant + time, wall: self.now.wall + time };
        }
    }

    // ocm lease_controller_test.go: start lease update routine
    #[test]
    fn accepted_cluster_starts_the_heartbeat() {
        let mut bench = Bench::new();
        assert_eq!(bench.sees(Some(&cluster("True", &json!(60)))), LeaseChange::Started);
        assert_eq!(bench.sees(Some(&cluster("True", &json!(60)))), LeaseChange::Same);
        // A Lease without a renewTime is renewed as well.
        assert_eq!(bench.requests(), (vec!["get", "update"], MINUTE));
        bench.pass(MINUTE);
        assert_eq!(bench.requests(), (vec!["update"], MINUTE), "one request a period");
    }

    // ocm lease_controller_test.go: the managed cluster can not be found
    #[test]
    fn missing_cluster_stops_the_heartbeat() {
        let mut bench = Bench::new();
        assert_eq!(bench.sees(None), LeaseChange::Same, "was not started");
        bench.sees(Some(&cluster("True", &json!(60))));
        assert_eq!(bench.sees(None), LeaseChange::Stopped);
        assert!(bench.renewal.is_none());
        assert_eq!(bench.sees(None), LeaseChange::Same, "told once");
    }

    // ocm lease_controller_test.go: unaccept a managed cluster
    #[test]
    fn denied_cluster_stops_the_heartbeat() {
        let mut bench = Bench::new();
        assert_eq!(bench.sees(Some(&cluster("False", &json!(60)))), LeaseChange::Same);
        bench.sees(Some(&cluster("True", &json!(60))));
        bench.requests();
        assert_eq!(bench.sees(Some(&cluster("False", &json!(60)))), LeaseChange::Stopped);
        // Accepted again: the hub may have created a new Lease meanwhile.
        assert_eq!(bench.sees(Some(&cluster("True", &json!(60)))), LeaseChange::Started);
        assert_eq!(bench.requests().0, ["get", "update"]);
    }

    // ocm lease_controller_test.go: update the lease duration
    #[test]
    fn changed_lease_duration_changes_the_period() {
        let mut bench = Bench::new();
        bench.sees(Some(&cluster("True", &json!(60))));
        bench.requests();
        bench.pass(Duration::from_secs(10));
        let short = Duration::from_secs(5);
        assert_eq!(bench.sees(Some(&cluster("True", &json!(5)))), LeaseChange::Other(short));
        assert_eq!(bench.sees(Some(&cluster("True", &json!(5)))), LeaseChange::Same);
        assert_eq!(bench.requests(), (vec!["update"], short), "due at once");
    }

    #[test]
    fn the_period_is_the_managed_clusters_or_a_minute() {
        let usual = [json!(0), json!(null), json!(-5), json!("60"), json!(1_u64 << 40), json!(1.5)];
        for seconds in usual {
            assert_eq!(period_of(&cluster("True", &seconds)), Some(MINUTE), "{seconds}");
        }
        assert_eq!(period_of(&cluster("True", &json!(5))), Some(Duration::from_secs(5)));
        assert_eq!(period_of(&cluster("Unknown", &json!(5))), None);
        assert_eq!(period_of(&json!({"spec": {"leaseDurationSeconds": 5}})), None);
    }
}
