//! Heartbeat on the hub: the Lease that the hub creates, and this agent renews while the hub accepts the cluster.

use std::time::Duration;

use apiclient::{
    controller,
    error::Error,
    lease::{Now, Renewal},
    lock::lock,
    log_line::seconds,
    log_object,
    resource::{LEASES, Target},
    stop::Stop,
};
use log::Level;
use serde_json::Value;
use sidecar::renewal;

use crate::{agent::Agent, conditions::accepted, state::HubSession};

/// The Lease's name on the hub (ocm `pkg/registration/hub/lease/controller.go`).
const LEASE: &str = "managed-cluster-lease";
/// The period if the ManagedCluster has none (ocm `pkg/registration/hub/lease/controller.go:116-119`).
const DEFAULT_PERIOD: Duration = Duration::from_secs(60);

/// Renews the Lease whenever it is due and the hub accepts the cluster, until the end of the process.
pub(crate) fn run(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        run_session(agent, &session, &LEASES.object(&session.names.cluster, LEASE));
        lock(&agent.heartbeat).beat = None;
    }
}

fn run_session(agent: &Agent, session: &HubSession, lease: &Target<'_>) {
    let mut renewal = None;
    let mut generation = session.client.generation();
    controller::run(&agent.stop, || {
        if session.stop.raised() {
            return None;
        }
        let period = session.managed_cluster().and_then(|cluster| period_of(&cluster));
        let (now, before) = (Now::read(), renewal.as_ref().map(Renewal::period));
        lock(&agent.heartbeat).beat = Some(now.instant);
        if before != period {
            // The first success of a new `Renewal` is reported.
            renewal = period.map(|period| Renewal::new(None, period, now.instant));
        }
        match (before, period) {
            (Some(_), None) => {
                let what = sentence_name(lease);
                let message = format!("{what} goes stale: the hub does not accept the cluster");
                // People search for upstream's spelling.
                agent.record_event("ManagedClusterLeaseUpdateStoped", true, &message);
            }
            (Some(before), Some(period)) if before != period => {
                let period = seconds(period);
                log_object!(Level::Info, lease, period = period; "the renewal period has changed");
            }
            _ => {}
        }
        let Some(renewal) = &mut renewal else { return Some(now.instant + Stop::SLICE) };
        let current = session.client.generation();
        if std::mem::replace(&mut generation, current) != current {
            renewal.credentials_changed(now.instant);
        }
        if renewal.due(now) <= now.instant {
            renew(agent, session, lease, renewal, now);
        }
        Some(renewal.due(now))
    });
}

fn renew(agent: &Agent, session: &HubSession, lease: &Target<'_>, renewal: &mut Renewal, now: Now) {
    let (first, server) = (renewal.is_first(), session.client.name());
    let result =
        renewal::attempt(renewal, &agent.heartbeat, &session.client, lease, (now, &|| true));
    // The selection of a hub depends on the heartbeat.
    agent.stop.wake();
    match &result {
        Ok(_) if first => {
            let every = renewal.period().as_secs();
            let message = format!("{} is renewed every {every} s", sentence_name(lease));
            agent.record_event("ManagedClusterLeaseUpdateStarted", false, &message);
        }
        // The hub creates the Lease a moment after it accepts the cluster.
        Err((Error::NotFound(_), retry)) if first && retry.should_log => log_object!(
            Level::Info, lease, server = server;
            "waiting for the hub to create the Lease"
        ),
        _ => renewal::log_result(server, lease, &result),
    }
}

/// Returns the renewal period of `cluster`; `None` if the hub has not accepted it.
fn period_of(cluster: &Value) -> Option<Duration> {
    let seconds = cluster["spec"]["leaseDurationSeconds"].as_u64();
    // The field is an int32; larger values would overflow a clock.
    let seconds = seconds.filter(|seconds| *seconds > 0 && i32::try_from(*seconds).is_ok());
    let period = seconds.map_or(DEFAULT_PERIOD, Duration::from_secs);
    accepted(cluster).then_some(period)
}

fn sentence_name(lease: &Target<'_>) -> String {
    format!("Lease {}/{LEASE} on the hub", lease.namespace.unwrap_or_default())
}

#[cfg(test)]
mod tests {
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
